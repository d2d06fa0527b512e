# pyright: basic, reportMissingImports=false
"""Gymnasium's functional environments: equal to their functions called by hand, and to it."""

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.functional_jax_env import FunctionalJaxVectorEnv
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional
from gymnasium.experimental.functional import FuncEnv
from interop.by_hand import check_waivers, equal, follow, make

import envrax
from envrax.spaces import Box, Discrete, MultiBinary
from envrax.spaces import Tuple as TupleSpace
from envrax.testing import check_env

# Ids, with a limit and how episodes then end.
COMPARED = {
    "phys2d/CartPole-v1": (25, {"terminated", "truncated"}),
    "phys2d/Pendulum-v0": (60, {"truncated"}),
    "tabular/Blackjack-v0": (3, {"terminated", "truncated"}),
    "tabular/CliffWalking-v0": (40, {"terminated", "truncated"}),
}


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """As Gymnasium's own environments need it, where they are stepped outside of an adapter."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def near_the_end(inner: Any) -> Any:
    """Right of the goal of the cliff walk, before a step to the left; other states stay."""
    if not hasattr(inner, "player_position"):
        return inner
    return inner._replace(player_position=jnp.array([3, 12]))


@pytest.mark.parametrize("id", COMPARED)
def test_200_steps_are_those_of_the_functions(adapter: Any, id: str) -> None:
    limit, expected = COMPARED[id]
    env = make(f"gymnasium/{id}", max_steps=limit)
    peer, params = env.unwrapped.peer, env.unwrapped.peer.get_default_params()
    given = {} if params is None else {"params": params}
    shaped = id.startswith("tabular/CliffWalking")

    def begin(key: Any) -> Any:
        first, second = jax.random.split(key)
        inner = peer.initial(first, **given)
        obs = peer.observation(inner, second, **given)
        return obs, inner._replace(fallen=jnp.zeros(1, bool)) if shaped else inner

    def advance(key: Any, inner: Any, action: Any) -> Any:
        keys = jax.random.split(key, 4)
        after = peer.transition(inner, action, keys[0], **given)
        reward = peer.reward(inner, action, after, keys[1], **given)
        info = {"terminated": peer.terminal(after, keys[2], **given)}
        return peer.observation(after, keys[3], **given), after, reward, info

    assert follow(env, begin, advance, edit=near_the_end) == expected


@pytest.mark.parametrize("id", COMPARED)
def test_only_the_rules_of_blackjack_are_broken(id: str) -> None:
    env = make(f"gymnasium/{id}")
    check_waivers(env)
    assert bool(env.unwrapped.waivers) == id.endswith("Blackjack-v0")
    spec = gymnasium.spec(id)
    assert env.config.max_steps == (spec.max_episode_steps or 2**31 - 1)


# In Blackjack a card is drawn with a key that Gymnasium chooses.
@pytest.mark.parametrize("id", [id for id in COMPARED if "Blackjack" not in id])
@pytest.mark.usefixtures("standard_promotion")
def test_steps_are_those_of_gymnasium_from_the_same_state(id: str) -> None:
    """The same to rounding: Gymnasium compiles each function on its own."""
    env = make(f"gymnasium/{id}")
    theirs: Any = gymnasium.make(id, disable_env_checker=True).unwrapped
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    _, state = reset(jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), 40):
        action = env.action_space.sample(key)
        theirs.state = state.inner
        their_obs, their_reward, their_terminated, truncated, _ = theirs.step(action)
        obs, state, reward, _, info = step(state, action)
        assert bool(info["terminated"]) == their_terminated and not truncated
        np.testing.assert_allclose(obs, their_obs, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(reward, their_reward, rtol=1e-5, atol=1e-6)
        if info["terminated"]:
            _, state = reset(jax.random.fold_in(key, 1))


def test_cartpole_is_the_old_one_with_another_length_of_the_pole() -> None:
    """To be dropped from the page once Gymnasium multiplies mass and length."""
    old: Any = gymnasium.make("CartPole-v1")
    old.reset(seed=0)
    for changes, same in (({}, False), ({"polemass_length": 0.05}, True)):
        env = make("gymnasium/phys2d/CartPole-v1", params=changes)
        obs, state = env.reset(jax.random.key(0))
        old.unwrapped.state = np.array(obs, np.float64)
        assert np.allclose(env.step(state, 1)[0], old.step(1)[0], atol=1e-6) == same


class Wind(NamedTuple):
    strength: float = 0.5
    left: float = -3.0


class Boat(FuncEnv):
    """A boat on a line, in the wind: as a user writes it, with all that the API has."""

    observation_space = spaces.Tuple(
        (spaces.Box(-10, 10, (1,), np.float32), spaces.Discrete(2), spaces.MultiBinary(2))
    )
    action_space = spaces.Discrete(2)
    n_open = n_made = 0

    def get_default_params(self, **kwargs: Any) -> Wind:
        return Wind(**kwargs)

    def initial(self, rng: Any, params: Any = None) -> Any:
        return {"x": jax.random.uniform(rng), "gusts": 0}

    def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
        gust = params.strength * jax.random.normal(rng)
        x = jnp.clip(state["x"] + action - 0.5 + gust, -9, 9)
        return {"x": x, "gusts": state["gusts"] + (gust > 0)}

    def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
        seen = state["x"] + 0.1 * jax.random.uniform(rng)
        return seen[None], state["x"] > 0, jnp.stack([state["x"] > 0, state["x"] > 1])

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: Any = None) -> Any:
        return next_state["x"] - state["x"]

    def terminal(self, state: Any, rng: Any, params: Any = None) -> Any:
        return state["x"] < params.left

    def state_info(self, state: Any, params: Any = None) -> dict[str, Any]:
        return {"distance": state["x"] - params.left}

    def transition_info(self, state: Any, action: Any, next_state: Any, params: Any = None) -> Any:
        return {"moved": abs(next_state["x"] - state["x"])}

    def render_init(self, params: Any = None, **kwargs: Any) -> Any:
        Boat.n_made += 1
        Boat.n_open += 1
        return 0

    def render_image(self, state: Any, render_state: Any, params: Any = None) -> Any:
        image = np.full((4, 4, 3), 10 * render_state, np.uint8)
        return render_state + 1, image

    def render_close(self, render_state: Any, params: Any = None) -> None:
        assert render_state == 3, "the last render state is closed"
        Boat.n_open -= 1


def test_an_environment_of_a_user(adapter: Any) -> None:
    env = adapter.wrap(Boat(), max_steps=30)
    assert env.observation_space == TupleSpace(
        [Box(-10, 10, (1,), np.float32), Discrete(2, np.int64), MultiBinary(2)]
    )
    assert env.config.max_steps == 30 and env.name == "Boat"
    check_env(env, num_steps=60)
    vec_env = envrax.VecEnv(env, 5)
    obs, states = vec_env.reset(jax.random.key(0))
    _, new_states, rewards, _, infos = vec_env.step(states, jnp.ones(5, jnp.int32))
    assert sorted(infos) == ["distance", "moved", "terminated", "truncated"]
    np.testing.assert_allclose(infos["moved"], abs(rewards))
    np.testing.assert_allclose(infos["distance"], new_states.inner["x"] + 3.0)


def test_each_function_has_a_key_of_its_own(adapter: Any) -> None:
    """Gymnasium gives the transition and the observation one key, so that they draw alike."""
    env = adapter.wrap(Boat())
    _, state = env.reset(jax.random.key(0))
    noise, gusts = [], []
    for _ in range(200):
        before = state.inner["x"]
        obs, state, *_ = env.step(state, 1)
        noise.append(float(obs[0][0] - state.inner["x"]))
        gusts.append(float(state.inner["x"] - before))
        state = state.replace(inner={"x": jnp.zeros_like(before), "gusts": state.inner["gusts"]})
    assert abs(np.corrcoef(noise, gusts)[0, 1]) < 0.2


class Edited(Boat):
    """It edits what it is given, as Gymnasium lets it where its functions are compiled."""

    def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
        state.update(super().transition(state, action, rng, params))
        return state

    def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
        seen = super().observation(state, rng, params)
        state["x"] = state["x"] + 100
        return seen


def test_functions_may_edit_what_they_are_given(adapter: Any) -> None:
    played = []
    for env in (adapter.wrap(Boat(), max_steps=9), adapter.wrap(Edited(), max_steps=9)):
        start = envrax.start(env, jax.random.key(0))
        played.append(envrax.rollout(env, None, start, 20))
    equal(*played)


class Point(FuncEnv):
    """A point on a line, which draws nothing."""

    observation_space = spaces.Box(0, 100, (), np.float32)
    action_space = spaces.Discrete(2)

    def initial(self, rng: Any, params: Any = None) -> Any:
        return jnp.int32(40)

    def transition(self, state: Any, action: Any, rng: Any, params: Any = None) -> Any:
        return state + action

    def observation(self, state: Any, rng: Any, params: Any = None) -> Any:
        return state

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: Any = None) -> Any:
        return jnp.float32([1])

    def terminal(self, state: Any, rng: Any, params: Any = None) -> Any:
        return state > 50


def with_functions(**changes: Any) -> Any:
    """A point, with other attributes."""
    return type("Point", (Point,), changes)()


INTEGERS = spaces.Box(0, 100, (), np.uint8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation": lambda self, s, *a, **k: s * 0.4, "observation_space": INTEGERS}, "uint8"),
        ({"observation_space": INTEGERS}, "return uint8, as its space; got int32"),
        ({"observation": lambda *a, **k: 0.4, "observation_space": spaces.Discrete(2)}, "float32"),
        ({"reward": lambda *a, **k: jnp.ones(3)}, r"one number for `reward`.*\(3,\)"),
        ({"terminal": lambda *a, **k: jnp.ones(2, bool)}, "one number for `terminal`"),
        ({"action_space": spaces.Discrete(2, start=1)}, "Shift it in the environment"),
    ],
)
def test_what_a_function_must_not_return(adapter: Any, changes: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        env = adapter.wrap(with_functions(**changes))
        env.step(env.reset(jax.random.key(0))[1], 0)


def test_observations_are_cast_to_a_wider_kind(adapter: Any) -> None:
    env = adapter.wrap(Point(), max_steps=10)
    obs, state = env.reset(jax.random.key(0))
    obs, _, reward, *_ = env.step(state, 1)
    assert (obs.dtype, obs, reward.shape, reward) == (jnp.float32, 41, (), 1)


def test_an_entry_of_the_infos_truncates(adapter: Any) -> None:
    def transition_info(self: Any, state: Any, action: Any, after: Any, params: Any = None) -> Any:
        return {"truncated": after >= 42}

    env = adapter.wrap(with_functions(transition_info=transition_info))
    _, state = env.reset(jax.random.key(0))
    for expected in (False, True):
        _, state, _, done, info = env.step(state, 1)
        assert bool(done) == bool(info["truncated"]) == expected
        assert not info["terminated"]


def test_a_limit_is_not_taken_from_the_registry_by_the_name_of_a_class(adapter: Any) -> None:
    gymnasium.register("Point", entry_point="points:Point", max_episode_steps=7)
    try:
        assert adapter.wrap(Point()).config.max_steps == 2**31 - 1
    finally:
        del gymnasium.registry["Point"]


@pytest.mark.parametrize("id", ["tabular/Blackjack-v0", "tabular/CliffWalking-v0"])
def test_a_subclass_of_their_own_is_adapted_as_they_are(adapter: Any, id: str) -> None:
    env = make(f"gymnasium/{id}").unwrapped
    own = adapter.wrap(type("Own", (type(env.peer),), {})(), max_steps=9)
    assert type(own) is type(env) and own.waivers == env.waivers
    own.step(own.reset(jax.random.key(0))[1], own.action_space.sample(jax.random.key(1)))


def test_a_render_state_is_not_needed(adapter: Any) -> None:
    def render_image(self: Any, state: Any, held: Any, params: Any = None) -> Any:
        assert held is None
        return held, np.zeros((2, 3, 3), np.uint8)

    env = adapter.wrap(with_functions(render_image=render_image))
    assert env.render(env.reset(jax.random.key(0))[1]).shape == (2, 3, 3)
    env.close()


def test_params_may_be_changed_and_traced(adapter: Any) -> None:
    env = adapter.wrap(Boat(), {"left": 5.0})
    assert env.step(env.reset(jax.random.key(0))[1], 0)[-1]["terminated"]

    @jax.jit
    @jax.vmap
    def force(gravity: Any) -> Any:
        env = make("gymnasium/phys2d/CartPole-v1", params={"gravity": gravity})
        _, state = env.reset(jax.random.key(0))
        return env.step(state, 1)[0]

    rows = force(jnp.array([9.8, 9.8, 20.0]))
    assert (rows[0] == rows[1]).all() and (rows[0] != rows[2]).any()
    natural = make("gymnasium/tabular/Blackjack-v0", params={"sutton_and_barto": False})
    assert natural.unwrapped.params.sutton_and_barto is False
    strong = make("gymnasium/phys2d/Pendulum-v0", options={"options": {"max_torque": 3.0}})
    assert strong.unwrapped.peer.max_torque == 3.0
    with pytest.raises(TypeError, match=r"got max_torqe\. Did you mean max_torque"):
        make("gymnasium/phys2d/Pendulum-v0", options={"options": {"max_torqe": 3.0}})


@pytest.mark.parametrize("value", ["high", None, jnp.ones(3)])
def test_parameters_in_a_dict_are_checked_too(adapter: Any, value: Any) -> None:
    point = with_functions(get_default_params=lambda self: {"cost": 0.5})
    assert adapter.wrap(point, {"cost": 1}).params == {"cost": 1.0}
    with pytest.raises(TypeError, match=r"`params.cost` to be a number, as its value 0.5"):
        adapter.wrap(point, {"cost": value})


def test_the_render_state_is_made_once_and_closed(adapter: Any) -> None:
    env = adapter.wrap(Boat())
    Boat.n_made = Boat.n_open = 0
    env.close()  # nothing was drawn
    _, state = env.reset(jax.random.key(0))
    images = [env.render(state) for _ in range(3)]
    assert [image.max() for image in images] == [0, 10, 20]
    assert (Boat.n_made, Boat.n_open) == (1, 1)
    env.close()
    env.close()
    assert (Boat.n_made, Boat.n_open) == (1, 0)


def test_images_after_another_one_was_closed() -> None:
    """To close one ends pygame; another one is drawn again after its own `close`."""
    for id in COMPARED:
        env = make(f"gymnasium/{id}")
        image = env.render(env.reset(jax.random.key(0))[1])
        assert image.dtype == np.uint8 and image.ndim == 3
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2
        env.close()


def test_it_has_an_id_in_gymnasium_beside_the_original() -> None:
    before = dict(gymnasium.registry)
    registration: Any = importlib.import_module("envrax.interop.gymnasium_registration")
    id = registration.gymnasium_id("gymnasium/phys2d/CartPole-v1")
    assert id == "envrax/gymnasium.phys2d.CartPole-v1"
    registration.register("gymnasium")
    assert {name: gymnasium.registry[name] for name in before} == before
    env: Any = gymnasium.make(id, max_steps=7)
    assert env.reset(seed=0)[0].shape == (4,) and env.unwrapped.jax_env.config.max_steps == 7


def test_what_cannot_be_wrapped(adapter: Any) -> None:
    with pytest.raises(TypeError, match="from_gymnasium_vec"):
        adapter.wrap(gymnasium.make("CartPole-v1"))

    class Silent(Boat):
        render_image = FuncEnv.render_image

    env = adapter.wrap(Silent())
    with pytest.raises(NotImplementedError, match="render"):
        env.render(env.reset(jax.random.key(0))[1])


@pytest.mark.usefixtures("standard_promotion")
def test_an_object_that_a_vector_environment_has_is_refused(adapter: Any) -> None:
    """Functions that `jit` compiled are of one state still, as those of `FunctionalJaxEnv`."""
    given = CartPoleFunctional()
    given.transform(jax.jit)
    assert adapter.wrap(given).reset(jax.random.key(0))[0].shape == (4,)
    FunctionalJaxVectorEnv(given := CartPoleFunctional(), num_envs=2)
    for wrap in (adapter.wrap, envrax.wrap):
        with pytest.raises(TypeError, match=r"`FunctionalJaxVectorEnv` does.* Give a new object"):
            wrap(given)


def test_a_reset_in_gymnasium_costs_the_other_slots_their_step() -> None:
    """To be dropped from the page once `FunctionalJaxVectorEnv` keeps their transitions."""
    theirs: Any = gymnasium.make_vec("phys2d/CartPole-v1", 4)
    assert isinstance(theirs, FunctionalJaxVectorEnv)
    with jax.numpy_dtype_promotion("standard"):  # as Gymnasium's users have it
        theirs.reset(seed=0)
        before = theirs.state.at[0, 0].set(9.0)  # slot 0 is off the track
        theirs.state = before
        _, _, terminated, _, _ = theirs.step(np.ones(4, np.int32))
        assert terminated.tolist() == [True, False, False, False]
        before = theirs.state
        _, rewards, *_ = theirs.step(np.ones(4, np.int32))
    np.testing.assert_array_equal(theirs.state[1:], before[1:])
    assert (rewards == 1).all()

    ours = envrax.VecEnv(make("gymnasium/phys2d/CartPole-v1"), 4)
    _, states = ours.reset(jax.random.key(0))
    for _ in range(2):
        inner = states.inner.at[0, 0].set(9.0)
        _, states, _, dones, _ = ours.step(states.replace(inner=inner), jnp.ones(4, jnp.int32))
        assert dones.tolist() == [True, False, False, False]
        assert (states.inner[1:] != inner[1:]).any(axis=1).all()
