"""The batch interface: many environments stepped in one call."""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.marks import adds, hands_on
from envrax._jax.at_once import compute_at_once
from envrax._jax.cache import DEFAULT_CACHE_DIR, CacheDir
from envrax._jax.returned import require_tuple
from envrax._jax.types import is_inside_jit_quick, is_traced
from envrax.env import ActSpaceT, Info, ObsSpaceT, Resource
from envrax.spaces import Space


class StepOptions(NamedTuple):
    """
    How a batch is stepped.

    Attributes
    ----------
    autoreset : bool
        Whether slots that ended are reset.
    final_obs : bool
        Whether the infos have `final_obs`, `final_mask` if there are masks, and the reasons.
    reasons : bool
        Whether the infos have the reasons, `terminated` and `truncated`.
    straight : bool
        Whether it is known that the call `goes_straight` to a simulator.
    """

    autoreset: bool = True
    final_obs: bool = False
    reasons: bool = False
    straight: bool = False


class BatchedEnv(Resource, ABC, Generic[ObsSpaceT, ActSpaceT]):
    """
    A batch of `n_slots` independent slots, stepped in one call.

    `VecEnv` is the batch of copies of one `JaxEnv`. Write a subclass for anything else, such as a
    simulator on the host. The state is opaque to the caller.
    """

    _options = StepOptions()  # of `step`
    # Functions that run before each call from Python: they write videos that are complete.
    _write_first: Any = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        compute_at_once(cls, "single_observation_space", "single_action_space")
        compute_at_once(cls, "observation_space", "action_space")

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """The number of slots."""

    @property
    @abstractmethod
    def single_observation_space(self) -> ObsSpaceT:
        """The space of one slot's observation."""

    @property
    @abstractmethod
    def single_action_space(self) -> ActSpaceT:
        """The space of one slot's action."""

    @property
    def observation_space(self) -> Space:
        """The space of the observations of all slots, stacked."""
        return self.single_observation_space.batch(self.n_slots)

    @property
    def action_space(self) -> Space:
        """The space of the actions of all slots, stacked."""
        return self.single_action_space.batch(self.n_slots)

    @property
    def name(self) -> str:
        """The name for logs."""
        return type(self).__name__

    @property
    def traceable(self) -> bool:
        """Whether JAX can trace `reset` and `step`; False for threads and host code."""
        return True

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of the world in each slot, in order; `()` for one agent."""
        return ()

    @abstractmethod
    def reset(self, rng: jax.Array) -> tuple[Any, Any]:
        """
        Begin an episode in every slot.

        Parameters
        ----------
        rng : jax.Array
            One PRNG key, typed or legacy.

        Returns
        -------
        obs : pytree of jax.Array
            First observations, an element of `observation_space`: leading axis `n_slots`.
        state : pytree
            State of all slots, for `step`.
        """

    @abstractmethod
    def step(self, state: Any, actions: Any) -> tuple[Any, Any, jax.Array, jax.Array, Info]:
        """
        Take one step in every slot. A slot whose episode ends begins its next one (auto-reset).

        Trainers that bootstrap at a time limit, and `envrax.rollout`, also need
        `infos["final_obs"]`: the observation of the step itself, before any reset, in every slot;
        and where there are masks `infos["final_mask"]`, the mask of legal actions in that state.

        Parameters
        ----------
        state : pytree
            State from `reset` or from the last `step`.
        actions : pytree of jax.Array
            An element of `action_space`.

        Returns
        -------
        obs, new_state, rewards, dones, infos
            As from `JaxEnv.step`, each with leading axis `n_slots`.
        """

    def reset_where(
        self, mask: Any, obs: Any, state: Any, rng: jax.Array | None = None, *, starts: Any = None
    ) -> tuple[Any, Any]:
        """
        Begin an episode in the slots of a mask. The other slots stay as they are.

        Parameters
        ----------
        mask : jax.Array
            bool[n_slots], True where an episode begins.
        obs, state
            The observations and the state from `reset`, `step` or the last `reset_where`.
        rng : jax.Array, optional
            One PRNG key: slot i then begins as in `reset(rng)`. Without it, slot i begins the
            episode that follows its present one, as auto-reset does.
        starts : (obs, state), optional
            The starts of all slots, of which those in the mask are used: what
            `jax.vmap(env.unwrapped.reset)(rngs)` returns, or a method of your own such as
            `reset_to(level)`. They take the place of the innermost environment's reset, and keep
            their keys: slots that begin with one key play one future. Wrappers begin around them as
            ever.

        Returns
        -------
        obs, state
            The same with the first observation and state of an episode in the slots of the mask.

        Raises
        ------
        TypeError, ValueError
            If `mask` is not bool of that shape, `obs`, `state` or `starts` are not of this batch,
            or a wrapper such as `StartStates` begins episodes in another way.
        NotImplementedError
            If the batch cannot begin episodes in some of its slots.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.reset_where: expected a batch that begins episodes in some of "
            "its slots; got one that has no `reset_where`. Override it if it can."
        )

    def action_mask(self, state: Any) -> Any:
        """
        The masks of legal actions of all slots; see `JaxEnv.action_mask`.

        Parameters
        ----------
        state : pytree
            State of all slots, from `reset` or `step`; after an auto-reset, of the new episode.

        Returns
        -------
        pytree of jax.Array, or None
            As from `JaxEnv.action_mask`, with leading axis `n_slots`. None if all are legal.
        """
        return None

    def active(self, state: Any) -> dict[str, jax.Array]:
        """Which agents act in the next step; see `JaxEnv.active`. Shape `(n_slots,)` each."""
        return {agent: jnp.ones(self.n_slots, jnp.bool_) for agent in self.agents}

    def slot_state(self, state: Any, slot_idx: int | jax.Array = 0) -> Any:
        """
        The state of one slot, without the batch axis.

        Parameters
        ----------
        state : pytree
            State of all slots.
        slot_idx : int or jax.Array, default 0
            List rules: negative counts from the end. It may be traced.

        Raises
        ------
        IndexError
            If a concrete index is out of range.
        NotImplementedError
            If a slot has no state of its own.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.slot_state: expected slots with a state of their own; got a "
            "batched environment that keeps none. Override it if it can give one."
        )

    @hands_on
    def render_slot(self, state: Any, slot_idx: int = 0) -> np.ndarray:
        """
        Draw one slot.

        Parameters
        ----------
        state : pytree
            State of all slots.
        slot_idx : int, default 0
            As for `slot_state`, but not traced.

        Returns
        -------
        np.ndarray
            uint8 RGB image of shape (H, W, 3).
        """
        raise NotImplementedError(
            f"{type(self).__name__}.render_slot: expected a batched environment that draws itself; "
            "got one without `render_slot`. Override it."
        )

    def compile(self, cache_dir: CacheDir = DEFAULT_CACHE_DIR) -> None:
        """
        Compile `reset` and `step` ahead: the first calls with typed keys then compile nothing.

        Parameters
        ----------
        cache_dir : path-like or None
            Directory or URL of the persistent compile cache; None for no cache. The default uses
            the cache that JAX is configured with, if there is one.
        """

    def _step_with(self, state: Any, actions: Any, options: StepOptions) -> Any:
        """`step` with other options, which a batch of the user ignores."""
        return self.step(state, actions)

    @property
    def _has_last(self) -> bool:
        """Whether `step` can show the observations before resets, as `final_obs`."""
        return True

    @property
    def _straight(self) -> bool:
        """Whether calls from Python reach a simulator on the host, with no program around it."""
        return not self.traceable


AnyBatch = BatchedEnv[Any, Any]


def is_straight(env: Any) -> bool:
    """Whether an environment, or a batch, is called straight from Python: compile nothing of it."""
    own: Any = env  # its members are private
    return own._straight if isinstance(env, BatchedEnv) else not own.traceable


def shows_last(batch: AnyBatch) -> bool:
    """Whether `step` of a batch can show the observations before resets, as `final_obs`."""
    return batch._has_last  # pyright: ignore[reportPrivateUsage]


def goes_straight(env: Any, args: Any) -> bool:
    """
    Whether a call with these arguments goes straight to a simulator on the host.

    It does not inside `jax.jit`, also where no argument is traced. Ask once a call, and pass the
    answer on: `StepOptions.straight`.
    """
    if not is_straight(env):
        return False
    return not env.traceable or not (is_traced(args) or is_inside_jit_quick())


def step_with(batch: AnyBatch, state: Any, actions: Any, options: StepOptions) -> Any:
    """
    `batch.step` with other options than the batch was built with.

    A class of the user that overrides `step` is stepped by that method, with its own options.

    Raises
    ------
    TypeError
        If such a class has not the auto-reset that `options` ask for.
    """
    own: Any = batch  # its members are private
    if not adds(batch.step):
        return own._step_with(state, actions, options)
    if own._options.autoreset != options.autoreset:
        wanted = "with" if options.autoreset else "without"
        raise TypeError(
            f"{type(batch).__name__}.step: expected a batch that can be stepped {wanted} "
            f"auto-reset; got one that overrides `step`. Build it {wanted} auto-reset."
        )
    return require_tuple(type(batch).__name__, "step", batch.step(state, actions))


def require_final_obs(who: str, infos: Info) -> None:
    """Raise a TypeError unless the infos have `final_obs`."""
    if "final_obs" not in infos:
        raise TypeError(
            f"{who}: expected infos with `final_obs`; got {sorted(infos)}. Build the batch with "
            "`final_obs=True`; in a batch or a wrapper of your own, let `step` return it."
        )
