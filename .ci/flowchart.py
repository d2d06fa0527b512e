"""
Draw the flowcharts of the pages (`hooks` in mkdocs.yml), so that the site needs no script for it.

A block of `mermaid` is drawn by forges as well. Of its language this reads `flowchart TD`: nodes
`a["text"]` and `a{"text"}`, and edges `a --> b` and `a -- text --> b`, also several in a row.
"""

import html
import re
from typing import Any

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NODE = re.compile(r"(\w+)(?:[\[{]\"(.+?)\"[\]}])?\s*")
EDGE = re.compile(r"--(?:\s+(.+?)\s+--)?>\s*")
CHARACTER, ROOM = 7.4, 28  # the width of one; beside a text
HEIGHT, BETWEEN = 34, 40  # of a box, and between two rows


def on_page_markdown(markdown: str, **_: Any) -> str:
    return BLOCK.sub(lambda found: drawn(found[1]), markdown)


def drawn(chart: str) -> str:
    """A chart as SVG."""
    texts, edges = read(chart)
    rows: list[list[str]] = []
    for name in texts:
        rank = rank_of(name, edges)
        rows += [[] for _ in range(rank + 1 - len(rows))]
        rows[rank].append(name)
    sizes = {name: CHARACTER * len(text) + ROOM for name, text in texts.items()}
    width = max(sum(sizes[name] + ROOM for name in row) for row in rows)
    places: dict[str, tuple[float, float]] = {}
    for rank, row in enumerate(rows):
        left = (width - sum(sizes[name] + ROOM for name in row)) / 2
        for name in row:
            places[name] = left + (sizes[name] + ROOM) / 2, rank * (HEIGHT + BETWEEN) + 1
            left += sizes[name] + ROOM
    height = len(rows) * (HEIGHT + BETWEEN) - BETWEEN + 2
    shapes = [_edge(places[a], places[b], text) for a, b, text in edges]
    shapes += [_box(*places[name], sizes[name], text) for name, text in texts.items()]
    head = f'<svg class="chart" viewBox="0 0 {width:.0f} {height}" style="width: {width:.0f}px"'
    return f'{head} role="img">{"".join(shapes)}</svg>\n'


def read(chart: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The texts of the nodes by name, and the edges: from, to, text."""
    first, *lines = chart.strip().splitlines()
    if first != "flowchart TD":
        raise ValueError(f"expected a chart that begins with `flowchart TD`; got {first!r}")
    texts: dict[str, str] = {}
    edges: list[tuple[str, str, str]] = []
    for line in map(str.strip, lines):
        at, before, text = 0, "", ""
        while node := NODE.match(line, at):
            texts.setdefault(node[1], node[2] or node[1])
            edges += [(before, node[1], text)] if before else []
            edge = EDGE.match(line, node.end())
            at, before = node.end(), node[1]
            if not edge:
                break
            at, text = edge.end(), edge[1] or ""
        if at != len(line):
            raise ValueError(f"expected nodes and edges as .ci/flowchart.py says; got {line!r}")
    return texts, edges


def rank_of(name: str, edges: list[tuple[str, str, str]]) -> int:
    """The row of a node: one below all that lead to it."""
    return max((1 + rank_of(a, edges) for a, b, _ in edges if b == name), default=0)


def _box(x: float, y: float, width: float, text: str) -> str:
    return (
        f'<rect x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="4"/>'
        f'<text x="{x:.0f}" y="{y + 22}">{html.escape(text)}</text>'
    )


def _edge(start: tuple[float, float], end: tuple[float, float], text: str) -> str:
    (x, y), (to_x, to_y) = (start[0], start[1] + HEIGHT), end
    words = (
        f'<text x="{(x + to_x) / 2:.0f}" y="{(y + to_y) / 2 + 4:.0f}">{html.escape(text)}</text>'
    )
    head = f"M{to_x - 4:.0f} {to_y - 7}L{to_x:.0f} {to_y}L{to_x + 4:.0f} {to_y - 7}"
    return f'<path d="M{x:.0f} {y}L{to_x:.0f} {to_y}{head}"/>{words if text else ""}'
