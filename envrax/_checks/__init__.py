"""Checks of user input. Messages say what was expected, what was passed, and what to do."""
