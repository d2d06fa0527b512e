"""What the PPO example sees and does: observations as floats, actions of each kind, masks."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import NestedEnv as NestedActionEnv
from fakes import ScriptEnv
from ppo_algorithm import PPO
from ppo_options import Options
from ppo_spaces import Features, VectorAction, choosable

import envrax
from envrax import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from envrax.testing import CountingEnv, MaskedEnv, NestedEnv, check_env
from envrax.testing.fakes import FakeConfig

TINY = dict(n_envs=4, n_steps=6, minibatches=2, hidden=4, total_steps=48)


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Adam, as optax writes it, does not hold under strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def registered() -> Iterator[Callable[[Any], str]]:
    """`registered(cls)`: a name that is known to envrax for the length of the test."""
    names = list[str]()

    def register(cls: Any) -> str:
        names.append(f"test/{cls.__name__}-v{len(names)}")
        envrax.register(names[-1], cls, FakeConfig())
        return names[-1]

    yield register
    for name in names:
        envrax.unregister(name)


def seen(space: Any, obs: Any) -> tuple[Any, Any]:
    env = Features(ScriptEnv(space, obs))
    return env.observation(obs), env.observation_space


@pytest.mark.parametrize(
    ("space", "given", "expected"),
    [
        (Box(-5, 5, (3,), jnp.int8), [-5, 0, 5], [0, 0.5, 1]),
        (Discrete(4), 2, [0, 0, 1, 0]),
        (MultiDiscrete((2, 3)), [1, 2], [0, 1, 0, 0, 0, 1]),
        (Box(0, 9, (2, 1, 2), jnp.uint8), [[[9, 0]], [[0, 9]]], [1, 0, 0, 1]),  # a small image
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (Box(0, 255, (2,), jnp.uint8), [0, 255], [0, 1]),
                (Box(np.array([0, 7]), np.array([10, 7]), (2,), jnp.int32), [1, 7], [0.1, 0]),
                (Box(-(2**31), 2**31 - 1, (2,), jnp.int32), [-9, 70_000], [-9, 70_000]),
                (Box(-1.0, 1.0, (1, 2)), [[0.5, -1]], [0.5, -1]),
                (Discrete(101), 25, [0.25]),
                (MultiDiscrete((101, 3)), [50, 1], [0.5, 0.5]),
                (MultiBinary((2, 2)), [[True, False], [False, True]], [1, 0, 0, 1]),
            )
        ),
    ],
    ids=lambda x: str(x) if isinstance(x, envrax.Space) else "",
)
def test_observations_become_vectors(space: Any, given: Any, expected: list[float]) -> None:
    obs, space_seen = seen(space, jnp.asarray(given, space.dtype))
    np.testing.assert_allclose(obs, expected, rtol=1e-6)
    assert obs.dtype == jnp.float32
    assert space_seen == Box(-np.inf, np.inf, (len(expected),))


@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.bool_, jnp.float32, jnp.int32])
def test_images_keep_their_shape(dtype: Any) -> None:
    top = 255 if dtype == jnp.uint8 else 1
    obs, space = seen(Box(0, top, (12, 10, 4), dtype), jnp.full((12, 10, 4), top, dtype))
    np.testing.assert_array_equal(obs, np.ones((12, 10, 4), np.float32), strict=True)
    assert space == Box(-np.inf, np.inf, (12, 10, 4))


def test_bytes_are_those_of_the_wrapper() -> None:
    every = jnp.arange(256, dtype=jnp.uint8)
    space = Box(0, 255, (256,), jnp.uint8)
    expected = envrax.NormalizeObservation(ScriptEnv(space, every)).observation(every)
    np.testing.assert_array_equal(seen(space, every)[0], expected, strict=True)


def test_nested_observations_are_images_and_one_vector() -> None:
    space = Dict(
        step=Box(0, 4000, (), jnp.int32),
        grid=MultiBinary((8, 9, 2)),
        pair=Tuple((Discrete(3), Box(0, 255, (8, 8, 1), jnp.uint8))),
    )
    obs = {
        "step": jnp.int32(1000),
        "grid": jnp.ones((8, 9, 2), jnp.bool_),
        "pair": (jnp.int32(1), jnp.zeros((8, 8, 1), jnp.uint8)),
    }
    (grid, image, vector), space_seen = seen(space, obs)
    assert (grid.shape, image.shape) == ((8, 9, 2), (8, 8, 1))
    np.testing.assert_allclose(vector, [0, 1, 0, 0.25])  # the order is that of the leaves
    assert [child.shape for child in space_seen.spaces] == [(8, 9, 2), (8, 8, 1), (4,)]


@pytest.mark.slow
def test_the_wrapper_passes_the_checks() -> None:
    check_env(Features(NestedEnv()), num_steps=20)


class Arm(CountingEnv):
    """Actions in a matrix, whose first column alone has two finite bounds."""

    @property
    def action_space(self) -> Any:
        return Box(np.array([[-1, 0]], np.float32), np.array([[3, np.inf]], np.float32), (1, 2))


def test_real_actions_are_scaled_and_clipped() -> None:
    env = VectorAction(Arm())
    assert env.action_space == Box(-np.inf, np.inf, (2,))
    for given, taken in (
        ([-1.0, -1.0], [-1.0, 0.0]),
        ([0.0, 0.0], [1.0, 0.0]),
        ([1.0, 5.0], [3.0, 5.0]),
        ([9.0, 9.0], [3.0, 9.0]),
        ([-9.0, -9.0], [-1.0, 0.0]),
    ):
        action = env.action(jnp.asarray(given, jnp.float32))
        np.testing.assert_array_equal(action, np.array([taken], np.float32), strict=True)


def test_actions_of_other_spaces_are_refused() -> None:
    with pytest.raises(TypeError, match="expected actions in a Discrete, a MultiDiscrete or a Box"):
        choosable(NestedActionEnv())


def scan(trainer: PPO, params: Any, n_steps: int) -> Any:
    """A rollout of that many steps."""

    start = envrax.start(trainer.env, jax.random.key(1))
    return envrax.rollout(trainer.env, partial(trainer.explore, params), start, n_steps)[1]


def favouring(choice: int, params: Any, n: int = 3) -> Any:
    """Parameters of a policy that wants nothing but one of its n choices."""
    bias = jnp.zeros(n, jnp.float32).at[choice].set(50.0)
    return jax.tree.map(lambda x: x + bias if x.shape == (n,) else x, params)


@pytest.mark.slow
def test_illegal_actions_are_never_taken(registered: Any) -> None:
    """The fake allows no action twice in a row, and punishes it."""
    trainer = PPO(Options(env=registered(MaskedEnv), **TINY))
    state = jax.jit(trainer.init)(0)
    params = favouring(1, state.params)
    rollout = scan(trainer, params, 40)
    # With int32 features `[number, step]` in 0..1000, the first is the action before.
    before = np.rint(np.asarray(rollout.obs)[..., 0] * 1000).astype(int) % 3
    np.testing.assert_array_equal(rollout.extras.mask, np.arange(3) != before[..., None])
    assert (rollout.action != before).all()
    assert 0.4 < np.mean(rollout.action == 1) < 0.9  # as often as it may
    assert not rollout.terminated.any() and rollout.done.any()
    assert np.isfinite(rollout.extras.log_prob).all()

    returns = jax.jit(trainer.evaluate)(params, 3)
    assert (returns >= 2).all()  # an illegal action costs 1 and ends the episode

    used = rollout.obs, rollout.action, rollout.extras
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), used)
    advantage = jnp.arange(rollout.reward.size, dtype=jnp.float32)
    gradients = jax.jit(jax.grad(trainer.loss))(params, *batch, advantage)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradients))


class Turns(NestedEnv):
    """The nested fake with the actions of its second part alone."""

    @property
    def action_space(self) -> Any:
        return MultiDiscrete((2, 3))

    def step(self, state: Any, action: Any) -> Any:
        return super().step(state, (action[0], action))


@pytest.mark.integration
def test_a_nested_environment_with_many_actions_is_trained(registered: Any) -> None:
    trainer = PPO(Options(env=registered(Turns), **TINY))
    state = jax.jit(trainer.init)(0)
    policy = trainer.forward(state.params, state.at.obs)[0]
    np.testing.assert_allclose(policy.entropy(), np.log(2) + np.log(3), rtol=1e-5)
    actions = np.asarray(scan(trainer, state.params, 50).action)
    assert actions.shape == (50, 4, 2)
    assert [set(actions[..., i].ravel()) for i in (0, 1)] == [{0, 1}, {0, 1, 2}]
    trained, _ = jax.jit(trainer.train)(state)
    pairs = zip(*map(jax.tree.leaves, (trained.params, state.params)), strict=True)
    assert all(np.isfinite(new).all() for new, _ in pairs)


@pytest.mark.slow
def test_no_time_limit_is_no_endless_evaluation(
    registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = registered(CountingEnv)
    monkeypatch.setattr("ppo_algorithm.LONGEST", 3)
    trainer = PPO(Options(env=name, **TINY))
    trainer.single_env = choosable(
        Features(envrax.RecordEpisodeStatistics(CountingEnv(FakeConfig(max_steps=2**31 - 1))))
    )
    params = favouring(2, jax.jit(trainer.init)(0).params)
    np.testing.assert_array_equal(jax.jit(trainer.evaluate)(params, 0), np.full(100, 3 * 2.0))


@pytest.mark.integration
def test_actions_of_an_evaluation_are_the_likeliest_or_drawn(registered: Any) -> None:
    """The fake pays the action, of three that are equally likely; its episodes have five steps."""
    name = registered(CountingEnv)
    greedy, drawn = (PPO(Options(env=name, greedy=greedy, **TINY)) for greedy in (True, False))
    params = jax.jit(greedy.init)(0).params
    np.testing.assert_array_equal(jax.jit(greedy.evaluate)(params, 0), np.zeros(100))
    returns = np.asarray(jax.jit(drawn.evaluate)(params, 0))
    assert returns.mean() == pytest.approx(5, abs=1)  # over 500 draws
    assert returns.std() == pytest.approx(np.sqrt(5 * 2 / 3), abs=0.6)
