"""Translations between engines and the core, which holds the autoreset rule and the time limit."""
