"""Environments of envrax for other trainers, one module for each target."""
