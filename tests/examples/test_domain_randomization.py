"""The example of `DomainRandomization`: what it draws, its grid, and a short run of all of it."""

from collections.abc import Iterator
from pathlib import Path

import domain_randomization as example
import jax
import numpy as np
import pytest
from ppo_options import Options

from envrax_classic import CartPoleConfig


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_it_draws_around_the_defaults_of_the_environment() -> None:
    config = CartPoleConfig()
    assert {name: getattr(config, name) for name in example.DEFAULT} == example.DEFAULT
    drawn = jax.vmap(example.sample)(jax.random.split(jax.random.key(0), 2000))
    for name, x in example.DEFAULT.items():
        factors = np.asarray(drawn[name]) / x
        assert factors.min() >= 0.2499 and factors.max() <= 4.0001
        np.testing.assert_allclose(np.quantile(factors, [0.25, 0.5, 0.75]), [0.5, 1, 2], rtol=0.1)


def test_the_default_is_in_the_middle_of_the_grid() -> None:
    for name, values in example.grid(7).items():
        np.testing.assert_allclose(values[len(values) // 2], example.DEFAULT[name])
        assert values == sorted(values)


@pytest.mark.slow
def test_a_short_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example.main(["--grid", "3", "--total-steps", "4096", "--n-envs", "8", "--hidden", "8"])
    printed = capsys.readouterr().out
    assert printed.count("force \\ half_length   0.25") == 6  # two trainings, three masses
    assert "mean over the grid, trained on drawn configs: " in printed
    assert (tmp_path / "runs/domain-randomization-0/grid.png").stat().st_size > 10_000


def test_slots_of_the_trainer_have_configs_of_their_own() -> None:
    ppo = example.RandomizedPPO(Options(example.ENV, n_envs=4, n_steps=4, minibatches=1, hidden=4))
    _, state = ppo.env.reset(jax.random.key(0))
    assert all(len(np.unique(x)) == 4 for x in state.fields.values())
