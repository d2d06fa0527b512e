"""`HostBatch`: simulators on the host as a batch, called straight from Python or by JAX."""

import itertools
import weakref
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import chex
import jax
import numpy as np

from envrax._checks.counts import slot_index
from envrax._checks.marks import hands_on
from envrax._checks.masks import require_mask
from envrax._jax.keys import refuses_seed, require_key
from envrax._jax.mesh import where_slots
from envrax._jax.types import is_traced
from envrax.batched_env import BatchedEnv, StepOptions, goes_straight
from envrax.env import EnvState, Info
from envrax.interop.host.arrays import (
    RewardsAndEnds,
    copy_as,
    copy_rewards_and_ends,
    require_legal,
    take_rows,
    to_numpy,
    with_rows,
)
from envrax.interop.host.callback import call_host
from envrax.interop.host.seeds import first_episodes, keys_where, next_episodes
from envrax.interop.host.simulator import VectorSimulator
from envrax.spaces import Space
from envrax.spaces.conform import conform
from envrax.spaces.masks import with_full_masks

_RESET = -1  # in place of the number of a call
_NUMBERS = itertools.count()  # of calls, over all batches
# By `id` of the simulator, which its owner keeps alive: simulators of users need not be hashable.
# An owner that was collected is not in it.
_OWNERS: "weakref.WeakValueDictionary[int, HostBatch]" = weakref.WeakValueDictionary()


@chex.dataclass
class HostBatchState(EnvState):
    """
    State of a batch of simulators: `step` and `done` have a row for each slot.

    The simulators cannot go back, so only the state of the last call can be stepped or drawn.

    Attributes
    ----------
    rng : jax.Array
        The key of each slot's episode; of simulators that begin by one seed, the key of `reset`.
    call : jax.Array
        int32 scalar, the number of the call that returned this state.
    mask : pytree of jax.Array
        The masks of legal actions; None if the simulators have none.
    """

    call: jax.Array
    mask: Any = None


class _Begun(NamedTuple):
    """What all slots show now, and the fields of the state that the host knows."""

    obs: Any
    step: Any
    done: Any
    call: Any
    mask: Any

    def returned(self, rng: jax.Array) -> tuple[Any, HostBatchState]:
        fields = self._asdict()
        return fields.pop("obs"), HostBatchState(rng=rng, **fields)


class _Stepped(NamedTuple):
    """The results of a step; `begun` is after the resets of the slots in `begins`."""

    begun: _Begun
    begins: Any
    reward: Any
    done: Any
    infos: Any


