"""Conformance checks for authors of environments, verified ports, and fakes for their tests."""

from envrax.testing.check import check_batched_env, check_env, report_batched_env, report_env
from envrax.testing.fakes import CountingEnv, ImageEnv, MaskedEnv, NestedEnv, RingWorld
from envrax.testing.match import Case, Check, Match, match_env
from envrax.testing.multi_agent_fakes import ChaseWorld, NimWorld
from envrax.testing.report import ConformanceError, Finding, Report

__all__ = [
    "Case",
    "ChaseWorld",
    "Check",
    "ConformanceError",
    "CountingEnv",
    "Finding",
    "ImageEnv",
    "MaskedEnv",
    "Match",
    "NestedEnv",
    "NimWorld",
    "Report",
    "RingWorld",
    "check_batched_env",
    "check_env",
    "match_env",
    "report_batched_env",
    "report_env",
]
