# pyright: reportMissingImports=false
"""Ports and their originals, for `python -m benchmarks matches`: a module for each kind."""

from benchmarks.ports import atari, classic, games, grids, minatar, physics
from benchmarks.ports.port import Port

PORTS: dict[str, list[Port]] = {}
for module in (classic, minatar, grids, games, physics, atari):
    for library, ports in module.PORTS.items():
        PORTS.setdefault(library, []).extend(ports)

__all__ = ["PORTS", "Port"]
