"""`from_host`: simulators in Python or C++, one object for each slot."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import jax
import numpy as np

from envrax._checks.counts import require_count
from envrax.interop.host.arrays import as_declared, map_types
from envrax.interop.host.batch import HostBatch
from envrax.interop.host.masks import MaskReader
from envrax.interop.host.simulator import VectorSimulator, require_info_names, types_of
from envrax.spaces import Space
from envrax.spaces.base import is_list, is_mapping

WHO = "from_host"


class SingleSimulators(VectorSimulator):
    """Simulators with `reset(seed)` and `step(action)`; see `from_host`."""

    who = WHO

    def __init__(
        self,
        make: Callable[[], Any],
        n: int,
        spaces: tuple[Space, Space],
        infos: Mapping[str, Space],
        threads: int,
    ) -> None:
        self.n = n
        self.observation_space, self.action_space = spaces
        self.all = [make() for _ in range(n)]
        self.name = type(self.all[0]).__name__
        self.has_mask = hasattr(self.all[0], "action_mask")
        if "action_mask" in infos and not self.has_mask:
            raise ValueError(
                f"{WHO}: expected masks from a method `action_mask()` of the simulator, which a "
                "reset needs too; got an info 'action_mask'. Write that method."
            )
        self._reader = MaskReader(WHO, self.action_space)
        self.can_render = hasattr(self.all[0], "render")
        self.info_types = types_of(dict(infos), n)
        self._obs: list[Any] = [None] * n  # the newest of each, copied
        self._threads = threads
        self._start_threads()

    def _start_threads(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads) if self._threads else None
        self._calls: list[Future[Any]] = []

    def begin(self, seeds: Any) -> Any:
        return self.begin_where(np.ones(self.n, bool), seeds)

    def require_begin_where(self) -> None: ...

    def begin_where(self, mask: Any, seeds: Any) -> Any:
        slots = np.flatnonzero(mask)
        first = self._each(self._begin_one, slots, [int(seeds[i]) for i in slots])
        self._obs = [*self._obs]
        for i, obs in zip(slots, first, strict=True):
            self._obs[i] = obs
        return self._stacked_obs()

    def _begin_one(self, slot: int, seed: int) -> Any:
        obs = self.all[slot].reset(seed)
        if isinstance(obs, tuple) and not is_list(self.obs_types):
            raise TypeError(
                f"{WHO}: expected reset to return an observation; got a tuple of {len(obs)}. "
                "Return it without an info."
            )
        return _copied(obs)

    def step(self, actions: Any, last: bool) -> Any:
        actions = as_declared(self.action_space, actions)
        slots = range(self.n)
        given = [jax.tree.map(lambda x, i=i: x[i], actions) for i in slots]
        rows = self._each(self._step_one, slots, given)
        self._obs, rewards, terminated, truncated, infos = map(list, zip(*rows, strict=True))
        info = map_types(WHO, _stack, self.info_types, *infos)
        return self._stacked_obs(), rewards, terminated, truncated, info, None

    def _step_one(self, slot: int, action: Any) -> tuple[Any, ...]:
        returned: Any = self.all[slot].step(action)
        if not isinstance(returned, tuple) or len(returned) not in (4, 5):
            raise TypeError(
                f"{WHO}: expected step to return (obs, reward, terminated, truncated[, info]); got "
                f"{returned!r}."
            )
        parts: Any = (*returned, {})
        obs, reward, terminated, truncated, info = parts[:5]
        missing = [name for name in self.info_types if name not in info]
        if missing:
            raise ValueError(
                f"{WHO}: expected an info {missing[0]!r} from every step; got {sorted(info)} from "
                f"simulator {slot}. Return it always, or leave it out of `infos`."
            )
        info = _copied({name: info[name] for name in self.info_types})
        return _copied(obs), reward, terminated, truncated, info

    def _stacked_obs(self) -> Any:
        return map_types(WHO, _stack, self.obs_types, *self._obs)

    def masks(self) -> Any:
        return self._reader.stacked([x.action_mask() for x in self.all], "action_mask()")

    def _each(self, function: Callable[..., Any], slots: Any, given: Any) -> list[Any]:
        """The results of all calls; an error only after each of them has ended."""
        pairs = zip(slots, given, strict=True)
        if self._pool is None:
            return [function(*pair) for pair in pairs]
        wait(self._calls)  # of the last time, if the user interrupted it
        self._calls = [self._pool.submit(function, *pair) for pair in pairs]
        wait(self._calls)
        return [call.result() for call in self._calls]

    def draw(self, slot: int) -> Any:
        return self.all[slot].render()

    def close(self) -> None:
        for simulator in self.all:
            if hasattr(simulator, "close"):
                simulator.close()
        if self._pool is not None:
            self._pool.shutdown()

    def __getstate__(self) -> dict[str, Any]:
        wait(self._calls)
        return {k: v for k, v in vars(self).items() if k not in ("_pool", "_calls")}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self._start_threads()  # a copy has its own


def _copied(tree: Any) -> Any:
    """Copies, taken at once: a simulator may write the next results over these."""
    if is_mapping(tree):
        return {name: _copied(x) for name, x in tree.items()}
    return tuple(map(_copied, tree)) if isinstance(tree, tuple) else np.array(tree)


def _stack(types: Any, *rows: Any) -> Any:
    """Arrays of all simulators, stacked."""
    shapes = {np.shape(row) for row in rows}
    if shapes != {types.shape[1:]}:
        raise ValueError(
            f"{WHO}: expected arrays of shape {types.shape[1:]} from every simulator; got "
            f"{', '.join(map(str, shapes))}. Correct the space that you pass."
        )
    return np.stack(rows)


def from_host(
    make: Callable[[], Any],
    n_envs: int,
    observation_space: Space,
    action_space: Space,
    *,
    infos: Mapping[str, Space] | None = None,
    autoreset: bool = True,
    final_obs: bool = False,
    name: str | None = None,
    threads: int = 0,
) -> HostBatch:
    """
    Simulators in Python, NumPy or C++ as a batch.

    Called from Python, `reset` and `step` call the simulators straight, and so do `rollout`,
    `evaluate` and wrappers around batches. Inside your own `jit` and `scan`, each step is one
    ordered call of the host.

    Parameters
    ----------
    make : callable
        `make()` builds one simulator, with `reset(seed: int) -> obs` and `step(action) -> obs,
        reward, terminated, truncated[, info]`. It may have `action_mask()`, the legal actions now,
        with None, for a part too, if all are; `render()`, an image; and `close()`.
    n_envs : int
        Number of simulators, one for each slot.
    observation_space, action_space : Space
        The spaces of one simulator. It gets actions as NumPy arrays of their dtypes, or a
        container of those.
    infos : mapping of str to Space, optional
        Which entries of each step's info to pass on, and what they look like.
    autoreset : bool, default True
        Whether a step that ends an episode begins the next one, as in a `VecEnv`.
    final_obs : bool, default False
        Whether to add `infos["final_obs"]`, and `infos["final_mask"]` if there are masks.
    name : str, optional
        The name for logs; by default that of the simulator's class.
    threads : int, default 0
        Call the simulators from so many threads, for those that let go of the interpreter's lock.

    Returns
    -------
    HostBatch
        `state.rng` of a slot decides its episodes: with a key `rng` of `reset`, slot i begins with
        `rng_i, seed = seed_of(jax.random.split(rng, n_envs)[i])`, and after an end with
        `seed_of(jax.random.split(rng_i)[0])`. `infos` has `terminated` and `truncated`. The
        simulators are in `simulator.all`.

    Raises
    ------
    TypeError
        If a result of `step` is no such tuple; under `vmap` and `grad`.
    ValueError
        If `n_envs` is below 1, arrays of a simulator do not fit the spaces, or `infos` has
        `terminated`, `truncated`, `final_obs` or `final_mask`.
    RuntimeError
        If an older state than the newest is stepped, since a simulator cannot go back.

    Notes
    -----
    From Python, an error of a simulator and a KeyboardInterrupt are raised as themselves, by
    `rollout` and `evaluate` too. From your own compiled program it is JAX's `JaxRuntimeError`,
    whose text ends with it. Reset the batch afterwards.

    Examples
    --------
    >>> import envrax
    >>> class Count:
    ...     def reset(self, seed):
    ...         self.n = seed % 3
    ...         return np.float32([self.n])
    ...
    ...     def step(self, action):
    ...         self.n += int(action)
    ...         return np.float32([self.n]), 1.0, self.n > 3, False
    >>> env = from_host(Count, 4, envrax.Box(0, 9, (1,)), envrax.Discrete(2))
    >>> end, steps = envrax.rollout(env, None, envrax.start(env, jax.random.key(0)), 100)
    >>> steps.obs.shape, bool(steps.done.any())
    ((100, 4, 1), True)
    """
    n_envs = require_count(f"{WHO}: expected n_envs", n_envs)
    threads = require_count(f"{WHO}: expected threads", threads) if threads else 0
    if not callable(make):
        raise TypeError(f"{WHO}: expected a function that builds a simulator; got {make!r}.")
    infos = infos or {}
    require_info_names(WHO, "infos", infos)
    spaces = observation_space, action_space
    simulators = SingleSimulators(make, n_envs, spaces, infos, threads)
    return HostBatch(simulators, autoreset=autoreset, final_obs=final_obs, name=name)
