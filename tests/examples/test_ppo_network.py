"""The policies of the PPO example against their samples, the network, and the video at the end."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import CoinEnv
from ppo_network import ActorCritic, Categorical, Gaussian, MultiCategorical
from ppo_report import save_video

from envrax import Discrete, MultiDiscrete
from envrax.testing import MaskedEnv


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Categorical, ([0.3, -1.0, 2.0],)),
        (MultiCategorical, ([[0.3, -1.0, 2.0], [1.0, 0.0, -1e9]],)),
        (Gaussian, ([1.0, -2.0], [-0.5, 0.3])),
    ],
)
def test_policies_agree_with_their_samples(kind: Any, values: Any) -> None:
    one = kind(*(jnp.asarray(value, jnp.float32)[None] for value in values))
    many = jax.tree.map(lambda x: jnp.repeat(x, 20_000, axis=0), one)
    log_probs = many.log_prob(many.sample(jax.random.key(0)))
    assert log_probs.shape == (20_000,) and one.entropy().shape == (1,)
    assert -float(jnp.mean(log_probs)) == pytest.approx(float(one.entropy()[0]), abs=0.03)
    assert float(one.log_prob(one.mode())[0]) >= float(jnp.max(log_probs)) - 1e-5


@pytest.mark.parametrize(
    ("space", "shape", "n"),
    [
        (MultiDiscrete((2, 3)), (2,), 3),
        pytest.param(Discrete(3), (), 3, marks=pytest.mark.slow),
        pytest.param(MultiDiscrete(((4, 2),)), (1, 2), 4, marks=pytest.mark.slow),
    ],
)
def test_masked_logits(space: Any, shape: tuple[int, ...], n: int) -> None:
    network, obs = ActorCritic(space, 4), jnp.ones(5, jnp.float32)
    params = network.init(jax.random.key(0), obs)
    mask = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32) == 1, (*shape, n))
    policy, value = network.apply(params, obs, mask)
    assert policy.logits.shape == (*shape, n) and value.shape == ()
    np.testing.assert_array_equal(policy.mode(), np.ones(shape))
    # Without a mask: all that exist, and no padding.
    logits = np.asarray(network.apply(params, obs)[0].logits)
    highest = np.broadcast_to(space.n if isinstance(space, Discrete) else space.nvec, shape)
    np.testing.assert_array_equal(logits > -1e8, np.arange(n) < highest[..., None])


def test_a_tuple_of_observations_is_one_input() -> None:
    obs = jnp.ones((12, 10, 2), jnp.float32), jnp.ones((8, 8, 1), jnp.float32), jnp.ones(5)
    network = ActorCritic(Discrete(2), 4)
    params = jax.eval_shape(network.init, jax.random.key(0), obs)["params"]
    assert {name for name in params if "Conv" in name} == {f"Conv_{i}" for i in range(4)}
    assert params["critic"]["Dense_0"]["kernel"].shape == (3 * 3 * 32 + 2 * 2 * 32 + 5, 4)


@pytest.mark.slow
def test_a_video_only_where_there_is_something_to_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def policy(obs: Any, mask: Any, rng: Any) -> Any:
        assert mask.shape == (3,)
        return jnp.argmax(mask)

    save_video(tmp_path / "seen", MaskedEnv(), policy, 30, seed=0)
    assert len(list((tmp_path / "seen").glob("*.mp4"))) == 1
    assert capsys.readouterr().out == ""
    save_video(tmp_path / "unseen", CoinEnv(), policy, 30, seed=0)
    assert not (tmp_path / "unseen").exists()
    assert "no video, since CoinEnv cannot be drawn here: CoinEnv does not implement render" in (
        capsys.readouterr().out
    )