class HostBatch(BatchedEnv[Space, Space]):
    """
    Simulators on the host as a `BatchedEnv`, with auto-reset as in `VecEnv`.

    Called from Python, `reset`, `step` and `reset_where` call the simulators straight, and return
    NumPy arrays of the caller: an exception of a simulator, or a KeyboardInterrupt, arrives as
    itself. Inside `jax.jit` and `jax.lax.scan` each is one ordered call of the host, whose
    exception JAX turns into its own. After one, begin with `reset`.

    `infos` has `terminated` and `truncated`; the infos of the simulators; and `final_obs` if it was
    requested, with `final_mask` if there are masks.

    Parameters
    ----------
    simulator : VectorSimulator
        The simulators. They belong to the batch from then on, which closes them.
    autoreset : bool, default True
        Whether a step that ends an episode begins the next one.
    final_obs : bool, default False
        Whether to add `infos["final_obs"]`.
    name : str, optional
        The name for logs; the simulator's own if not given.

    Raises
    ------
    ValueError
        If another batch, which is not closed, steps the simulators already.
    """

    def __init__(
        self,
        simulator: VectorSimulator,
        *,
        autoreset: bool = True,
        final_obs: bool = False,
        name: str | None = None,
    ) -> None:
        self.simulator = simulator
        self._name = name or simulator.name
        self._options = StepOptions(autoreset=autoreset, final_obs=final_obs)
        self._action_space = simulator.action_space.batch(simulator.n)
        self._is_closed = False
        self._is_lost = False
        self._newest = next(_NUMBERS)
        owner = _OWNERS.get(id(simulator.owned))
        if owner is not None and not owner._is_closed:
            raise ValueError(
                f"{simulator.who}: expected a simulator that no other batch steps; got a "
                f"{type(simulator.owned).__name__} that one steps already. Use that batch, or "
                "build another simulator."
            )
        _OWNERS[id(simulator.owned)] = self

    @property
    def _straight(self) -> bool:
        return True

    @property
    def _has_last(self) -> bool:
        return self.simulator.has_last or not self.simulator.resets_itself

    @property
    def n_slots(self) -> int:
        return self.simulator.n

    @property
    def name(self) -> str:
        return self._name

    @property
    def single_observation_space(self) -> Space:
        return self.simulator.observation_space

    @property
    def single_action_space(self) -> Space:
        return self.simulator.action_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    @property
    def can_render(self) -> bool:
        """Whether the simulators draw their slots."""
        return self.simulator.can_render

    @refuses_seed
    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        who = self._method("reset")
        require_key(rng, who, "Pass one key; the batch makes the seeds of it.")
        rngs, seeds = self._first(rng)
        zeros = np.zeros(self.n_slots, np.int32)
        given = _RESET, zeros, zeros > 0, zeros == 0, seeds
        return self._begun_by(who, goes_straight(self, rng), *given).returned(rngs)

    @hands_on
    def step(self, state: Any, actions: Any) -> tuple[Any, Any, Any, Any, Info]:
        """
        Take one step in every slot, with auto-reset.

        Raises
        ------
        TypeError
            If actions are of another kind; under `vmap` and `grad`.
        ValueError
            If actions are of another shape or structure, or integers outside of the space.
        RuntimeError
            If `state` is not the newest, after `close`, or after a call of an asynchronous
            simulator that was cut short.
        """
        return self._step_with(state, actions, self._options)

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        who = self._method("step")
        self._require_state(state, who)
        self._require_possible(options, who)
        straight = options.straight or goes_straight(self, (state, actions))
        if not (straight and self.simulator.on_device):
            actions = to_numpy(actions)
        actions = conform(self._action_space, actions, who)
        if not is_traced(actions):  # before a cast wraps integers around
            require_legal(self.single_action_space, actions, who)
        following = partial(self._following, state.rng)
        if straight:
            options = options._replace(straight=True)
            rngs, out = self._step_on_host(who, options, state.call, state.step, actions, following)
        else:
            rngs, seeds = following()

            def run(call: Any, step: Any, actions: Any, seeds: Any) -> Any:
                actions = jax.tree.map(np.array, actions)
                require_legal(self.single_action_space, actions, who)
                given = call, step, actions, lambda: (None, seeds)
                return self._step_on_host(who, options, *given)[1]

            types = self._step_types(options)
            out = call_host(run, types, state.call, state.step, actions, seeds)
        rng = state.rng if rngs is None else self._keys_where(out.begins, rngs, state.rng)
        return *out.begun.returned(rng), out.reward, out.done, out.infos

    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        who = self._method("reset_where")
        if starts is not None:
            raise NotImplementedError(
                f"{who}: expected a call without `starts`, since a simulator on the host begins "
                "by a seed. Give a key."
            )
        self._require_state(state, who)
        self.simulator.require_begin_where()
        mask = require_mask(who, mask, self.n_slots)
        obs = conform(self.observation_space, obs, who, "obs", "Pass what reset or step returned.")
        straight = goes_straight(self, (mask, obs, state, rng))
        if rng is None:
            rngs, seeds = self._following(state.rng)
        else:
            require_key(rng, who, "Pass one key, as to `reset`.")
            rngs, seeds = self._first(rng)
        begun = self._begun_by(who, straight, state.call, state.step, state.done, mask, seeds)
        if straight:
            mask = np.asarray(mask)
            obs = with_rows(to_numpy(obs), mask, take_rows(begun.obs, mask))
        else:
            obs = where_slots(mask, begun.obs, obs)
        return begun._replace(obs=obs).returned(self._keys_where(mask, rngs, state.rng))

    def action_mask(self, state: Any) -> Any:
        self._require_state(state, self._method("action_mask"))
        return state.mask

    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        who = self._method("render_slot")
        self._require_state(state, who)
        self._require_newest(state.call, who)
        slot = slot_index(who, slot_idx, self.n_slots)
        if not self.can_render:
            raise NotImplementedError(
                f"{who}: expected a simulator that draws single slots; got {self!r}. Build it with "
                '`render_mode="rgb_array"`, if it can draw, or write a method `render()`.'
            )
        return np.array(self.simulator.draw(slot), np.uint8)

    def render(self, state: Any, *, index: int = 0) -> np.ndarray:
        """Draw one slot, as `render_slot`."""
        return self.render_slot(state, index)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.simulator.close()

    def _first(self, rng: jax.Array) -> tuple[Any, Any]:
        return first_episodes(rng, None if self.simulator.base_seed else self.n_slots)

    def _following(self, rngs: jax.Array) -> tuple[Any, Any]:
        return (rngs, None) if self.simulator.base_seed else next_episodes(rngs)

    def _keys_where(self, mask: Any, new: jax.Array, old: jax.Array) -> jax.Array:
        return old if self.simulator.base_seed else keys_where(mask, new, old)

    def _begun_by(self, who: str, straight: bool, *given: Any) -> _Begun:
        run = partial(self._begin_on_host, who, straight)
        return run(*given) if straight else call_host(run, self._begun_types, *given)

    def _begin_on_host(self, who: str, straight: bool, *given: Any) -> _Begun:
        call, step, done, mask, seeds = jax.tree.map(np.asarray, given)
        self._take_turn(call, who)
        if int(call) == _RESET:
            obs = self._ask(self.simulator.begin, seeds)
        elif mask.any():
            obs = self._ask(self.simulator.begin_where, mask, seeds)
        else:
            obs = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self.simulator.obs_types)
        obs = copy_as(self.simulator.obs_types, obs, who, self._read(straight))
        return self._begun(obs, np.where(mask, np.int32(0), step), done & ~mask, who)

    def _step_on_host(
        self,
        who: str,
        options: StepOptions,
        call: Any,
        step: Any,
        actions: Any,
        following: Callable[[], Any],
    ) -> tuple[Any, _Stepped]:
        """The keys of the episodes that follow, if any begin, and the results of a step."""
        simulator = self.simulator
        info_types = simulator.info_types
        read = self._read(options.straight)
        self._take_turn(call, who)
        obs, *columns, info, last = self._ask(simulator.step, actions, options.final_obs)
        ends: RewardsAndEnds = copy_rewards_and_ends(self.n_slots, *columns, who=who, read=read)
        infos = {k: copy_as(v, info[k], f"{who}: info {k!r}", read) for k, v in info_types.items()}
        infos |= {"terminated": ends.terminated, "truncated": ends.truncated}
        obs = copy_as(simulator.obs_types, obs, who, read)
        done = ends.done
        begins = done & options.autoreset
        if options.final_obs:
            final_obs = last if simulator.resets_itself else obs
            infos["final_obs"] = copy_as(simulator.obs_types, final_obs, who, read)
            if simulator.has_mask:
                infos["final_mask"] = copy_as(self._mask_types, simulator.last_masks(), who)
        rng = None
        if begins.any() and not simulator.resets_itself:
            rng, seeds = following()
            seeds = jax.tree.map(np.asarray, seeds)
            first = self._ask(simulator.begin_where, begins, seeds)
            first = copy_as(simulator.obs_types, first, who, read)
            obs = with_rows(obs, begins, take_rows(first, begins))
        steps = np.where(begins, np.int32(0), np.asarray(step) + np.int32(1))
        begun = self._begun(obs, steps, done & ~begins, who)
        return rng, _Stepped(begun, begins, ends.rewards, done, infos)

    def _read(self, straight: bool) -> Callable[[Any], Any]:
        return partial(self.simulator.array, straight=straight)

    def _begun(self, obs: Any, step: Any, done: Any, who: str) -> _Begun:
        return _Begun(obs, step, done, np.int32(self._newest), self._masks(who))

    def _masks(self, who: str) -> Any:
        if not self.simulator.has_mask:
            return None
        return copy_as(self._mask_types, self.simulator.masks(), who)

    def _ask(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call the simulator; an asynchronous one is lost if that raises."""
        self._is_lost = self.simulator.is_asynchronous
        try:
            result = method(*args)
        except (EOFError, ConnectionError) as error:
            if not self._is_lost:
                raise
            raise RuntimeError(
                f"{self.simulator.who}: expected workers that answer; got {error!r} from one that "
                "ended. Close the batch, and build another simulator."
            ) from error
        self._is_lost = False
        return result

    def _take_turn(self, call: Any, who: str) -> None:
        """Count the call first: if it fails, no state is the newest until a reset."""
        self._require_newest(call, who)
        self._newest = next(_NUMBERS) % 2**31

    def _method(self, name: str) -> str:
        return f"{self.simulator.who}.{name}"

    def _require_state(self, state: Any, who: str) -> None:
        if not isinstance(state, HostBatchState):
            raise TypeError(
                f"{who}: expected the state that reset or step returned; got "
                f"{type(state).__name__}. Pass that one."
            )

    def _require_newest(self, call: Any, who: str) -> None:
        if self._is_closed:
            raise RuntimeError(
                f"{who}: expected an open simulator; got a batch after `close`. Build another one."
            )
        if self._is_lost:
            raise RuntimeError(
                f"{who}: expected a simulator whose calls all returned; got one that was "
                "interrupted in a call, or that lost a worker. Close it, and build another one."
            )
        if int(call) not in (_RESET, self._newest):
            raise RuntimeError(
                f"{who}: expected the state of the last call, since a simulator cannot go back; "
                "got an older one, one of another batch, or one whose step failed. Pass the newest "
                "state, or call `reset`."
            )

    def _require_possible(self, options: StepOptions, who: str) -> None:
        simulator = self.simulator
        if options.final_obs and simulator.resets_itself and not simulator.has_last:
            raise TypeError(
                f"{who}: expected a simulator that gives the last observation of an episode, for "
                f"`final_obs` and `next_obs`; got {simulator.name}, which shows only the first of "
                "the next. Step it without `final_obs`."
            )
        if simulator.resets_itself and not options.autoreset:
            raise TypeError(
                f"{who}: expected a simulator that can be stepped without auto-reset; got "
                f"{simulator.name}, which resets its slots itself. Build it in another mode."
            )

    @cached_property
    def _mask_types(self) -> Any:
        if not self.simulator.has_mask:
            return None
        one: Any = jax.eval_shape(lambda: with_full_masks(self.single_action_space, None))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((self.n_slots, *x.shape), bool), one)

    @cached_property
    def _begun_types(self) -> _Begun:
        ints, flags = (jax.ShapeDtypeStruct((self.n_slots,), x) for x in (np.int32, bool))
        call = jax.ShapeDtypeStruct((), np.int32)
        return _Begun(self.simulator.obs_types, ints, flags, call, self._mask_types)

    def _step_types(self, options: StepOptions) -> _Stepped:
        begun = self._begun_types
        flags = begun.done
        infos: dict[str, Any] = {**self.simulator.info_types}
        infos |= {"terminated": flags, "truncated": flags}
        if options.final_obs:
            infos["final_obs"] = begun.obs
            if self.simulator.has_mask:
                infos["final_mask"] = begun.mask
        rewards = jax.ShapeDtypeStruct((self.n_slots,), np.float32)
        return _Stepped(begun, flags, rewards, flags, infos)

    def __repr__(self) -> str:
        return f"HostBatch({self._name!r}, n_slots={self.n_slots})"
