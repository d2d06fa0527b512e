"""`domain_randomization.py`: what it draws, its grid, and a short run of all of it."""

from pathlib import Path

import domain_randomization as example
import jax
import numpy as np
import pytest

import envrax
from envrax.classic import CartPole, CartPoleConfig

pytestmark = pytest.mark.usefixtures("standard_promotion")


def test_it_draws_around_the_defaults_of_the_environment() -> None:
    config = CartPoleConfig()
    assert {name: getattr(config, name) for name in example.DEFAULT} == example.DEFAULT
    drawn = jax.jit(jax.vmap(example.sample))(jax.random.split(jax.random.key(0), 2000))
    for name, x in example.DEFAULT.items():
        factors = np.asarray(drawn[name]) / x
        assert factors.min() >= 0.2499 and factors.max() <= 4.0001
        np.testing.assert_allclose(np.quantile(factors, [0.25, 0.5, 0.75]), [0.5, 1, 2], rtol=0.1)
    _, state = envrax.VecEnv(envrax.DomainRandomization(CartPole(), example.sample), 4).reset(
        jax.random.key(0)
    )
    assert all(len(np.unique(x)) == 4 for x in state.fields.values())


def test_the_default_is_in_the_middle_of_the_grid() -> None:
    for name, values in example.grid(7).items():
        np.testing.assert_allclose(values[len(values) // 2], example.DEFAULT[name])
        assert values == sorted(values)


@pytest.mark.slow
def test_a_short_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example.main(["--grid", "3", "--total-steps", "4096"])
    printed = capsys.readouterr().out
    assert printed.count("on the grid") == 2
    assert (tmp_path / "runs/domain-randomization-0/grid.png").stat().st_size > 10_000
