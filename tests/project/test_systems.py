"""The table of all systems that go in or out."""

import re

from benchmarks.libraries import ROOT, with_adapter
from benchmarks.pages import all_systems, systems
from envrax import interop


def test_each_bridge_and_each_adapter_has_a_row_and_each_row_a_test() -> None:
    rows = all_systems()
    assert [row["test"] for row in rows if not (ROOT / row["test"]).is_file()] == []
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row["call"])}
    assert {*interop._BRIDGES} <= named  # pyright: ignore[reportPrivateUsage]
    pages = [re.findall(r"libraries/(\w+)\.md", row["system"]) for row in rows]
    assert {*with_adapter()} <= {name for page in pages for name in page}
    table = [*systems()]
    assert len(table) == 2 + len(rows) and {line.count("|") for line in table} == {6}
