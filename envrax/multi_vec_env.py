"""`MultiVecEnv`: different batched environments as one unit."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np

from envrax._fleet.fleet import Fleet
from envrax._fleet.groups import Group, Traceable, in_turn
from envrax._fleet.members import view
from envrax._fleet.padding import Agents
from envrax._jax.cache import CacheDir
from envrax.autoreset.slot import next_episode, require_slots, reset_slot, step_slot
from envrax.batched_env import BatchedEnv
from envrax.env import AnyEnv, carries_over
from envrax.vec_env import VecEnv
from envrax.wrappers import Wrapper

AnyBatchedEnv = BatchedEnv[Any, Any]


class MultiVecEnv(Fleet):
    """
    M different batched environments as one unit.

    Built from a list it takes and returns lists; built from a dict, dicts with the same keys in the
    same order. Members are `VecEnv`s or any other `BatchedEnv`s, and reset their own slots.

    Members that are compiled (a `VecEnv`, or any `BatchedEnv` that can be traced) step together in
    one compiled call, and those for which JAX traces the same program as one batch. A `VecEnv`
    with `jit_compile=False` runs as it is, and a member that cannot be traced runs on the host
    beside the compiled call. What is compiled is each member as it is when the fleet is first used.

    Parameters
    ----------
    vec_envs : list or dict of BatchedEnv
        The members.

    Attributes
    ----------
    slots_per_env : list or dict of int
        `n_slots` of every member, in the container of the fleet.
    observation_spaces, action_spaces : list or dict of Space
        Of every member, of all its slots stacked.
    single_observation_spaces, single_action_spaces : list or dict of Space
        Of every member, of one slot.
    single_observation_shapes, single_observation_sizes, single_observation_dtypes : list or dict
        `shape`, `size` and `dtype` of the single observation spaces.
    single_action_shapes, single_action_sizes, single_action_dtypes : list or dict
        The same of the single action spaces.

    Raises
    ------
    ValueError
        If there are none, or one that works on the host is there twice.
    TypeError
        If `vec_envs` is no list or dict, or holds something else.

    Examples
    --------
    >>> from envrax.testing import CountingEnv, ImageEnv
    >>> fleet = MultiVecEnv([VecEnv(CountingEnv(), 4), VecEnv(ImageEnv(), 2)])
    >>> fleet
    MultiVecEnv([CountingEnv×4, ImageEnv×2], total=6)
    >>> obs, states = fleet.reset(jax.random.key(0))
    >>> obs, states, rewards, dones, infos = fleet.step(states, [[0, 1, 2, 0], [1, 1]])
    >>> [x.tolist() for x in rewards]
    [[0.0, 1.0, 2.0, 0.0], [1.0, 1.0]]
    """

    _kind = BatchedEnv
    _empty = "MultiVecEnv requires at least one VecEnv."
    _bar = "Compiling vec envs"

    slots_per_env = view("n_slots")
    observation_spaces = view("observation_space")
    action_spaces = view("action_space")
    single_observation_spaces = view("single_observation_space")
    single_action_spaces = view("single_action_space")
    single_observation_shapes = view("single_observation_space.shape")
    single_action_shapes = view("single_action_space.shape")
    single_observation_sizes = view("single_observation_space.size")
    single_action_sizes = view("single_action_space.size")
    single_observation_dtypes = view("single_observation_space.dtype")
    single_action_dtypes = view("single_action_space.dtype")

    def __init__(self, vec_envs: list[Any] | dict[Any, Any]) -> None:
        super().__init__(vec_envs)

    vec_envs = Fleet.envs

    @property
    def total_envs(self) -> int:
        """Number of slots of all members together."""
        return sum(member.n_slots for member in self._members)

    def slot_state(self, states: Any, idx: Any, slot_idx: int | jax.Array = 0) -> Any:
        """
        The state of one slot of one member; see `BatchedEnv.slot_state`.

        Parameters
        ----------
        states : list or dict
            The members' states.
        idx : int or key
            The member: an index by list rules, or a key of a fleet built from a dict.
        slot_idx : int or jax.Array, default 0
            The slot.

        Raises
        ------
        IndexError, KeyError
            If there is no such member or slot.
        """
        member, state = self._at("slot_state", states, idx)
        return member.slot_state(state, slot_idx)

    def render_slot(self, states: Any, idx: Any, slot_idx: int = 0) -> np.ndarray:
        """Draw one slot of one member; parameters as for `slot_state`, result as of `render`."""
        member, state = self._at("render_slot", states, idx)
        return member.render_slot(state, slot_idx)

    def _at(self, method: str, states: Any, idx: Any) -> tuple[AnyBatchedEnv, Any]:
        who = f"MultiVecEnv.{method}"
        (listed,) = self._container.read(who, states=states)
        position = self._container.position(who, idx)
        return self._members[position], listed[position]

    def _agents(self) -> list[Agents]:
        return [
            Agents(member.single_observation_space, member.single_action_space, (member.n_slots,))
            for member in self._members
        ]

    def _traceable(self, member: AnyBatchedEnv) -> Traceable:
        if member.copies is None:
            return Traceable(member.reset, member.step, member.action_space, type(member))
        env, build = member.copies
        reset, step = partial(reset_slot, env), partial(_step_slot, env)
        donates = member.compilation is not None and member.compilation.donate
        options = type(env.unwrapped), member.n_slots, donates, build.func, build.keywords
        reset_after = partial(_reset_after, env) if carries_over(env) else None
        return Traceable(reset, step, env.action_space, *options, reset_after=reset_after)

    def _group(self, positions: tuple[int, ...], *functions: Any) -> Group:
        first = self._members[positions[0]]
        if first.copies is None:
            reset, step = functions
            return Group(positions, reset, step, in_turn(reset), in_turn(step))
        env, build = first.copies
        shape = len(positions), first.n_slots
        stand_in = _StandIn(env, *functions)
        one, wide = (build(stand_in, n) for n in (first.n_slots, prod(shape)))
        step_wide = partial(_step_wide, wide, shape)
        return Group(positions, one.reset, one.step, in_turn(one.reset), step_wide)

    def _compile_member(self, member: AnyBatchedEnv, cache_dir: CacheDir, together: bool) -> None:
        its_own = type(member).compile not in (BatchedEnv.compile, VecEnv.compile)
        if its_own or not together:
            member.compile(cache_dir)

    def __repr__(self) -> str:
        shown = self._container.show(f"{one.name}×{one.n_slots}" for one in self._members)
        return f"MultiVecEnv({shown}, total={self.total_envs})"


class _StandIn(Wrapper[Any, Any, Any, Any]):
    """An environment with the methods of several that are traced to the same."""

    def __init__(
        self,
        env: Any,
        reset: Callable[..., Any],
        step: Callable[..., Any],
        reset_after: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(env)
        self._reset, self._step, self._reset_after = reset, step, reset_after

    @property
    def _carries_over(self) -> bool:
        return self._reset_after is not None

    def reset(self, rng: jax.Array) -> Any:
        return self._reset(rng)

    def reset_after(self, state: Any) -> Any:
        if self._reset_after is None:
            return self.reset(jax.random.split(state.rng)[0])
        return self._reset_after(state)

    def step(self, state: Any, action: Any) -> Any:
        return self._step(state, action)


def _reset_after(env: AnyEnv, state: Any) -> Any:
    begun = next_episode(env, state)
    return begun["obs"], begun["state"]


def _step_slot(env: AnyEnv, state: Any, action: Any) -> Any:
    *returned, _ = step_slot(env, state, action)
    return tuple(returned)


def _step_wide(wide: AnyBatchedEnv, shape: tuple[int, int], states: Any, actions: Any) -> Any:
    """Members with as many slots each as one batch, in which only slots that ended are reset."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states)
    require_slots(one, shape[1])
    merged = jax.tree.map(lambda x: x.reshape(wide.n_slots, *x.shape[2:]), (states, actions))
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), wide.step(*merged))
