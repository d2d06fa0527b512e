# pyright: reportMissingImports=false
"""Environments for tests of the bridges, and their steps by hand."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import chex
import fakes
import jax
import jax.numpy as jnp
import numpy as np
from helpers import random_actions

from envrax import Box, Dict, Discrete, EnvState, JaxEnv, MultiBinary, MultiDiscrete, Tuple, VecEnv
from envrax.termination import step_env
from envrax.testing import CountingEnv, ImageEnv, MaskedEnv, NestedEnv
from envrax.testing.fakes import FakeConfig, FakeState

AnyEnv = JaxEnv[Any, Any, Any, Any]


class EndsEnv(CountingEnv):
    """Action 1 terminates, 2 truncates, 3 does both."""

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    def step(self, state: Any, action: Any) -> tuple[Any, ...]:
        obs, state, reward, _, _ = super().step(state, action)
        terminated, truncated = action & 1 != 0, action & 2 != 0
        state = state.replace(done=terminated | truncated)
        return obs, state, reward, state.done, {"terminated": terminated, "truncated": truncated}


@chex.dataclass
class GoalState(EnvState):
    goal: jax.Array
    last: jax.Array


class GoalEnv(JaxEnv[Dict, Box, GoalState, FakeConfig]):
    """
    Gives out its state as it is: a constant goal, and the last action.

    JAX hands an input of a program that is an output as well out as it is, without a copy.
    """

    @property
    def observation_space(self) -> Dict:
        return Dict(goal=Box(0.0, 1.0, (64,)), last=Box(-9.0, 9.0, (64,)))

    @property
    def action_space(self) -> Box:
        return Box(-1.0, 1.0, (64,))

    def _see(self, state: GoalState) -> dict[str, Any]:
        return {"goal": state.goal, "last": state.last}

    def reset(self, rng: jax.Array) -> tuple[Any, GoalState]:
        rng, key = jax.random.split(rng)
        goal = jax.random.uniform(key, (64,), jnp.float32)
        zero = jnp.zeros((64,), jnp.float32)
        state = GoalState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False), goal=goal, last=zero)
        return self._see(state), state

    def step(self, state: GoalState, action: Any) -> tuple[Any, ...]:
        obs = {"goal": state.goal, "last": state.last}
        step = state.step + 1
        done = step >= self.config.max_steps
        # The action is in the state until the next step returns it.
        state = state.replace(step=step, done=done, last=action)
        return obs, state, jnp.float32(1), done, {"goal": state.goal}


class RoomsEnv(CountingEnv):
    """A `Discrete` observation in a `Tuple` with an array."""

    @property
    def observation_space(self) -> Any:
        return Tuple((Discrete(200), Box(0, 1000, (), jnp.int32)))

    def observe(self, state: FakeState) -> Any:
        return state.number, state.step


class RoomEnv(CountingEnv):
    """One `Discrete` observation."""

    @property
    def observation_space(self) -> Any:
        return Discrete(200)

    def observe(self, state: FakeState) -> Any:
        return state.number


class Masked(CountingEnv):
    """Legal actions of any space: in every step others, at least one of each entry."""

    space: Any = Discrete(3)

    @property
    def action_space(self) -> Any:
        return self.space

    def advance(self, state: Any, action: Any) -> Any:
        return state, jnp.float32(0), False

    def action_mask(self, state: FakeState) -> Any:
        key = jax.random.fold_in(state.rng, state.step)
        return _random_mask(self.space, key)


class MaskedGrid(Masked):
    """2-D, its entries with different counts."""

    space = MultiDiscrete(((2, 3), (4, 5)))


class MaskedRow(Masked):
    """1-D, as MaskablePPO takes it."""

    space = MultiDiscrete((2, 4, 3))


class MaskedBits(Masked):
    """Bits of which some are fixed."""

    space = MultiBinary(5)


class MaskedTree(Masked):
    """Nested, a `Box` without a mask among them."""

    space = Dict(
        b=Tuple((Discrete(4), Box(-1.0, 1.0, (2,)))),
        a=MultiDiscrete(((2, 3), (4, 5))),
        c=Discrete(2),
        d=MultiBinary(3),
        e=Box(-1.0, 1.0, (2,)),
    )


class MaskedIntegers(Masked):
    """Gymnasium has a `Box` for both, whose `sample` takes no mask."""

    space = Dict(a=Box(0, 2, (2,), jnp.int32), b=MultiBinary(2, bool))

    def action_mask(self, state: FakeState) -> Any:
        key = jax.random.fold_in(state.rng, state.step)
        return _random_mask(Dict(a=MultiDiscrete((3, 3)), b=MultiBinary(2)), key)


def _random_mask(space: Any, key: Any) -> Any:
    if isinstance(space, Dict):
        return {
            name: _random_mask(child, jax.random.fold_in(key, i))
            for i, (name, child) in enumerate(space.spaces.items())
        }
    if isinstance(space, Tuple):
        children = enumerate(space.spaces)
        return tuple(_random_mask(child, jax.random.fold_in(key, i)) for i, child in children)
    if isinstance(space, Box):
        return None
    n: Any = 2 if isinstance(space, MultiBinary) else getattr(space, "n", None)
    counts = np.broadcast_to(np.array(space.nvec if n is None else n), space.shape)
    exist = np.arange(counts.max()) < counts[..., None]
    drawn = jax.random.bernoulli(key, 0.5, exist.shape) & exist
    first = np.arange(counts.max()) == 0
    return jnp.where(drawn.any(-1, keepdims=True), drawn, first)


ENVS: dict[str, AnyEnv] = {
    "image": ImageEnv(),
    "nested": NestedEnv(FakeConfig(max_steps=9)),
    "masked": MaskedEnv(),
    "ends": EndsEnv(),
    "goal": GoalEnv(),
    "room": RoomEnv(),
    "rooms": RoomsEnv(),
    "many dtypes": fakes.NestedEnv(),
    "random ends": fakes.CoinEnv(),  # which says nothing of their reason
    "floats": fakes.VectorEnv(),
}


class Step(NamedTuple):
    """The result of a step by hand; a reset has only `obs` and `mask`."""

    obs: Any
    mask: Any
    reward: Any = None
    terminated: Any = None
    truncated: Any = None
    info: Any = None


def actions_of(space: Any, n_steps: int, seed: int = 1) -> list[Any]:
    """Random actions as NumPy arrays."""
    drawn = jax.tree.map(np.asarray, random_actions(space, (n_steps,), seed))
    return [jax.tree.map(lambda x, i=i: x[i], drawn) for i in range(n_steps)]


def played(
    env: AnyEnv, actions: list[Any], seed: int, by_reset_after: bool = False
) -> Iterator[Step]:
    """
    A `JaxEnv` by hand: every reset `rng, key = split(rng)`, beginning with `key(seed)`.

    Or the first alone: the next episodes begin as auto-reset begins them.
    """

    @jax.jit
    def begin(rng: Any) -> Any:
        rng, key = jax.random.split(rng)
        obs, state = env.reset(key)
        return rng, state, Step(obs, env.action_mask(state))

    @jax.jit
    def advance(state: Any, action: Any) -> Any:
        obs, state, reward, _, info = step_env(env, state, action)
        done = state.done
        at_limit = env.at_limit(state)
        ends = info.get("terminated", done & ~at_limit), info.get("truncated", done & at_limit)
        return state, done, Step(obs, env.action_mask(state), reward, *ends, info)

    @jax.jit
    def begin_next(state: Any) -> Any:
        obs, state = env.reset_after(state)
        return state, Step(obs, env.action_mask(state))

    rng, state, step = begin(jax.random.key(seed))
    yield jax.device_get(step)
    for action in actions:
        state, done, step = advance(state, action)
        yield jax.device_get(step)
        if done and by_reset_after:
            state, step = begin_next(state)
            yield jax.device_get(step)
        elif done:
            rng, state, step = begin(rng)
            yield jax.device_get(step)


def played_batch(env: AnyEnv, n_slots: int, actions: list[Any], seed: int) -> Iterator[Step]:
    """A `VecEnv` by hand, with `final_obs` among its infos."""
    batch = VecEnv(env, n_slots, final_obs=True)
    _, key = jax.random.split(jax.random.key(seed))
    obs, state = batch.reset(key)
    yield jax.device_get(Step(obs, batch.action_mask(state)))
    for action in actions:
        obs, state, rewards, dones, infos = batch.step(state, action)
        ends = infos["terminated"], infos["truncated"]
        yield jax.device_get(Step(obs, batch.action_mask(state), rewards, *ends, infos))


def same(result: Any, wanted: Any) -> None:
    """The same values of the same dtypes, in containers of one kind; ints may have 64 bits."""
    if isinstance(wanted, dict):
        assert set(result) == set(wanted)
        for name in wanted:
            same(result[name], wanted[name])
    elif isinstance(wanted, tuple):
        assert isinstance(result, tuple)
        for pair in zip(result, wanted, strict=True):
            same(*pair)
    else:
        result, wanted = np.asarray(result), np.asarray(wanted)
        assert result.dtype in (wanted.dtype, *[np.int64] * (wanted.dtype.kind in "iu"))
        np.testing.assert_array_equal(result, wanted)


def edit(tree: Any) -> None:
    """Write into every array, and into the arrays that an array of objects holds."""
    for x in jax.tree.leaves(tree):
        if isinstance(x, np.ndarray):
            if x.dtype == object:
                edit(list(x))
            x[...] = 1 if x.dtype == np.bool_ else 77
        elif hasattr(x, "fill_"):  # a tensor
            x.fill_(1)


def without(info: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in info.items() if k not in names}
