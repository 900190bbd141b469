"""Translations between engines and the core; nothing here knows autoreset modes or time limits."""
