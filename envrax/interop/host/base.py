"""`HostEnv`: the base of simulators on the host that are used as a `BatchedEnv`."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from envrax._checks.counts import slot_index
from envrax._jax.keys import require_key
from envrax._jax.types import is_traced, output_types
from envrax.batched_env import BatchedEnv, StepOptions
from envrax.env import Info, hands_on
from envrax.interop.host.arrays import RewardsAndEnds, map_types, require_legal, to_numpy
from envrax.interop.host.infos import InfoKeys
from envrax.interop.host.state import CurrentState, HostState
from envrax.spaces import Space
from envrax.spaces.conform import conform


class SimulatorStep(NamedTuple):
    """The result of a step of a simulator, as arrays that it does not overwrite."""

    obs: Any
    rewards_and_ends: RewardsAndEnds
    infos: dict[str, Any]
    final_obs: Any


class HostEnv(BatchedEnv[Space, Space]):
    """
    A simulator on the host, with auto-reset in the step that ends an episode, as in `VecEnv`.

    Results are NumPy arrays in the dtypes that JAX has for the spaces; rewards are float32. `infos`
    has `terminated`, `truncated`, the `info_keys`, and `final_obs` if it was requested; with it
    `final_mask`, if `action_mask` is one of the `info_keys`. The state is a token: the simulator
    cannot go back, so only the state of the last `reset` or `step` can be stepped or drawn.

    A subclass defines `_begin` and `_advance`, and where needed `_draw` and `_close`. It calls the
    simulator through `_call`.

    Parameters
    ----------
    n_slots : int
        Number of slots.
    spaces : (Space, Space)
        The spaces of one observation and of one action.
    action_dtypes : pytree of numpy.dtype
        The dtypes in which the simulator takes actions; structured as the space of actions.
    name : str
        The name for logs.
    final_obs : bool
        Whether to add `infos["final_obs"]`.
    infos : InfoKeys
        The infos to pass on.
    is_asynchronous : bool
        Whether the simulator works in other processes or threads.
    """

    def __init__(
        self,
        n_slots: int,
        spaces: tuple[Space, Space],
        action_dtypes: Any,
        name: str,
        final_obs: bool,
        infos: InfoKeys,
        is_asynchronous: bool,
    ) -> None:
        self._n_slots = n_slots
        self._name = name
        self._infos = infos
        self._is_asynchronous = is_asynchronous
        self._single_observation_space, self._single_action_space = spaces
        self._action_space = spaces[1].batch(n_slots)
        self._action_dtypes = action_dtypes
        self._obs_types = output_types(spaces[0].batch(n_slots).sample)
        self._options = StepOptions(final_obs=final_obs)
        self._current = CurrentState()

    @abstractmethod
    def _begin(self, seed: int) -> Any:
        """Begin an episode in every slot, and return the observations."""

    @abstractmethod
    def _advance(self, actions: Any, final_obs: bool) -> SimulatorStep:
        """Take one step, and reset the slots that ended; `final_obs` may be left out."""

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """
        Reset or step the simulator.

        Raises
        ------
        RuntimeError
            If a worker process ended. As after an interrupt or any other error, an asynchronous
            simulator is then lost: nobody knows which of its results were read.
        """
        self._current.lost = self._is_asynchronous
        try:
            result = method(*args, **kwargs)
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                f"{type(self).__name__}: expected workers that answer; got {error!r} from one that "
                "ended. Close the batch, and build another simulator."
            ) from error
        self._current.lost = False
        return result

    def _draw(self, slot: int) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}.render_slot: expected a simulator that draws single slots; got "
            'one that does not. Build it with `render_mode="rgb_array"`, if it can draw.'
        )

    def _close(self) -> None:
        """Close the simulator."""

    @property
    def can_render(self) -> bool:
        """Whether the simulator was built to draw its slots."""
        return type(self)._draw is not HostEnv._draw

    @property
    def traceable(self) -> bool:
        return False

    @property
    def n_slots(self) -> int:
        return self._n_slots

    @property
    def name(self) -> str:
        return self._name

    @property
    def single_observation_space(self) -> Space:
        return self._single_observation_space

    @property
    def single_action_space(self) -> Space:
        return self._single_action_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    def reset(self, rng: jax.Array) -> tuple[Any, HostState]:
        who = f"{type(self).__name__}.reset"
        seed = self._seed(who, rng)
        self._current.require_open(who)
        self._current.forget()
        obs = self._begin(seed)
        return obs, self._current.after_reset(np.ones(self._n_slots, bool))

    @hands_on
    def step(self, state: HostState, actions: Any) -> tuple[Any, HostState, Any, Any, Info]:
        """
        Take one step in every slot, with auto-reset.

        Raises
        ------
        TypeError
            If actions are of another kind.
        ValueError
            If actions are of another shape or structure, or integers outside of the space.
        RuntimeError
            If `state` is not the newest, under a JAX transformation, after `close`, or after a call
            of an asynchronous simulator that was cut short.
        """
        return self._step_with(state, actions, self._options)

    def _step_with(
        self, state: HostState, actions: Any, options: StepOptions
    ) -> tuple[Any, HostState, Any, Any, Info]:
        who = f"{type(self).__name__}.step"
        self._refuse_tracers(who, (state, actions))
        newest = self._current.require_newest(state, who)
        actions = conform(self._action_space, to_numpy(actions), who)
        require_legal(self._single_action_space, actions, who)  # before a cast wraps them around
        actions = map_types(lambda dtype, x: np.array(x, dtype), self._action_dtypes, actions)
        self._current.forget()  # after a failed step, no state is valid
        result = self._advance(actions, options.final_obs)
        ends = result.rewards_and_ends
        infos = {**result.infos, "terminated": ends.terminated, "truncated": ends.truncated}
        if options.final_obs:
            infos["final_obs"] = result.final_obs
            if "action_mask" in infos:
                infos["final_mask"] = infos["action_mask"] != 0
        state = self._current.after_step(newest, ends.done)
        return result.obs, state, ends.rewards, ends.done, infos

    def render_slot(self, state: HostState, slot_idx: int = 0) -> np.ndarray:
        who = f"{type(self).__name__}.render_slot"
        index = slot_index(who, slot_idx, self._n_slots)
        self._current.require_newest(state, who)
        return np.array(self._draw(index), np.uint8)

    def close(self) -> None:
        if not self._current.closed:
            self._current.closed = True
            self._current.forget()
            self._close()

    def _seed(self, who: str, rng: jax.Array) -> int:
        """A seed of 30 bits, since a simulator adds the number of the slot."""
        require_key(rng, who, "Pass one key; the simulator makes seeds of it.")
        bits = jax.random.bits(rng, (), np.uint32)
        self._refuse_tracers(who, bits)
        return int(bits) >> 2

    def _refuse_tracers(self, who: str, tree: Any) -> None:
        # Without traced arguments, the call may still be inside a traced function.
        if is_traced((tree, jax.lax.add(np.int32(0), np.int32(0)))):
            raise RuntimeError(
                f"{who} is incompatible with JAX transforms (jit, vmap, scan): the simulator runs "
                "on the host. Step it from Python; `rollout` and `evaluate` take it as it is."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, n_slots={self._n_slots})"


def dtypes_of(space: Any) -> Any:
    """The dtypes of a space of Gymnasium, structured as the space."""
    children = getattr(space, "spaces", None)
    if isinstance(children, dict):
        return {name: dtypes_of(child) for name, child in cast(dict[str, Any], children).items()}
    if children is not None:
        return tuple(dtypes_of(child) for child in cast(Iterable[Any], children))
    return np.dtype(space.dtype)
