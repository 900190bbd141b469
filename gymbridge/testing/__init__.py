"""Simulators with a script, for tests and documentation: no engine, every step known beforehand."""

from gymbridge.testing.scripted import (
    ScriptedEnv,
    ScriptedSimulator,
    draw_number,
    scripted_vector_env,
)

__all__ = ["ScriptedEnv", "ScriptedSimulator", "draw_number", "scripted_vector_env"]
