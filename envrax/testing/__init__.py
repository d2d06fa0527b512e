"""Conformance checks for people who write environments and wrappers, and fakes for their tests."""

from envrax.testing.check import check_batched_env, check_env, report_batched_env, report_env
from envrax.testing.fakes import CountingEnv, ImageEnv, MaskedEnv, NestedEnv, RingWorld
from envrax.testing.report import ConformanceError, Finding, Report
from envrax.testing.multi_agent_fakes import ChaseWorld, NimWorld

__all__ = [
    "ChaseWorld",
    "ConformanceError",
    "CountingEnv",
    "Finding",
    "ImageEnv",
    "MaskedEnv",
    "NestedEnv",
    "NimWorld",
    "Report",
    "RingWorld",
    "check_batched_env",
    "check_env",
    "report_batched_env",
    "report_env",
]
