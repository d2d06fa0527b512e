"""One recorded history, replayed by an environment of Gymnasium and by one of ours."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from helpers import plain

from envrax import Discrete, EnvConfig, EnvState, JaxEnv
from envrax.interop import to_space


class History:
    """
    Observations, rewards and ends, drawn once.

    `ends` names the steps at which the episode ends, 1 for the first, with the reason.
    """

    def __init__(
        self, space: Any, actions: Any = None, steps: int = 12, ends: dict[int, str] | None = None
    ) -> None:
        self.space, self.actions = space, Discrete(3) if actions is None else actions
        sampler = to_space(space)
        sampler.seed(1)
        samples = [sampler.sample() for _ in range(steps + 1)]
        self.obs = jax.tree.map(lambda dtype, *x: np.asarray(x, dtype), space.dtype, *samples)
        self.rewards = np.random.default_rng(0).normal(size=steps + 1).astype(np.float32)
        reasons = [(ends or {}).get(at, "") for at in range(steps + 1)]
        self.terminated, self.truncated = (
            np.array([name in reason for reason in reasons]) for name in ("terminated", "truncated")
        )
        self.lives = (9 - np.arange(steps + 1) // 4).astype(np.int32)

    def frame(self, at: Any) -> Any:
        return jax.tree.map(lambda x: x[at], self.obs)


class Theirs(gymnasium.Env[Any, Any]):
    """The history as Gymnasium has it. `taken` are the actions that came through."""

    def __init__(self, history: History) -> None:
        self.history, self.taken, self.at = history, list[Any](), 0
        self.observation_space = to_space(history.space)
        self.action_space = to_space(history.actions)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self.history.frame(0), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        self.taken.append(np.array(action))
        ends = bool(self.history.terminated[self.at]), bool(self.history.truncated[self.at])
        return self.history.frame(self.at), float(self.history.rewards[self.at]), *ends, {}


class Ours(JaxEnv[Any, Any, Any, EnvConfig]):
    """The history as a `JaxEnv`. `info["taken"]` is the action that came through."""

    def __init__(self, history: History, reasons: tuple[str, ...] = ("terminated", "truncated")):
        super().__init__(EnvConfig(max_steps=len(history.rewards) - 1))
        self.history, self.reasons = history, reasons

    @property
    def observation_space(self) -> Any:
        return self.history.space

    @property
    def action_space(self) -> Any:
        return self.history.actions

    def reset(self, rng: jax.Array) -> Any:
        state = EnvState(rng=rng, step=jnp.int32(0), done=jnp.bool_(False))
        return self._frame(state.step), state

    def step(self, state: Any, action: Any) -> Any:
        step = state.step + 1
        flags = {
            name: jnp.asarray(getattr(self.history, name))[step]
            for name in ("terminated", "truncated", "lives")
        }
        done = flags["terminated"] | flags["truncated"]
        info = {"taken": action, **{name: flags[name] for name in (*self.reasons, "lives")}}
        reward = jnp.asarray(self.history.rewards)[step]
        return self._frame(step), state.replace(step=step, done=done), reward, done, info

    def _frame(self, step: Any) -> Any:
        return jax.tree.map(lambda x: jnp.asarray(x)[step], self.history.obs)


def play_theirs(env: Any, actions: Any) -> tuple[list[Any], list[Any]]:
    """Observations from the reset on, and reward, terminated and truncated, until an end."""
    # A copy, because Gymnasium may return what it will overwrite.
    seen, rest = [jax.tree.map(np.array, env.reset(seed=0)[0])], list[Any]()
    for action in actions:
        obs, *others, _ = env.step(action)
        seen.append(jax.tree.map(np.array, obs))
        rest.append(others)
        if others[1] or others[2]:
            break
    return seen, rest


def play_ours(env: Any, actions: Any) -> tuple[list[Any], list[Any], list[Any], Any]:
    """The same, with the infos and the last state; one compiled program."""

    @jax.jit
    def run(rng: jax.Array, actions: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            out = env.step(state, action)
            return out[1], out

        first, state = env.reset(rng)
        return first, state, jax.lax.scan(step, state, actions)[1]

    first, state, out = jax.tree.map(plain, run(jax.random.key(0), np.asarray(actions)))
    seen, rest, infos = [first], list[Any](), list[Any]()
    for t in range(len(actions)):
        obs, state, reward, done, info = jax.tree.map(lambda x, t=t: x[t], out)
        assert done == state.done
        seen.append(obs)
        rest.append([float(reward), *(bool(info[k]) for k in ("terminated", "truncated"))])
        infos.append(info)
        if done:
            break
    assert all(env.observation_space.contains(obs) for obs in seen)
    return seen, rest, infos, state


def assert_same(ours: Any, theirs: Any, rtol: float = 0.0, dtypes: bool = True) -> None:
    """The same structure and values, and dtypes unless `dtypes` is False."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and (not dtypes or a.dtype == b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
