"""`PeerEnv`: the base class of adapters, a `JaxEnv` around an environment of another library."""

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from envrax._checks.counts import require_count
from envrax._checks.names import require_known
from envrax._jax.keys import require_key
from envrax._jax.types import is_traced, output_types
from envrax.agent_values import for_each
from envrax.env import Info, JaxEnv
from envrax.interop.forms import Form, cast_to, find_form, types_of, without_x64
from envrax.interop.params import Params, changed, concrete, fitting
from envrax.interop.records import NO_LIMIT, Advanced, Begun, PeerConfig, PeerState
from envrax.spaces import Space
from envrax.spaces.conform import conform


class PeerEnv(JaxEnv[Space, Space, PeerState, PeerConfig]):
    """
    An environment of another library, without that library's own auto-reset.

    A subclass defines `build`, `begin`, `advance` and `spaces`; where needed also `default_params`,
    `limit`, `with_limit`, `waivers`, `mended_bounds` and `render`. Results are cast to the same
    types at reset and after a step, and no argument is edited. A step that draws nothing leaves
    `state.rng` unchanged. The time limit truncates.

    Parameters
    ----------
    config : PeerConfig
        Which environment, and how to build it.
    peer : Any, optional
        The library's object, if it is built already.

    Attributes
    ----------
    library : str
        The library's name, which is the prefix of its ids.
    peer, params
        The library's object, and its parameters; None where it has none.
    concrete_params : pytree
        The parameters, with the default in place of each value that is traced.

    Raises
    ------
    ValueError
        If the library cannot build the environment; its message is quoted.
    TypeError
        If the config is wrong, or the library's object breaks the library's own contract.
    """

    library: ClassVar[str]

    def __init__(self, config: PeerConfig | None = None, *, peer: Any = None) -> None:
        super().__init__(config)
        # Copies of the dicts: `__reduce__` builds again from this config.
        own = jax.tree.map(lambda x: x, (self.config.params, dict(self.config.options or {})))
        self._asked = self._config = self.config.replace(params=own[0], options=own[1])
        if not (type(self.config.max_steps) is int and self.config.max_steps == 0):
            self._require_steps("`max_steps`", self.config.max_steps)
        self._given = peer
        # The caller may trace, and may want strict promotion; the library was written for neither.
        with jax.ensure_compile_time_eval(), jax.numpy_dtype_promotion("standard"):
            with self._asking("build it", ValueError):
                self.peer = self.build() if peer is None else peer
            default = self.default_params()
        self._settle(self.change(default, self.config.params))
        self.concrete_params = concrete(self.params, default)
        self._begin: Any = jax.jit(self._begin_with)
        self._advance: Any = jax.jit(self._advance_with)
        self._forms: dict[Any, Form] = {}
        self._take_spaces()

    @abstractmethod
    def build(self) -> Any:
        """The library's object, from `config.id` and `config.options`."""

    def default_params(self) -> Any:
        """The parameters that `peer` has by default; None where the library has none."""
        return None

    def change(self, params: Any, changes: Any, caller: str = "") -> Any:
        """Parameters with some changed by name; arrays are cast for a `caller`, `with_config`."""
        return changed(self._who, params, fitting(caller, params, changes) if caller else changes)

    @property
    def changes(self) -> Any:
        """What compiled programs and the config take of `params`: by default, all of them."""
        return self.params

    def limit(self) -> int:
        """The library's own time limit, in steps; it may be traced."""
        return NO_LIMIT

    def with_limit(self, params: Any, max_steps: int) -> Any:
        """Parameters with another time limit, for a library that keeps it there."""
        return params

    @abstractmethod
    def spaces(self) -> tuple[Space, Space]:
        """The spaces of observations and of actions. `observed` has the dtypes of the former."""

    @abstractmethod
    def begin(self, params: Any, rng: jax.Array) -> Begun:
        """
        Begin an episode, with one PRNG key.

        Use the library's `params` from here, and not `self.params`: some may be traced.
        """

    @abstractmethod
    def advance(self, params: Any, inner: Any, action: Any, rng: jax.Array) -> Advanced:
        """
        Take one step, without auto-reset; `params` and `rng` as for `begin`.

        `inner` is a copy of the library's state, which may be edited; `action` an element of
        `action_space`.
        """

    @property
    def waivers(self) -> dict[str, str]:
        """Rules of `check_env` that the library itself breaks, and the reasons."""
        return {}

    @property
    def mended_bounds(self) -> dict[str, str]:
        """Leaves of an observation that violate the library's own bounds, and the reasons."""
        return {}

    @property
    def name(self) -> str:
        return self.config.id

    @property
    def class_name(self) -> str:
        return self.config.id

    @property
    def observation_space(self) -> Space:
        return self._observation_space

    @property
    def action_space(self) -> Space:
        return self._action_space

    @property
    def observed(self) -> Any:
        """Shape and dtype of each leaf of an observation at reset."""
        return types_of(self._typed_begin(jax.random.key(0)).obs)

    def action_mask(self, state: PeerState) -> Any:
        return state.mask

    def _with_config(self, fields: dict[str, Any]) -> Any:
        # A dict of `params` changes the current ones; the config then holds the result.
        who = f"with_config of {self._who}"
        require_known(f"{who}: expected fields of", fields, self.config.__dataclass_fields__)
        others = {name: x for name, x in fields.items() if name != "params"}
        env = type(self)(self._asked.replace(**others), peer=self._given) if others else self
        return env._with_params(who, fields["params"]) if "params" in fields else env

    def _with_params(self, who: str, changes: Any) -> Self:
        """The same with other `params`; it shares the library's object and compiled programs."""
        env = object.__new__(type(self))
        cls = type(self)
        for name, value in vars(self).items():
            if not isinstance(getattr(cls, name, None), cached_property):  # of these params
                setattr(env, name, value)
        env.params = self.change(self.params, changes, who)
        env._asked = self._asked.replace(params=jax.tree.map(lambda x: x, env.changes))
        env._settle(env.params)
        env.concrete_params = env.params  # spaces are static: traced values must not be read
        env._take_spaces()
        env.concrete_params = concrete(env.params, self.concrete_params)
        return env

    def _take_spaces(self) -> None:
        with self._asking("tell its spaces"), jax.ensure_compile_time_eval():
            self._observation_space, self._action_space = self.spaces()

    def _settle(self, params: Any) -> None:
        """Take parameters, and the limit: `max_steps` if it was given, or else the library's."""
        asked = self._asked.max_steps
        self.params = self.with_limit(params, asked) if asked else params
        self._limit: Any = asked or self.limit()
        traced = is_traced(self._limit)
        fixed = NO_LIMIT if traced else self._require_steps("its limit", self._limit)
        self._config = self._asked.replace(max_steps=fixed)

    def reset(self, rng: jax.Array) -> tuple[Any, PeerState]:
        require_key(rng, f"{self._who}.reset", "Pass one key; `VecEnv` splits it.")
        form = self._form(rng)
        rng, key = jax.random.split(rng)
        obs, inner, mask = self._begin(self._params, key)
        state = PeerState(
            rng=rng,
            step=jnp.int32(0),
            done=jnp.bool_(False),
            inner=cast_to(form.inner, inner),
            mask=cast_to(form.mask, mask),
        )
        return cast_to(form.obs, obs), state

    def step(
        self, state: PeerState, action: Any
    ) -> tuple[Any, PeerState, jax.Array, jax.Array, Info]:
        form = self._form(state.rng)
        rng, key = jax.random.split(state.rng) if form.draws else (state.rng, state.rng)
        action = conform(self.action_space, action, f"{self._who}.step", "action")
        out = Advanced(*self._advance(self._params, state.inner, action, key))
        step = state.step + 1
        terminated = _flag(out.terminated)
        with jax.numpy_dtype_promotion("standard"):  # a traced limit may be a float
            truncated = _flag(out.truncated) | (step >= self._limit)
        done = terminated | truncated
        info = {**cast_to(form.info, out.info), "terminated": terminated, "truncated": truncated}
        new_state = state.replace(
            rng=rng,
            step=step,
            done=done,
            inner=cast_to(form.inner, out.inner),
            mask=cast_to(form.mask, out.mask),
        )
        reward = for_each(self, lambda x: jnp.sum(jnp.asarray(x, jnp.float32)), out.reward)
        return cast_to(form.obs, out.obs), new_state, reward, done, info

    @property
    def _who(self) -> str:
        return f"{self.library}/{self.config.id}"

    def _require_steps(self, name: str, steps: Any) -> int:
        number = require_count(f"{self._who}: expected {name}", steps)
        if number > NO_LIMIT:
            raise ValueError(f"{self._who}: expected {name} to be at most {NO_LIMIT}; got {steps}.")
        return number

    @contextmanager
    def _asking(self, what: str, kind: type[Exception] = TypeError) -> Generator[None]:
        """Quote errors of the library, or of a custom object."""
        try:
            with jax.numpy_dtype_promotion("standard"):
                yield
        except Exception as error:
            # An error of ours, or of JAX's key checker.
            if str(error).startswith(self._who) or isinstance(error, jax.errors.KeyReuseError):
                raise
            got = f"{type(error).__name__}: {error}".removesuffix(": ")
            config = {"params": self.config.params is not None, "options": self.config.options}
            given = [f"`{name}`" for name, is_given in config.items() if is_given]
            check = f"Check {' and '.join(given) or 'the environment'}.{without_x64()}"
            raise kind(
                f"{self._who}: expected {self.library} to {what}; got {got}. {check}"
            ) from error

    @property
    def _params(self) -> Params:
        return Params(self.changes)

    def _begin_with(self, params: Params, rng: jax.Array) -> Begun:
        with jax.numpy_dtype_promotion("standard"):
            return Begun(*self.begin(params.whole(), rng))

    def _advance_with(self, params: Params, inner: Any, action: Any, rng: jax.Array) -> Any:
        inner = jax.tree.map(lambda x: x, inner)  # new containers, without `jit` too
        with jax.numpy_dtype_promotion("standard"):
            return Advanced(*self.advance(params.whole(), inner, action, rng))

    def _typed_begin(self, rng: Any) -> Begun:
        return Begun(*self._begin.trace(self._params, rng).out_info)

    def _form(self, rng: jax.Array | jax.ShapeDtypeStruct) -> Form:
        """The form for keys of this kind, which may be in the state, and params of these types."""
        key = jax.ShapeDtypeStruct(rng.shape, rng.dtype)
        kind = key.shape, key.dtype, self._params.types()
        if kind not in self._forms:
            with self._asking("reset and step by its own contract"):
                self._forms[kind] = self._find_form(key)
        return self._forms[kind]

    def _find_form(self, key: jax.ShapeDtypeStruct) -> Form:
        action = output_types(self.action_space.sample)
        advance = partial(self._advance.trace, self._params)
        return find_form(self._who, self._typed_begin(key), lambda x: advance(x, action, key))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), peer=self._given), (self._asked,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.id!r}, max_steps={self.config.max_steps})"


def _flag(x: Any) -> jax.Array:
    """Whether all agents ended, for a library that has a flag for each."""
    return jnp.all(jnp.asarray(x).astype(jnp.bool_))
