"""Drawings in pixels with y pointing down, in two colour schemes, saved as SVG."""

import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

MONO = "DejaVu Sans Mono"  # comes with matplotlib, as does its default font


@dataclass(frozen=True)
class Scheme:
    """
    Colours to go with one of mkdocs-material's schemes.

    Attributes
    ----------
    name : str
        Ends the file's name.
    ink, faint, panel : str
        Text; what stands back; the ground of a group.
    soft, strong : tuple of str
        Blue, coral, teal, amber and violet, to write on and to draw with.
    """

    name: str
    ink: str
    faint: str
    panel: str
    soft: tuple[str, ...]
    strong: tuple[str, ...]


SCHEMES = (
    Scheme(
        "light",
        ink="#1f2430",
        faint="#6b7280",
        panel="#f3f4f7",
        soft=("#d6e4ff", "#ffdcd4", "#cdf1e7", "#ffecc2", "#e9defb"),
        strong=("#2f6fb5", "#e2614b", "#1a9c81", "#c98500", "#8257c9"),
    ),
    Scheme(
        "dark",
        ink="#e6e8ee",
        faint="#a3a9b8",
        panel="#282c37",
        soft=("#234675", "#74362c", "#145a4c", "#5f470f", "#4b3578"),
        strong=("#6ea8ec", "#f28a76", "#3fc6a8", "#e5b04b", "#b394ec"),
    ),
)


def figure_of(width: int, height: int) -> Figure:
    """A transparent figure; a browser shows it in these pixels."""
    figure = Figure(figsize=(width / 96, height / 96), dpi=96)
    figure.patch.set_alpha(0)
    return figure


def save_svg(figure: Figure, folder: Path, name: str, scheme: Scheme) -> Path:
    """Save without a date, a version or random ids, so that equal drawings are equal files."""
    path = folder / f"{name}-{scheme.name}.svg"
    with mpl.rc_context({"svg.hashsalt": "envrax", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(_shortened(path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def _shortened(svg: str) -> str:
    """The same picture in half the space."""

    def outline(path: re.Match[str]) -> str:  # of a letter, in 2048 steps: 512 are enough
        coarse = re.sub(r"-?\d+", lambda number: str(round(int(number[0]) / 4)), path[1])
        return f'd="{coarse}" transform="scale(0.0625)"'

    def rounded(numbers: re.Match[str]) -> str:
        return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", numbers[0])

    svg = re.sub(r'd="([^"]+)" transform="scale\(0\.015625\)"', outline, svg)
    svg = re.sub(r'(?<= d=")[^"]+|(?<=translate\()[^)]+', rounded, svg)
    svg = re.sub(r"\s*\b([MLQCz])\b\s*", r"\1", svg)
    svg = re.sub(r"<metadata>.*</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(?<=<g) id="\w+"', "", svg)
    svg = re.sub(r'transform="translate\((\S+) 0\)"/>', r'x="\1"/>', svg)
    for short, font in [("m", "DejaVuSansMono-"), ("b", "DejaVuSans-Bold-"), ("s", "DejaVuSans-")]:
        svg = svg.replace(f'id="{font}', f'id="{short}').replace(f'"#{font}', f'"#{short}')
    lines = [line.strip() for line in svg.splitlines() if line.strip() and "<!--" not in line]
    return "\n".join(lines) + "\n"


class Sheet:
    """An empty drawing; all lengths are in pixels, from the upper left corner."""

    def __init__(self, width: int, height: int, scheme: Scheme) -> None:
        self.scheme = scheme
        self.figure = figure_of(width, height)
        self._axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self._axes.set_axis_off()

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        edge: str = "none",
        corner: float = 5,
        line: float = 1,
        dashed: bool = False,
    ) -> None:
        """A rectangle with round corners."""
        style = f"round,pad=0,rounding_size={corner}"
        dashes = (0, (4, 3)) if dashed else "solid"
        patch = FancyBboxPatch(
            (x, y),
            width,
            height,
            style,
            fc=fill,
            ec=edge,
            lw=line,
            ls=dashes,
            joinstyle="round",
            zorder=2,
            clip_on=False,
        )
        self._axes.add_patch(patch)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 12,
        colour: str | None = None,
        at: str = "center",
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Words, with the middle of their line at y."""
        self._axes.text(
            x,
            y,
            text,
            fontsize=0.75 * size,  # in points, of which there are 72 to 96 pixels
            color=colour or self.scheme.ink,
            ha=at,
            va="center_baseline" if "\n" not in text else "center",
            family=MONO if mono else "DejaVu Sans",
            weight="bold" if bold else "normal",
            zorder=4,
        )

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], colour: str | None = None
    ) -> None:
        """A straight arrow."""
        patch = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>,head_length=5,head_width=2.5",
            shrinkA=0,
            shrinkB=0,
            color=colour or self.scheme.faint,
            lw=1.2,
            mutation_scale=1,
            zorder=3,
        )
        self._axes.add_patch(patch)

    def save(self, folder: Path, name: str) -> Path:
        return save_svg(self.figure, folder, name, self.scheme)
