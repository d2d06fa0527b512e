"""`Reference`: their side, a simulator on the host, asked one step at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from envrax.testing.match.environment import Environment, ended, hold
from envrax.testing.match.numbers import precision, take


class Reference:
    """
    An object with `reset` and `step`: Gymnasium's, EnvPool's with one slot, or with only `done`.

    Its numbers are copies, in our order: it may return its own arrays and change them later.

    Parameters
    ----------
    raw : Any
        The object.
    inject, extract, act : callable or None
        As for `match_env`.
    random : np.random.Generator
        Draws the seed.

    Attributes
    ----------
    has_masks : bool
        Whether its infos have an `action_mask`.
    seeded : bool
        Whether `reset` takes a seed.
    narrows : list of str
        Where its observations are floats of another dtype than ours, a sentence on that.
    refused : str
        The first exception that `step` raised; "" if there was none.
    """

    def __init__(
        self,
        raw: Any,
        inject: Callable[[Any, Any], Any] | None,
        extract: Callable[[Any], Any] | None,
        act: Callable[[Any], Any] | None,
        random: np.random.Generator,
    ) -> None:
        self.raw = raw
        self.inject = inject
        self.extract = extract
        self.refused = ""
        self._act = act or self._default_act
        self._is_batch = _is_batch(raw)
        self.seeded = not self._is_batch  # the seed of a pool of EnvPool is that of its creation
        found = self._first_reset(int(random.integers(2**31)))
        self.has_masks = "action_mask" in _obs_and_info(found)[1]

    def _first_reset(self, seed: int) -> Any:
        if self.seeded:
            try:
                return self.raw.reset(seed=seed)
            except TypeError:
                self.seeded = False
        return self.raw.reset()

    def imitate(self, environment: Environment) -> None:
        """Give numbers in the order of an environment's; `precision` is that of each for both."""
        self._environment = environment
        template = environment.template.obs
        theirs = self._leaves(_obs_and_info(self.raw.reset())[0])
        ours = jax.tree.leaves(template)
        expected, got = (sum(x.size for x in leaves) for leaves in (ours, theirs))
        if expected != got:
            raise ValueError(
                f"match_env: expected observations of {expected} numbers, as the environment's; "
                f"got {got} from the reference. Wrap one of them."
            )
        pairs = [(x.dtype.name, _in_jax(y).name) for x, y in zip(ours, theirs, strict=False)]
        floats = [pair for pair in pairs if "int" not in "".join(pair) and "bool" not in pair]
        self.narrows = [f"observations are {x}, not {y}" for x, y in floats if x != y][:1]
        own = np.repeat([precision(x.dtype) for x in ours], [x.size for x in ours])
        other = np.repeat([precision(_in_jax(x)) for x in theirs], [x.size for x in theirs])
        wider = np.minimum(np.where(own > 0, own, other), np.where(other > 0, other, own))
        begin = len(environment.names) - expected
        self.precision = np.zeros(len(environment.names))
        self.precision[begin:] = wider
        self.precision[environment.rewards] = precision(environment.template.reward.dtype)

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Begin an episode: the numbers of its first observation, as those of a step."""
        options = {"seed": seed} if seed is not None and self.seeded else {}
        obs, info = _obs_and_info(self.raw.reset(**options))
        return self._row(False, False, np.zeros(self._environment.template.reward.shape), obs, info)

    def step(self, action: Any) -> np.ndarray:
        """The numbers of one step; NaN if it raises an exception, which is kept."""
        action = self._act(action)
        try:
            obs, reward, *ends, info = self.raw.step(action)
        except Exception as error:  # that is a difference, which the report shows
            self.refused = self.refused or f"{type(error).__name__}: {error}"
            return np.full(len(self._environment.names), np.nan)
        terminated = ends[0]
        truncated = ends[1] if len(ends) == 2 else bool(info.get("TimeLimit.truncated", False))
        terminated = terminated and (len(ends) == 2 or not truncated)
        return self._row(terminated, truncated, reward, obs, info)

    def play(
        self, states: Any, actions: Any, seed: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        The first numbers of windows, and those of their steps, as `Environment.play` gives them.

        They begin in states that are put in, if there are any; else, and for the clock, at a reset.
        """
        inject: Any = self.inject
        shape = jax.tree.leaves(actions)[0].shape[:2]
        first = np.zeros((shape[0], len(self._environment.names)))
        found = np.zeros((*shape, len(self._environment.names)))
        for i in range(shape[0]):
            first[i] = self.reset(seed)
            if states is not None:
                inject(self.raw, take(states, i))
            for t in range(shape[1]):
                found[i, t] = self.step(take(actions, (i, t)))
                if ended(found[i, t]):
                    break
        return first, hold(found, self._environment.rewards)

    def state(self, like: Any, age: int) -> Any:
        """Our state, read from it, with a leading axis; it has taken as many steps."""
        extract: Any = self.extract
        state = jax.tree.map(
            lambda x: x[None] if hasattr(x, "ndim") else np.full(1, x), extract(self.raw)
        )
        state = self._environment.as_numpy(state, like)
        return state.replace(step=np.full(1, age, np.int32), done=np.zeros(1, bool))

    def _row(self, terminated: Any, truncated: Any, reward: Any, obs: Any, info: Any) -> np.ndarray:
        mask = [info["action_mask"]] if self._environment.template.mask is not None else []
        mask = jax.tree.leaves(mask)
        leaves = [terminated, truncated, reward, *mask, *self._leaves(obs)]
        return np.concatenate([np.asarray(x, np.float64).ravel() for x in leaves])

    def _leaves(self, obs: Any) -> list[Any]:
        """Leaves in the order of ours: by key where both are mappings, else by place."""
        if isinstance(obs, np.ndarray):
            return [obs]
        return [*map(np.asarray, _in_order(self._environment.template.obs, obs))]

    def _default_act(self, action: Any) -> Any:
        if not self._is_batch:
            return jax.tree.map(lambda x: x if x.ndim else x.item(), action)
        dtype = self.raw.action_space.dtype
        return jax.tree.map(lambda x: np.asarray(x)[None].astype(dtype), action)


