"""`state.replace` of a wrapper's state, with a field of the wrapped environment."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from envrax import RecordEpisodeStatistics, TimeLimit
from envrax.testing import CountingEnv


@pytest.fixture(scope="module")
def state() -> Any:
    return RecordEpisodeStatistics(TimeLimit(CountingEnv())).reset(jax.random.key(0))[1]


@pytest.mark.parametrize(
    ("field", "place", "code"),
    [
        (
            "number",
            "`state.env_state.env_state.number`",
            "`state.replace(env_state=state.env_state.replace("
            "env_state=state.env_state.env_state.replace(number=...)))`",
        ),
        (
            "elapsed",
            "`state.env_state.elapsed`",
            "`state.replace(env_state=state.env_state.replace(elapsed=...))`",
        ),
    ],
)
def test_a_field_of_an_inner_state_is_located(
    state: Any, field: str, place: str, code: str
) -> None:
    with pytest.raises(TypeError) as found:
        state.replace(**{field: jnp.int32(3)})
    said = str(found.value)
    assert said.startswith("EpisodeStatisticsState: expected fields rng, step, done, env_state, ")
    assert f"got {field}, which is {place}. Write {code}." in said
    expression: Any = eval(code.strip("`").replace("...", "3"), {"state": state})
    assert eval(place.strip("`"), {"state": expression}) == 3


def test_own_fields_and_copies_are_as_before(state: Any) -> None:
    assert state.replace(step=jnp.int32(3)).step == 3
    for same in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), same, state))
    with pytest.raises((TypeError, ValueError), match="nope"):
        state.replace(nope=3)
