"""`Play`: an environment and a policy that acts in it, one step at a time."""

import copy
import inspect
from collections.abc import Callable
from functools import cached_property
from types import MethodType
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks import require_tuple
from envrax._ends import episode_end
from envrax._jax.compiled_batch import layout_of, require_final_obs, with_final_obs
from envrax._jax.mesh import spread, varying_like
from envrax._jax.programs import is_traced, strong
from envrax.autoreset.rule import step_one
from envrax.autoreset.slot import checked, step_slot
from envrax.batched_env import BatchedEnv
from envrax.env import AnyEnv, EnvState, JaxEnv
from envrax.spaces.conform import conform

AnyBatch = BatchedEnv[Any, Any]
Policy = Callable[..., tuple[Any, Any, Any]]


class Rollout(NamedTuple):
    """
    Where a rollout stands: all that the next step depends on.

    Attributes
    ----------
    obs : pytree of jax.Array
        The observation that the policy sees next.
    env_state : pytree
        State of the environment.
    policy_state : pytree
        State of the policy.
    rng : jax.Array
        PRNG key for the policy's randomness.
    """

    obs: Any
    env_state: Any
    policy_state: Any
    rng: jax.Array


class Transition(NamedTuple):
    """
    One step; in what `rollout` returns, each leaf has a leading axis of time.

    Attributes
    ----------
    obs, action : pytree of jax.Array
        What the policy saw, and what it did.
    reward : jax.Array
        As the environment returned it.
    done, terminated, truncated : jax.Array
        bool: whether an episode ended in this step, and why. An end without a reason in `info` is a
        termination.
    next_obs : pytree of jax.Array
        The observation that the step itself made, also where an episode ended, in which case the
        next `obs` is the first one of another episode. To bootstrap, take the value of `next_obs`
        wherever `terminated` is False.
    info : dict
        The info of the step, without `final_obs`, which is `next_obs`.
    extras : pytree
        What the policy returned beside the action, such as log-probabilities.
    """

    obs: Any
    action: Any
    reward: jax.Array
    done: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    next_obs: Any
    info: dict[str, Any]
    extras: Any


