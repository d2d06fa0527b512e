"""What `python -m envrax` does."""
