"""
One policy for poles of every length and mass, and carts of every force.

    python examples/domain_randomization.py
    python examples/domain_randomization.py --seed 1 --total-steps 300000

PPO learns CartPole twice: as it is, and with `DomainRandomization`, which draws the length and mass
of the pole and the force of the cart for every episode. Both policies are then evaluated on a grid
of configs, each by one compiled call of `evaluate_grid`. Tables go to the terminal, and a picture
to `runs/`.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ppo import EVALUATION_SEED, run
from ppo_algorithm import PPO
from ppo_options import PRESETS, Options, add_flags
from ppo_report import save_heat_maps

import envrax

ENV = "classic/CartPole-v0"
PRESET = {**PRESETS[ENV], "total_steps": 1_000_000}
DEFAULT = {"pole_mass": 0.1, "force": 10.0, "half_length": 0.5}
DRAWN_WITHIN = 4.0  # times the default, and as far below it
EPISODES = 20  # at each point


def sample(rng: jax.Array) -> dict[str, jax.Array]:
    """Each of the three between a quarter and four times of what it is, uniform in logarithms."""
    factors = DRAWN_WITHIN ** jax.random.uniform(rng, (len(DEFAULT),), minval=-1.0)
    return {name: x * factor for (name, x), factor in zip(DEFAULT.items(), factors, strict=True)}


class RandomizedPPO(PPO):
    """The same algorithm; each slot plays with a config of its own."""

    @cached_property
    def single_env(self) -> Any:
        return envrax.DomainRandomization(super().single_env, sample)


def grid(n: int) -> dict[str, list[float]]:
    """`n` values in steps of two around each default, and three of the mass."""
    factors = {name: 2.0 ** np.arange(-(n // 2), n - n // 2) for name in DEFAULT}
    factors["pole_mass"] = DRAWN_WITHIN ** np.arange(-1.0, 2.0)
    return {name: (x * factors[name]).tolist() for name, x in DEFAULT.items()}


def evaluated(ppo: PPO, params: Any, points: dict[str, list[float]]) -> envrax.GridEvaluation:
    """The trained policy at every point, in the environment without `DomainRandomization`."""

    def policy(params: Any, obs: Any, rng: jax.Array) -> Any:
        return ppo.act(params, obs, None, rng), params, None

    env, rng = PPO(ppo.options).single_env, jax.random.key(EVALUATION_SEED)
    return envrax.evaluate_grid(env, policy, rng, points, EPISODES, policy_state=params)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, argument_default=argparse.SUPPRESS)
    parser.add_argument("--grid", type=int, default=7, help="values along an axis (7)")
    add_flags(parser, PRESET)
    given = vars(parser.parse_args(arguments))
    points = grid(given.pop("grid"))
    options = Options(ENV, **{**PRESET, **given})
    kinds: dict[str, Callable[[Options], PPO]] = {
        "trained on the default": PPO,
        "trained on drawn configs": RandomizedPPO,
    }
    maps = dict[str, np.ndarray]()
    for name, kind in kinds.items():
        print(f"PPO on {ENV}, {name}, seed {options.seed}: compiling")
        ppo = kind(options)
        found = evaluated(ppo, run(ppo).params, points)
        print(f"mean return of {EPISODES} episodes, {name}\n\n{found}\n")
        maps[name] = np.asarray(found.returns.mean(axis=(0, -1)))  # over masses and episodes
    for name, values in maps.items():
        print(f"mean over the grid, {name}: {values.mean():.1f}")
    path = Path("runs") / f"domain-randomization-{options.seed}" / "grid.png"
    axes = {"half length of the pole [m]": "half_length", "force [N]": "force"}
    save_heat_maps(
        path,
        "CartPole: mean return over poles of three masses",
        maps,
        {label: points[name] for label, name in axes.items()},
        [DEFAULT[name] for name in axes.values()],
        DRAWN_WITHIN,
    )
    print(f"see {path}")


if __name__ == "__main__":
    main()
