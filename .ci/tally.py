"""Sum up pytest's JUnit reports: `tally.py DIRECTORY` closes with `N passed, 0 failed`.

Exits non-zero where a test failed or was skipped, and where none ran.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def main() -> None:
    passed = failed = skipped = 0
    for report in sorted(Path(sys.argv[1]).glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                failed += 1
            elif "skipped" in outcomes:
                skipped += 1
                print(f"{report.stem}: skipped {case.get('classname')}.{case.get('name')}")
            else:
                passed += 1
    skips = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{skips}")
    if failed or skipped or not passed:
        sys.exit(1)


if __name__ == "__main__":
    main()
