"""A checker for any vector environment, and a batch for tests that follows a script."""

from gymbridge.testing.checker import RULES, Evidence, Report, Result, Rule, check_vector_env
from gymbridge.testing.scripted import ScriptedSimulator, draw_number, scripted_vector_env

__all__ = [
    "RULES",
    "Evidence",
    "Report",
    "Result",
    "Rule",
    "ScriptedSimulator",
    "check_vector_env",
    "draw_number",
    "scripted_vector_env",
]