def _obs_and_info(found: Any) -> tuple[Any, Mapping[str, Any]]:
    """What `reset` returned, with or without an info."""
    pair: object = found
    has_info = isinstance(pair, tuple) and len(found) == 2 and isinstance(found[1], Mapping)
    return (found[0], found[1]) if has_info else (found, {})


def _in_order(ours: Any, theirs: Any) -> list[Any]:
    """The leaves of theirs in the order of ours, where both have the same keys or lengths."""
    kinds: tuple[object, object] = (ours, theirs)
    if all(isinstance(x, Mapping) for x in kinds) and set(ours) == set(theirs):
        return [leaf for key in sorted(ours) for leaf in _in_order(ours[key], theirs[key])]
    if all(isinstance(x, tuple | list) for x in kinds) and len(ours) == len(theirs):
        return [leaf for i in range(len(ours)) for leaf in _in_order(ours[i], theirs[i])]
    return jax.tree.leaves(theirs)


def _in_jax(x: np.ndarray) -> Any:
    """The dtype that JAX gives to an array: 32 bits for 64, unless `jax_enable_x64` is set."""
    return jax.dtypes.canonicalize_dtype(x.dtype)


def _is_batch(raw: Any) -> bool:
    """Whether it is a batch, such as a pool of EnvPool; only one of one slot can be asked."""
    config = getattr(raw, "config", None)
    n = getattr(raw, "num_envs", config.get("num_envs") if isinstance(config, dict) else None)
    if n not in (None, 1):
        raise ValueError(f"match_env: expected a reference with one slot; got {n}. Make it with 1.")
    return n is not None
