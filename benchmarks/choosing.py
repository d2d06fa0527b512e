"""Steps per second by number of slots, as `python -m envrax bench` measures them."""

from benchmarks.measure import Values
from envrax.classic import CartPole
from envrax.command.measure.speed import measure

NUMBERS = 16, 64, 256, 1024, 4096, 16_384, 65_536
SCAN, LOOP, SHARE = "in a scan", "from a Python loop", "share of the most"


def slots() -> list[Values]:
    """CartPole in batches of several sizes."""
    speeds = [measure(CartPole(), n) for n in NUMBERS]
    most = max(speed.per_second() for speed in speeds)
    rows = {
        f"N = {speed.n}": {
            SCAN: speed.per_second() / 1e6,
            LOOP: speed.per_second("python_loop") / 1e6,
            SHARE: speed.per_second() / most,
            "bytes a slot": speed.bytes_per_slot or 0.0,
        }
        for speed in speeds
    }
    return [Values("CartPole, million steps per second", rows)]
