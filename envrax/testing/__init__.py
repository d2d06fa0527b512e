"""Conformance checks for authors of environments and wrappers, and small fakes for their tests."""

from envrax.testing.check import check_batched_env, check_env, report_batched_env, report_env
from envrax.testing.fakes import CountingEnv, ImageEnv, MaskedEnv, NestedEnv, RingWorld
from envrax.testing.multi_agent_fakes import ChaseWorld, NimWorld
from envrax.testing.report import ConformanceError, Finding, Report

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
