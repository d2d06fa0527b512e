"""`DomainRandomization` of one entry of `params`: the others stay fields like all others."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envrax import Discrete, DomainRandomization, evaluate, evaluate_grid, with_config
from envrax.interop import PeerConfig, PeerEnv, PeerReset, PeerStep, to_gymnax

KEY = jax.random.key(0)


class Pond(PeerEnv):
    """
    An adapter as the documentation teaches it: the base counts to the library's limit.

    The reward is `frogs + depth`, two parameters of its library.
    """

    library = "pond"

    def build(self) -> Any:
        return None

    def default_params(self) -> Any:
        return {"frogs": 1.0, "depth": 2.0, "max_hops": 3}

    def limit(self) -> int:
        return self.params["max_hops"]

    def spaces(self) -> Any:
        return Discrete(2), Discrete(2)

    def begin(self, params: Any, rng: Any) -> Any:
        return PeerReset(0, ())

    def advance(self, params: Any, inner: Any, action: Any, rng: Any) -> Any:
        return PeerStep(0, inner, params["frogs"] + params["depth"], False)


def frogs(rng: Any) -> Any:
    return {"params": {"frogs": jax.random.uniform(rng)}}


def drawn() -> Any:
    return DomainRandomization(Pond(PeerConfig(id="pond")), frogs)


def test_other_entries_are_params_of_a_bridge() -> None:
    bridge = to_gymnax(drawn())
    params = bridge.default_params
    assert params.depth == 2.0 and not hasattr(params, "frogs")
    _, state = bridge.reset(KEY)
    _, _, reward, *_ = bridge.step(KEY, state, jnp.int32(0), params.replace(depth=10.0))
    np.testing.assert_allclose(reward, 10 + state.env_state.fields["params"]["frogs"], rtol=1e-6)


def test_other_entries_are_axes_of_a_grid() -> None:
    found = evaluate_grid(drawn(), None, KEY, {"params.depth": [2.0, 10.0]}, 4)
    expected = evaluate(drawn(), None, KEY, 4).returns
    np.testing.assert_allclose(found.returns, expected + np.array([[0.0], [24.0]]), rtol=1e-6)


def test_other_entries_can_be_changed_or_drawn() -> None:
    outer = DomainRandomization(drawn(), lambda rng: {"params": {"depth": jax.random.uniform(rng)}})
    for env in (with_config(drawn(), params={"depth": 10.0}), outer):
        _, state = env.reset(KEY)
        _, state, reward, *_ = env.step(state, jnp.int32(0))
        inner = getattr(state.env_state, "fields", state.fields)["params"]["frogs"]
        depth = state.fields["params"].get("depth", 10.0)
        np.testing.assert_allclose(reward, inner + depth, rtol=1e-6)


def test_the_drawn_entry_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"params\.frogs"):
        with_config(drawn(), params={"depth": 1.0, "frogs": 2.0})
    with pytest.raises(TypeError, match="params"):
        with_config(drawn(), params=None)
    with pytest.raises(TypeError, match=r"params\.frogs"):
        evaluate_grid(drawn(), None, KEY, {"params.frogs": [1.0]}, 1)