class Play:
    """
    An environment and a policy.

    Two are equal if they have the same environment and the same policy, but for the arrays in it.
    So one may be a static argument of `jit`, and `arrays` a traced one.

    Parameters
    ----------
    env : JaxEnv or BatchedEnv
        The environment.
    policy : callable or None
        See `rollout`.
    who : str
        The function that the user called, for error messages.
    resets : bool, default True
        Whether a step of a `JaxEnv` that ends an episode begins the next one.
    """

    def __init__(
        self, env: AnyEnv | AnyBatch, policy: Policy | None, who: str, *, resets: bool = True
    ) -> None:
        if not isinstance(cast(Any, env), JaxEnv | BatchedEnv):
            raise TypeError(
                f"{who}: expected a JaxEnv or a BatchedEnv; got {env!r}. Pass one that `make` or "
                "`make_vec` returned."
            )
        if not (policy is None or callable(policy)):
            raise TypeError(
                f"{who}: expected a policy `(policy_state, obs, rng) -> (action, policy_state, "
                f"extras)`, or None for random actions; got {repr(policy)[:60]}."
            )
        self.given, self.who, self._resets = env, who, resets
        leaves, self._treedef = cast(Any, jax.tree.flatten(policy))
        self.arrays: list[Any] = [x if _is_array(x) else None for x in leaves]
        self._others: list[Any] = [None if _is_array(x) else x for x in leaves]
        self._wants = _wants(policy) if policy is not None else ("mask",)

    def around(self, env: AnyEnv) -> "Play":
        """The same policy in another environment."""
        play = copy.copy(self)
        play.given = env
        vars(play).pop("env", None)
        return play

    @cached_property
    def env(self) -> Any:
        """What is stepped; a batch tells the last observations."""
        return self.given if isinstance(self.given, JaxEnv) else with_final_obs(self.given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Play) or self._key != other._key:
            return False
        return all(map(_same, self._others, other._others))

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return id(self.given), self.who, self._resets, self._treedef

    def act(
        self, arrays: list[Any], policy_state: Any, obs: Any, rng: Any, mask: Any, first: Any
    ) -> tuple[Any, Any, Any, Any]:
        """The rest of the key, the action, and the new state and extras of the policy."""
        rng, key = jax.random.split(rng)
        pairs = zip(arrays, self._others, strict=True)
        policy = jax.tree.unflatten(self._treedef, [y if x is None else x for x, y in pairs])
        if policy is None:
            space = self.env.action_space
            action = space.sample(key) if mask is None else space.sample(key, mask)
            return rng, action, policy_state, None
        asked = {"mask": mask, "first": first}
        returned = policy(policy_state, obs, key, **{name: asked[name] for name in self._wants})
        if not isinstance(returned, tuple) or len(cast(Any, returned)) != 3:
            raise TypeError(
                f"{self.who}: expected the policy to return (action, policy_state, extras); got "
                f"{type(cast(Any, returned)).__name__}. Return None for what there is not."
            )
        action, new_state, extras = jax.tree.map(strong, returned)
        self._require_same(jax.tree.map(strong, policy_state), new_state)
        return rng, action, new_state, extras

    def seen(self, at: Rollout) -> tuple[Any, ...]:
        """What `act` takes, after the policy's arrays."""
        first = self._first(at.env_state) if "first" in self._wants else None
        mask = self.env.action_mask(at.env_state) if "mask" in self._wants else None
        return at.policy_state, at.obs, at.rng, mask, first

    def compiled_act(self, at: Rollout) -> Any:
        """`act`, compiled, for an environment on the host."""
        return _act(self, self.arrays, *self.seen(at))

    def step(self, arrays: list[Any], at: Rollout) -> tuple[Rollout, Transition]:
        """One step of what can be traced."""
        at, transition = self.step_with(at, *self.act(arrays, *self.seen(at)))
        return at, self.with_ends(transition, ())

    def step_with(
        self, at: Rollout, rng: Any, action: Any, policy_state: Any, extras: Any
    ) -> tuple[Rollout, Transition]:
        """One step with an action that is chosen already; why episodes ended is left out."""
        single = isinstance(self.env, JaxEnv)
        step = self._step_alone if single else self._step_batch
        obs, state, reward, done, info, next_obs = step(at.env_state, action)
        info = {name: x for name, x in info.items() if single or name != "final_obs"}
        told = reward, done, done, done, next_obs, info, extras
        return Rollout(obs, state, policy_state, rng), Transition(at.obs, action, *told)

    def with_ends(self, transition: Transition, time: tuple[int, ...]) -> Transition:
        """The transition, or one with the axis `time` in front, with why episodes ended."""
        shape = (*time, *self._slots)
        ends = episode_end(self.who, shape, transition.done, transition.info)
        return transition._replace(terminated=ends[0], truncated=ends[1])

    def _step_alone(self, state: Any, action: Any) -> tuple[Any, ...]:
        """A step of a single environment, which is reset as a slot of a `VecEnv` is."""
        action = conform(self.env.action_space, action, self.who, "action")
        if not self._resets:
            obs, state, reward, _, info, ended = step_slot(self.env, state, action)
            return obs, state, reward, ended, info, obs
        obs, state, reward, _, info, ended, last = step_one(self.env, state, action)
        return obs, state, reward, ended, info, last

    def _step_batch(self, state: Any, actions: Any) -> tuple[Any, ...]:
        obs, state, rewards, dones, infos = self.env.step(state, actions)
        return obs, state, rewards, dones, infos, require_final_obs(self.who, infos)

    def begin(self, rng: jax.Array, policy_state: Any) -> Rollout:
        """Begin an episode, or one in every slot."""
        layout = layout_of(self.given) if isinstance(self.given, BatchedEnv) else None
        if layout is not None:
            rng, policy_state = spread((rng, policy_state), layout.mesh, self.who)
        rng, key = jax.random.split(rng)
        returned = self.given.reset(key)  # which may be compiled already, unlike `self.env`
        if isinstance(self.given, JaxEnv):
            returned = _apart(checked(self.given, "reset", returned))
        obs, state = varying_like(key, require_tuple(self.given.name, "reset", returned))
        policy_state = jax.tree.map(lambda x: strong(owned(x)), policy_state)
        return Rollout(jax.tree.map(owned, obs), state, policy_state, rng)

    @property
    def _slots(self) -> tuple[int, ...]:
        return () if isinstance(self.env, JaxEnv) else (self.env.n_slots,)

    def _first(self, state: Any) -> jax.Array:
        while not isinstance(state, EnvState) and hasattr(state, "env_state"):
            state = state.env_state
        if not isinstance(state, EnvState) or jnp.shape(state.step) != self._slots:
            raise TypeError(
                f"{self.who}: expected an environment whose state counts the steps of each slot, "
                f"since the policy asks for `first`; got {self.env!r}. Leave that parameter out."
            )
        return state.step == 0

    def _require_same(self, before: Any, after: Any) -> None:
        types = [jax.tree.map(_type_of, tree) for tree in (before, after)]
        if types[0] != types[1]:
            raise TypeError(
                f"{self.who}: expected the policy to return a policy_state like the one it got, "
                f"{types[0]}; got {types[1]}. Begin with one of that form: "
                "`start(env, rng, policy_state)`."
            )


_act: Any = jax.jit(Play.act, static_argnums=0)


def owned(x: Any) -> Any:
    """A copy of a NumPy array, whose memory a simulator or the caller may write to."""
    return cast(Any, x).copy() if isinstance(x, np.ndarray) else x


def _apart(tree: Any) -> Any:
    """Arrays of their own, so that a caller can donate them: wrappers share some, as the key."""
    seen = set[int]()

    def one(x: Any) -> Any:
        is_shared = id(x) in seen and not is_traced(x)
        seen.add(id(x))
        return x.copy() if is_shared else x

    return jax.tree.map(one, tree)


def _wants(policy: Any) -> tuple[str, ...]:
    """Which of `mask` and `first` the policy has as parameters, and not bound already."""
    try:
        parameters = inspect.signature(policy).parameters
    except (TypeError, ValueError):
        return ()
    bound = getattr(policy, "keywords", {})  # of a `partial`, which still lists them
    given = [*list(parameters)[:3], *bound]
    return tuple(name for name in ("mask", "first") if name in parameters and name not in given)


def _type_of(x: jax.Array) -> str:
    return f"{x.dtype}{list(x.shape)}"


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def _same(x: Any, y: Any) -> bool:
    # A bound method is made anew whenever it is looked up.
    return x is y or (isinstance(x, MethodType) and isinstance(y, MethodType) and x == y)
