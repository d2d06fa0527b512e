"""Environments of envrax for other trainers: one module a target, over one driver."""
