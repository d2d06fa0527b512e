"""Print the command that README.md gives under a heading: `readme_command.py Test`.

README holds exactly two bash blocks, one under "Train" and one under "Test"; anything else is an
error, so that what CI runs is what a reader pastes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
HEADINGS = ["Train", "Test"]


def bash_blocks(markdown: str) -> list[tuple[str, str]]:
    """Return (heading it stands under, code) for every bash block, in order."""
    blocks: list[tuple[str, str]] = []
    heading, fence, code = "", "", list[str]()
    for line in markdown.splitlines():
        mark = re.match(r"(`{3,}|~{3,})(.*)", line.strip())
        if fence:
            if mark and mark[1].startswith(fence[:3]) and not mark[2].strip():
                if fence.endswith("bash"):
                    blocks.append((heading, "\n".join(code)))
                fence = ""
            else:
                code.append(line)
        elif mark:
            fence, code = mark[1] + mark[2].strip(), []
        elif title := re.match(r"#+\s+(.*?)\s*#*$", line):
            heading = title[1]
    return blocks


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in HEADINGS:
        sys.exit(f"usage: readme_command.py {{{','.join(HEADINGS)}}}")
    blocks = bash_blocks(README.read_text(encoding="utf-8"))
    found = [heading for heading, _ in blocks]
    if found != HEADINGS:
        sys.exit(f"README.md: expected one bash block under each of {HEADINGS}; got {found}.")
    print(dict(blocks)[sys.argv[1]])


if __name__ == "__main__":
    main()
