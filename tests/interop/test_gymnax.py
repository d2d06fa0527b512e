# pyright: basic, reportMissingImports=false
"""gymnax by name: equal to gymnax stepped by hand; corrected bounds, downloads, tracing, `wrap`."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.by_hand import follow, make, of_gymnax

import envrax
from envrax.interop import PeerConfig, to_gymnax
from envrax.wrappers import NormalizeObservation, RecordVideo


@pytest.mark.parametrize(("id", "limit"), [("CartPole-v1", 18), ("Breakout-MinAtar", 12)])
def test_200_steps_are_those_of_gymnax(adapter: Any, id: str, limit: int) -> None:
    env = make(f"gymnax/{id}", max_steps=limit)
    peer, params = env.unwrapped.peer, env.unwrapped.params

    def ends(inner: Any, over: Any) -> Any:
        return {"terminated": over, "truncated": peer.is_truncated(inner, params)}

    assert follow(env, *of_gymnax(peer, params, ends)) == {"truncated", "terminated"}


# Fields with which it shows, and after how many steps the episode ends.
MENDED: dict[str, tuple[dict[str, Any], int | None]] = {
    "BernoulliBandit-misc": ({"max_steps": 150}, None),
    "GaussianBandit-misc": ({}, None),
    "MemoryChain-bsuite": ({}, 5),
    "MetaMaze-misc": ({"params": {"punishment": -1.0}}, None),
}


@pytest.mark.parametrize("id", MENDED)
def test_corrected_bounds_are_wrong_in_gymnax(adapter: Any, id: str) -> None:
    """Observations leave the bounds of gymnax and not ours. Remove it once gymnax is corrected."""
    assert id in adapter.MENDED
    fields, n_steps = MENDED[id]
    env = make(f"gymnax/{id}", **fields)
    theirs = env.unwrapped.peer.observation_space(env.unwrapped.params)

    @jax.jit
    def run(rng: Any) -> Any:
        def body(state: Any, key: Any) -> Any:
            obs, state, *_ = env.step(state, env.action_space.sample(key))
            return state, obs

        obs, state = env.reset(rng)
        return obs, jax.lax.scan(body, state, jax.random.split(rng, env.config.max_steps))[1]

    first, seen = run(jax.random.key(0))
    seen = np.concatenate([first[None], seen[:n_steps]])
    assert all(row in env.observation_space for row in seen)
    assert np.any((seen < theirs.low) | (seen > theirs.high))


def test_ids_need_no_building(adapter: Any) -> None:
    ids = {f"gymnax/{id}" for id in (*adapter.DRAWN, *adapter.MENDED)}
    assert ids <= set(envrax.registered_names())


def test_the_limit_is_in_the_params_too(adapter: Any) -> None:
    env = make("gymnax/DiscountingChain-bsuite", max_steps=10).unwrapped
    assert env.config.max_steps == env.params.max_steps_in_episode == 10
    _, state = env.reset(jax.random.key(0))
    obs, *_ = env.step(state, 0)
    assert obs[1] == np.float32(0.1)  # the share of the limit that is over
    env = make("gymnax/CartPole-v1", params={"max_steps_in_episode": 7})
    assert env.config.max_steps == 7
    for fields in ({"max_steps": 9}, {"params": {"max_steps_in_episode": 9}}):
        env = make("gymnax/BernoulliBandit-misc", **fields).unwrapped
        assert env.config.max_steps == 9
        assert isinstance(env.params.max_steps_in_episode, float)  # gymnax wants one there


def test_params_may_be_traced(adapter: Any) -> None:
    def observed(gravity: Any, limit: Any) -> Any:
        params = {"gravity": gravity, "max_steps_in_episode": limit}
        config = PeerConfig(id="CartPole-v1", params=params)
        env = envrax.make_vec("gymnax/CartPole-v1", 2, pre_warm=False, config=config)
        obs, state = env.reset(jax.random.key(0))
        truncated = []
        for _ in range(3):
            obs, state, _, _, info = env.step(state, jnp.ones(2, jnp.int32))
            truncated.append(info["truncated"][0])
        return obs, jnp.stack(truncated)

    gravities, limits = jnp.array([1.0, 9.8, 50.0]), jnp.array([2, 3, 1000])
    obs, truncated = jax.jit(jax.vmap(observed))(gravities, limits)
    np.testing.assert_allclose(obs[2], observed(50.0, 1000)[0], rtol=1e-5)
    assert truncated.tolist() == [[False, True, False], [False, False, True], [False, False, False]]


def test_render_of_ids_that_gymnax_cannot_draw(adapter: Any) -> None:
    with pytest.raises(TypeError, match="render"):
        RecordVideo(make("gymnax/DeepSea-bsuite"))


def test_a_download_is_named(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(**_: Any) -> Any:
        raise OSError("no route")

    monkeypatch.setitem(adapter.gymnax.registration._registry, "MNISTBandit-bsuite", offline)
    with pytest.raises(ValueError, match="MNIST"):
        make("gymnax/MNISTBandit-bsuite")


def test_configs_are_the_environments_own(adapter: Any) -> None:
    params, gravities, envs = {}, [], []
    for params["gravity"] in (1.0, 9.0):
        envs.append(make("gymnax/CartPole-v1", params=params))
    for env in envs:
        copies = env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))
        gravities.append({float(twin.unwrapped.params.gravity) for twin in copies})
    assert gravities == [{1.0}, {9.0}]
    config = PeerConfig(max_steps=9)
    env = envrax.make("gymnax/Catch-bsuite", config=config, jit_compile=False)
    assert (env.name, env.config.max_steps) == ("Catch-bsuite", 9)
    with pytest.raises(ValueError, match="CartPole-v1"):
        envrax.make("gymnax/Catch-bsuite", jit_compile=False, config=PeerConfig(id="CartPole-v1"))


@pytest.mark.parametrize("steps", [-1, 1.5, True, "12"])
def test_max_steps_is_a_number_of_steps(adapter: Any, steps: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_steps"):
        make("gymnax/CartPole-v1", max_steps=steps)


def test_the_largest_float_is_no_bound(adapter: Any) -> None:
    env = make("gymnax/CartPole-v1")
    assert env.observation_space.high[1] == np.inf
    with pytest.raises(TypeError, match="NormalizeObservation"):
        NormalizeObservation(env)


def test_an_environment_that_breaks_the_contract_of_gymnax(adapter: Any) -> None:
    spaces = adapter.gymnax.environments.spaces

    cart_pole = type(adapter.gymnax.make("CartPole-v1")[0])

    class Grows(cart_pole):
        returned = 5

        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            return (jnp.zeros(3), state, 0.0, False, {})[: self.returned]

    class Short(Grows):
        returned = 4

    class Misfit(cart_pole):
        def observation_space(self, params: Any) -> Any:
            return spaces.Box(0, 1, (5,))

    with pytest.raises(TypeError, match=r"observations of float32.4. and float32.3."):
        adapter.wrap(Grows())
    with pytest.raises(TypeError, match=r"observations of float32.4. and float32.3."):
        adapter.wrap(Short())
    with pytest.raises(TypeError, match="space of observations"):
        adapter.wrap(Misfit())


def test_params_of_gymnax_are_params_of_to_gymnax() -> None:
    """One program for many values equals environments built with each."""
    bridge = to_gymnax(make("gymnax/CartPole-v1", max_steps=40))
    assert bridge.default_params.gravity == 9.8 and bridge.default_params.max_steps_in_episode == 40

    def played(env: Any, params: Any) -> Any:
        _, state = env.reset(jax.random.key(0), params)
        step = lambda state, key: env.step(key, state, 1, params)[1::-1]  # noqa: E731
        return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 8))[1]

    vary = lambda x: played(bridge, bridge.default_params.replace(gravity=x))  # noqa: E731
    found = jax.jit(jax.vmap(vary))(jnp.array([5.0, 20.0]))
    separate = to_gymnax(make("gymnax/CartPole-v1", params={"gravity": 5.0}))
    np.testing.assert_allclose(found[0], played(separate, None), rtol=1e-5)
    assert not np.allclose(found[0], found[1])
    env: Any = bridge.env.unwrapped
    with pytest.raises(TypeError, match="EnvParams"):
        bridge.reset(jax.random.key(0), env.params)
