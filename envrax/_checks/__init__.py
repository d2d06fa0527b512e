"""Checks of user input, with messages that say what was expected, what came, and what to do."""
