# pyright: basic, reportMissingImports=false
"""A library stepped by hand, beside the same library through its adapter."""

import importlib
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import numpy as np
import pytest

import envrax
from envrax.interop import PeerConfig
from envrax.libraries import library_ids
from envrax.testing import report_env


def make(name: str, **fields: Any) -> Any:
    """One environment, by its name and fields of its config."""
    config = PeerConfig(id=name.partition("/")[2], **fields)
    return envrax.make(name, config=config, jit_compile=False)


def follow(
    env: Any,
    begin: Callable[..., Any],
    advance: Callable[..., Any],
    edit: Callable[[Any], Any] = lambda inner: inner,
    masked: Callable[[int], bool] = lambda step: True,
    kept: Callable[[Any], Any] = lambda inner: inner,
) -> set[str]:
    """
    200 steps of both with the same keys and random actions: all they return is equal to the bit.

    Parameters
    ----------
    env : JaxEnv
        The environment, whose step draws from a key or not.
    begin : callable
        `begin(key)` gives obs and the library's state.
    advance : callable
        `advance(key, inner, action)` gives obs, the library's state, reward, and a dict of the
        expected entries of `info`, `done` and `active`. Without `truncated` in it, an episode is
        truncated at the limit. In a world, obs and reward are dicts by agent.
    edit : callable
        A change to the library's state halfway, on both sides, to bring about an end.
    masked : callable
        In which steps only legal actions are drawn.
    kept : callable
        The part of the library's state that our state keeps.

    Returns
    -------
    set of str
        How episodes ended: `terminated`, `truncated`; and `apart`, if agents did before others.
    """
    reset, step, legal, active = map(jax.jit, (env.reset, env.step, env.action_mask, env.active))
    begin, advance = by_hand(begin), by_hand(advance)

    def begun(rng: Any) -> Any:
        obs, state = reset(rng)
        hand_obs, inner = begin(jax.random.split(rng)[1])
        equal((obs, state.inner), (hand_obs, kept(inner)))
        return state, inner

    ends: set[str] = set()
    state, inner = begun(jax.random.key(3))
    for n, action_key in enumerate(jax.random.split(jax.random.key(4), 200)):
        if n == 100:
            state, inner = state.replace(inner=edit(state.inner)), edit(inner)
        action = env.action_space.sample(action_key, legal(state) if masked(n) else None)
        hand_obs, inner, hand_reward, expected_info = advance(
            jax.random.split(state.rng)[1], inner, action
        )
        obs, state, reward, done, info = step(state, action)
        hand_reward = jax.tree.map(np.float32, hand_reward)
        equal((obs, state.inner, reward), (hand_obs, kept(inner), hand_reward))
        expected_info = {"truncated": state.step == env.config.max_steps, **expected_info}
        ours = {**info, "done": done, "active": active(state)}
        equal({name: ours[name] for name in expected_info}, expected_info)
        assert done == (info["terminated"] | info["truncated"])
        ended = jax.tree.leaves(info.get("agents", {}))
        ends |= {"apart"} if any(ended) and not done else set()
        if done:
            ends |= {name for name in ("terminated", "truncated") if info[name]}
            state, inner = begun(jax.random.split(state.rng)[0])
    return ends


def check_ids_and_wrong_input(library: str, id: str, misspelt: str) -> None:
    """Its ids are those of the file; a misspelt id, an unknown keyword, another object."""
    name = f"{library}/{id}"
    listed = [name for name in library_ids() if name.startswith(f"{library}/")]
    assert sorted(envrax.load_suite(library)) == listed, "run `benchmarks table` and `pages`"
    with pytest.raises(ValueError, match=f"'{name}'"):
        envrax.get_spec(f"{library}/{misspelt}")
    with pytest.raises(ValueError, match="sise"):
        make(name, options={"sise": 3})
    with pytest.raises(TypeError, match="params"):
        make(name, params={"sise": 3})
    with pytest.raises(TypeError, match=library):
        importlib.import_module(f"envrax.interop.{library}").wrap(object())


def check_waivers(env: Any) -> None:
    """It breaks the rules that its adapter waives, and no other."""
    report = report_env(env, num_steps=40)
    assert report.ok and set(report.waived) == set(env.unwrapped.waivers), report


def observes(env: Any) -> bool:
    """Whether `observe` is not None; if so, it is what 20 steps return, to the bit."""

    def both(method: Any) -> Any:
        def call(*args: Any) -> Any:
            obs, state = method(*args)[:2]
            return obs, env.observe(state), state

        return jax.jit(call)

    obs, observed, state = both(env.reset)(jax.random.key(0))
    if observed is None:
        return False
    step = both(env.step)
    for rng in jax.random.split(jax.random.key(1), 20):
        equal(observed, obs)
        obs, observed, state = step(state, env.action_space.sample(rng))
    return True


def equal(ours: Any, theirs: Any) -> None:
    """Compare the leaves of two trees, whose containers may differ."""
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


def bits(x: Any) -> Any:
    """A leaf that NumPy can read: of typed keys, their bits."""
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def called(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a library's function as its users do: the tests promote dtypes strictly."""
    with jax.numpy_dtype_promotion("standard"):
        return function(*args, **keywords)


def by_hand(function: Callable[..., Any]) -> Any:
    """Compile a library's function as its users do."""
    return jax.jit(wraps(function)(partial(called, function)))


def of_brax(peer: Any) -> tuple[Any, Any]:
    """`begin` and `advance` of an environment in the protocol of brax."""

    def begin(key: Any) -> Any:
        inner = peer.reset(key)
        return inner.obs, inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        inner = peer.step(inner, action)
        return inner.obs, inner, inner.reward, {"terminated": inner.done > 0}

    return begin, advance


def of_gymnax(peer: Any, params: Any, ends: Any = None) -> tuple[Any, Any]:
    """The same in the protocol of gymnax; `ends(inner, over)`, if `over` counts the limit."""

    def begin(key: Any) -> Any:
        return peer.reset_env(key, params)

    def advance(key: Any, inner: Any, action: Any) -> Any:
        obs, inner, reward, over, *_ = peer.step_env(key, inner, action, params)
        return obs, inner, reward, ends(inner, over) if ends else {"terminated": over}

    return begin, advance
