"""How the four factories compose."""

from pathlib import Path

from sheet import SCHEMES, Scheme, Sheet

BLUE, CORAL, TEAL, AMBER, VIOLET = range(5)
LAYERS = (TEAL, TEAL, AMBER)  # around an environment: two wrappers and the `JitWrapper`
CELL, GAP = (322, 150), 32  # of the four panels


def draw(folder: Path) -> list[Path]:
    """Draw it in both schemes."""
    return [_draw(scheme).save(folder, "factories") for scheme in SCHEMES]


def _draw(scheme: Scheme) -> Sheet:
    sheet = Sheet(700, 488, scheme)
    _pipeline(sheet)
    (width, height), left, top = CELL, 12, 146
    right, bottom = left + width + GAP, top + height + GAP
    centre = left + width / 2, right + width / 2
    for start, end in (
        ((left + width + 4, top + 75), (right - 4, top + 75)),
        ((centre[0], top + height + 4), (centre[0], bottom - 4)),
        ((centre[1], top + height + 4), (centre[1], bottom - 4)),
    ):
        sheet.arrow(start, end)
    _panel(sheet, left, top, "make(name)", "an environment in its wrappers, compiled")
    _stack(sheet, centre[0], top + 98, 3)
    _panel(sheet, right, top, "make_vec(name, n_envs=4)", "copies of it that reset themselves")
    _vec_env(sheet, centre[1], top + 98)
    _panel(sheet, left, bottom, "make_multi(names)", "what make gives, for each name")
    _fleet(sheet, centre[0], bottom + 98, 130, "MultiEnv")
    for x, core in ((-32, BLUE), (32, VIOLET)):
        _stack(sheet, centre[0] + x, bottom + 104, 3, 0.55, core)
    call = "make_multi_vec(names, n_envs=4)"
    _panel(sheet, right, bottom, call, "what make_vec gives, for each name")
    _fleet(sheet, centre[1], bottom + 98, 300, "MultiVecEnv")
    for x, core in ((-73, BLUE), (73, VIOLET)):
        _vec_env(sheet, centre[1] + x, bottom + 106, core, small=True)
    return sheet


def _pipeline(sheet: Sheet) -> None:
    """What all four do with a name."""
    scheme, middle, below = sheet.scheme, 52, 114
    sheet.text(86, below, "registry", size=11)
    sheet.box(12, middle - 40, 148, 80, scheme.panel, scheme.faint)
    sheet.box(17, middle - 12, 138, 24, scheme.soft[BLUE], scheme.strong[BLUE])
    for row, name in enumerate(["classic/Catch-v0", "classic/Maze-v0", "classic/Pendulum-v0"]):
        sheet.text(24, middle + 24 * (row - 1), name, size=10, at="left", mono=True)
    sheet.box(194, middle - 28, 110, 56, scheme.panel, scheme.faint)
    for row, name in enumerate(["env_class", "default_config"]):
        sheet.text(249, middle - 11 + 22 * row, name, size=10, mono=True)
    for x, n_layers in ((352, 0), (440, 1), (536, 2), (642, 3)):
        _stack(sheet, x, middle, n_layers)
    for start, end in ((164, 190), (308, 330), (374, 411), (469, 500), (572, 599)):
        sheet.arrow((start, middle), (end, middle))
    names = ["EnvSpec", "env", "wrappers[0]", "wrappers[1]", "JitWrapper"]
    for x, name in zip((249, 352, 440, 536, 642), names, strict=True):
        sheet.text(x, below, name, size=11, mono=True)


def _panel(sheet: Sheet, x: float, y: float, call: str, what: str) -> None:
    sheet.box(x, y, *CELL, sheet.scheme.panel, corner=8)
    sheet.text(x + 14, y + 20, call, at="left", mono=True, bold=True)
    sheet.text(x + 14, y + 39, what, size=11, at="left", colour=sheet.scheme.faint)


def _stack(
    sheet: Sheet, x: float, y: float, n_layers: int, scale: float = 1.0, core: int = BLUE
) -> None:
    """An environment around (x, y), in the first few of its layers."""
    strong, soft = sheet.scheme.strong, sheet.scheme.soft
    for n in range(n_layers, 0, -1):
        half, layer = scale * (16 + 8 * n), LAYERS[n - 1]
        corner = scale * (4 + 4 * n)
        sheet.box(x - half, y - half, 2 * half, 2 * half, soft[layer], strong[layer], corner)
    half = scale * 16
    sheet.box(x - half, y - half, 2 * half, 2 * half, strong[core], corner=scale * 5)


def _vec_env(sheet: Sheet, x: float, y: float, core: int = BLUE, small: bool = False) -> None:
    """Four copies around (x, y)."""
    scheme = sheet.scheme
    width, height, scale, pitch = (138, 56, 0.36, 32) if small else (230, 82, 0.6, 54)
    fill, edge = scheme.soft[CORAL], scheme.strong[CORAL]
    sheet.box(x - width / 2, y - height / 2, width, height, fill, edge, corner=8)
    label = y - height / 2 + 11
    sheet.text(x - width / 2 + 8, label, "VecEnv", size=11, at="left", mono=True)
    for slot in range(4):
        _stack(sheet, x + pitch * (slot - 1.5), y + 8, 3, scale, core)


def _fleet(sheet: Sheet, x: float, y: float, width: float, name: str) -> None:
    scheme = sheet.scheme
    sheet.box(x - width / 2, y - 44, width, 88, "none", scheme.ink, corner=10, dashed=True)
    sheet.text(x - width / 2 + 8, y - 33, name, size=11, at="left", mono=True)
