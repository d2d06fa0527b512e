"""Auto-reset in time: what a `VecEnv` returns where an episode ends."""

from pathlib import Path

from sheet import SCHEMES, Scheme, Sheet

STEPS = 10
LENGTHS = [(4, 5, 8), (7, 9), (2, 3, 9)]  # of the episodes of each slot; the last ones go on
LEFT, COLUMN, ROW = 138, 51, 34  # where the column of `reset` begins; sizes of a cell


def draw(folder: Path) -> list[Path]:
    """Draw it in both schemes."""
    return [_draw(scheme).save(folder, "autoreset") for scheme in SCHEMES]


def _draw(scheme: Scheme) -> Sheet:
    sheet = Sheet(LEFT + COLUMN * (STEPS + 1) + 5, 396, scheme)
    end = LENGTHS[0][0]  # the step to look at
    sheet.box(_x(end) + 1, 6, COLUMN - 2, 334, fill=scheme.panel, edge=scheme.faint, dashed=True)
    sheet.text(LEFT - 12, 22, "step", at="right", colour=scheme.faint)
    for step in range(STEPS + 1):
        name = str(step) if step else "reset"
        sheet.text(_x(step + 0.5), 22, name, size=11, colour=scheme.faint, bold=step == end)
    for slot, lengths in enumerate(LENGTHS):
        _episodes(sheet, 40 + ROW * slot, slot, lengths)
    sheet.text(8, 170, "What the calls return for slot 0", at="left", bold=True)
    count = "numbers: the n-th observation, 0 is the first"
    sheet.text(_x(STEPS + 1) - 4, 170, count, size=11, at="right", colour=scheme.faint)
    _returned(sheet, 188)
    middle = LEFT + COLUMN * (STEPS + 1) / 2 - 60
    sheet.text(middle, 358, f"Step {end} ends episode 1 and begins episode 2.", bold=True)
    what = "Its reward, done and final_obs are still those of episode 1; obs and state are already"
    sheet.text(middle, 378, f"{what} the first of episode 2.")
    return sheet


def _x(column: float) -> float:
    return LEFT + COLUMN * column


def _episodes(sheet: Sheet, top: float, slot: int, lengths: tuple[int, ...]) -> None:
    """The bars of a slot, one for each episode."""
    scheme, first = sheet.scheme, 1
    sheet.text(LEFT - 12, top + ROW / 2, f"slot {slot}", at="right")
    for episode, length in enumerate(lengths):
        n_seen = min(length, STEPS + 1 - first)
        x, width = _x(first) + 2, COLUMN * n_seen - 4
        soft, strong = scheme.soft[episode], scheme.strong[episode]
        sheet.box(x, top + 4, width, ROW - 8, soft, strong)
        label = f"episode {episode + 1}" if n_seen > 1 else f"{episode + 1}"
        sheet.text(x + 8, top + ROW / 2, label, size=11, at="left")
        if n_seen == length:
            sheet.text(x + width - 6, top + ROW / 2, "done", size=10, at="right", bold=True)
        else:
            sheet.text(x + width - 6, top + ROW / 2, "...", size=11, at="right")
        first += n_seen


def _returned(sheet: Sheet, top: float) -> None:
    """A row for each thing returned, every cell in the colour of the episode it belongs to."""
    lengths = LENGTHS[0]
    # The episode that each call steps, and which of its steps that is.
    steps = [(episode, n + 1) for episode, length in enumerate(lengths) for n in range(length)]
    _cell(sheet, top, 0, 0, "0")
    for column, (episode, n) in enumerate(steps[:STEPS], start=1):
        done = n == lengths[episode]
        _cell(sheet, top, column, episode + done, "0" if done else str(n))
        _cell(sheet, top + ROW, column, episode, "+1")
        _cell(sheet, top + 2 * ROW, column, episode, str(done))
        _cell(sheet, top + 3 * ROW, column, episode, str(n))
    for row, name in enumerate(["obs, states", "rewards", "dones", 'infos["final_obs"]']):
        sheet.text(LEFT - 12, top + ROW * (row + 0.5), name, size=11, at="right", mono=True)


def _cell(sheet: Sheet, top: float, column: int, episode: int, text: str) -> None:
    scheme = sheet.scheme
    fill, edge = scheme.soft[episode], scheme.strong[episode]
    sheet.box(_x(column) + 5, top + 5, COLUMN - 10, ROW - 10, fill, edge, corner=4, line=0.7)
    sheet.text(_x(column + 0.5), top + ROW / 2, text, size=11, bold=text == "True")
