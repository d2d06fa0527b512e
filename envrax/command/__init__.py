"""What `python -m envrax` does: a file for each command, which it finds here by itself."""
