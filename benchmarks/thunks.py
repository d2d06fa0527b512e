"""
What a GPU is given to do for one step, read from the list of thunks that XLA writes.

A thunk is one piece of work that the host hands to the GPU: a kernel, a copy, or a command buffer,
which is many of them in one launch. Loops and branches are led by the host: it waits for an answer
of the GPU before it goes on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

THUNK = re.compile(r"(\s*)(\d+): (k\w+)")
PART = re.compile(r"(\s*)(condition|body|\w*branch\w*):")  # of a loop or a branch
# Thunks that only hold or order others.
NO_WORK = "kAsyncStart", "kAsyncDone", "kDynamicSliceFusion", "kSequential"


@dataclass
class Thunk:
    """
    A thunk, or a part of one: the body of a loop, a branch.

    Attributes
    ----------
    kind : str
        XLA's name, such as "kWhile"; of a part, its label, such as "body".
    id : int
        XLA's number; -1 of a part.
    inner : list of Thunk
        What it holds.
    """

    kind: str
    id: int = -1
    inner: list["Thunk"] = field(default_factory=list["Thunk"])

    def walk(self) -> Iterator["Thunk"]:
        """This thunk and all that it holds."""
        yield self
        for thunk in self.inner:
            yield from thunk.walk()

    def part(self, kind: str) -> "Thunk":
        """The part with this label."""
        return next(thunk for thunk in self.inner if thunk.kind == kind)


@dataclass(frozen=True)
class Cost:
    """
    What a thunk costs.

    Attributes
    ----------
    kernels : int
        Kernels and copies that the GPU runs.
    launches : int
        What the host launches for them; a command buffer is one.
    syncs : int
        How often the host waits for the GPU to tell how to go on.
    """

    kernels: int = 0
    launches: int = 0
    syncs: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.kernels + other.kernels, self.launches + other.launches, self.syncs + other.syncs
        )

    def times(self, n: int) -> "Cost":
        return Cost(n * self.kernels, n * self.launches, n * self.syncs)


def read(text: str) -> Thunk:
    """The tree of thunks that a `thunk_sequence_after_thunk_passes.txt` shows by indentation."""
    root = Thunk("root")
    open_thunks = [(-1, root)]  # with the indentation of each
    for line in re.sub(r"No thunks\.", "No thunks.\n", text).splitlines():
        found = THUNK.match(line) or PART.match(line)
        if not found:
            continue
        indent = len(found[1])
        thunk = Thunk(found[3], int(found[2])) if found.re is THUNK else Thunk(found[2])
        if thunk.kind == "condition":  # is written without indentation
            indent = [at for at, outer in open_thunks if outer.kind == "kWhile"][-1] + 2
        while open_thunks[-1][0] >= indent:
            open_thunks.pop()
        open_thunks[-1][1].inner.append(thunk)
        open_thunks.append((indent, thunk))
    return root


def known_rounds(program: str, metadata: str) -> dict[int, int]:
    """
    The number of rounds of the loops for which XLA knows it, by the id of the thunk.

    Parameters
    ----------
    program : str
        The optimised program.
    metadata : str
        The `thunk_metadata.txt`, which has the instruction of each thunk.
    """
    rounds = dict[str, int]()
    for line in program.splitlines():
        loop = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = .* while\(", line)
        known = re.search(r"known_trip_count\D*(\d+)", line)
        if loop and known:
            rounds[loop[1]] = int(known[1])
    by_id = dict[int, int]()
    for block in metadata.split("thunk_metadata {"):
        name = re.search(r'profile_annotation: "([^"]*)"', block)
        number = re.search(r"thunk_id: (\d+)", block)
        if name and number and name[1] in rounds:
            by_id[int(number[1])] = rounds[name[1]]
    return by_id


def step_costs(root: Thunk, rounds: dict[int, int]) -> tuple[Cost, Cost]:
    """
    The cost of a round of the last outermost loop, a scan over steps, at least and with an end.

    At least: each loop of unknown length makes no round, and each branch is the one with fewer
    syncs, then kernels. With an end: one round each, and the other branch.
    """
    loop = [thunk for thunk in root.inner if thunk.kind == "kWhile"][-1]
    body = loop.part("body")
    return _cost(body, rounds, with_end=False), _cost(body, rounds, with_end=True)


def _cost(thunk: Thunk, rounds: dict[int, int], with_end: bool) -> Cost:
    def of_all(thunks: list[Thunk]) -> Cost:
        return sum((_cost(inner, rounds, with_end) for inner in thunks), Cost())

    if thunk.kind == "kCommandBuffer":
        return Cost(of_all(thunk.inner).kernels, 1, 0)  # the GPU itself leads what is in it
    if thunk.kind == "kWhile":
        body = _cost(thunk.part("body"), rounds, with_end)
        if thunk.id in rounds:
            return body.times(rounds[thunk.id])
        asked = _cost(thunk.part("condition"), rounds, with_end) + Cost(syncs=1)
        return asked + body + asked if with_end else asked
    if thunk.kind == "kConditional":
        branches = [_cost(branch, rounds, with_end) for branch in thunk.inner]
        choose = max if with_end else min
        return Cost(syncs=1) + choose(branches, key=lambda cost: (cost.syncs, cost.kernels))
    if thunk.kind in NO_WORK or thunk.id == -1:
        return of_all(thunk.inner)
    return Cost(1, 1, 0)
