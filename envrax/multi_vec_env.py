"""`MultiVecEnv`: different batched environments as one unit."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from envrax._fleet.fleet import Fleet
from envrax._fleet.members import view
from envrax._jax.cache import CacheDir, Compilation
from envrax._jax.keys import require_key
from envrax.batched_env import AnyBatch, BatchedEnv
from envrax.compiled_batch import compilation_of
from envrax.spaces import Space


class MultiVecEnv(Fleet):
    """
    M different batched environments as one unit.

    Built from a list it takes and returns lists; built from a dict, dicts with the same keys in the
    same order. Members are `VecEnv`s or any other `BatchedEnv`s, and reset their own slots.

    Members that are compiled (a `VecEnv`, or any `BatchedEnv` that can be traced) step together in
    one compiled call. A `VecEnv` with `jit_compile=False` runs uncompiled, and a member that cannot
    be traced runs on the host beside the compiled call. For many copies of one environment, use one
    `VecEnv`.

    Parameters
    ----------
    vec_envs : list or dict of BatchedEnv
        The members.

    Attributes
    ----------
    slots_per_env : list or dict of int
        `n_slots` of every member, in a list or dict like the one given.
    observation_spaces, action_spaces : list or dict of Space
        The spaces of the members, of all slots stacked.
    single_observation_spaces, single_action_spaces : list or dict of Space
        The spaces of the members, of one slot.
    single_observation_shapes, single_observation_sizes, single_observation_dtypes : list or dict
        `shape`, `size` and `dtype` of the single observation spaces.
    single_action_shapes, single_action_sizes, single_action_dtypes : list or dict
        The same of the single action spaces.

    Raises
    ------
    ValueError
        If there is no member, or one that runs on the host occurs twice.
    TypeError
        If `vec_envs` is not a list or dict, or an entry is not a `BatchedEnv`.

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

    n_envs = Fleet.num_envs
    total_slots = total_envs

    def reset_where(
        self, masks: Any, obs: Any, states: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        """
        Begin an episode in some slots of every member; see `BatchedEnv.reset_where`.

        Parameters
        ----------
        masks, obs, states : list or dict
            The masks of slots, observations and states of the members.
        rng : jax.Array, optional
            One PRNG key. Member i gets `jax.random.split(rng, M)[i]`.
        starts : list or dict, optional
            The starts of the members, None for one that has none.

        Returns
        -------
        obs, states
            A container each, with the results of the members.
        """

        if rng is not None:
            require_key(rng, "MultiVecEnv.reset_where", "Pass one key; MultiVecEnv splits it.")

        def one(member: AnyBatch, masks: Any, obs: Any, states: Any, **how: Any) -> tuple[Any, Any]:
            # A batch of one's own may lack some of them.
            how = {name: x for name, x in how.items() if x is not None}
            return member.reset_where(masks, obs, states, **how)

        own = {} if rng is None else {"rng": self._split(rng)}
        given = dict(masks=masks, obs=obs, states=states, starts=starts)
        obs, states = self._map("MultiVecEnv.reset_where", one, own, **given)
        return obs, states

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
        """Draw one slot of one member; parameters as for `slot_state`."""
        member, state = self._at("render_slot", states, idx)
        return member.render_slot(state, slot_idx)

    def _at(self, method: str, states: Any, idx: Any) -> tuple[AnyBatch, Any]:
        who = f"MultiVecEnv.{method}"
        (listed,) = self._container.read(who, states=states)
        position = self._container.position(who, idx)
        return self._members[position], listed[position]

    def _spaces(self, member: AnyBatch) -> tuple[Space, Space]:
        return member.single_action_space, member.single_observation_space

    def _compilation(self, member: AnyBatch) -> Compilation | None:
        return compilation_of(member)

    def _functions(self, member: AnyBatch) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return member.reset, member.step

    def _compile_member(self, member: AnyBatch, cache_dir: CacheDir) -> None:
        member.compile(cache_dir)

    def __repr__(self) -> str:
        shown = self._container.show(f"{one.name}×{one.n_slots}" for one in self._members)
        return f"MultiVecEnv({shown}, total={self.total_envs})"
