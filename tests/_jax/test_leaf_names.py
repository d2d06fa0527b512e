"""Names of leaves: no two leaves of a pytree share one."""

from typing import Any

import chex
import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envrax._jax.types import named_leaves


@chex.dataclass
class Pair:
    left: Any
    right: Any


KEYS = st.sampled_from(["", ".", "a", "b", "0", "a.b", "a.0", "['a.b']", "a['b']", "]['"])


def containers(of: Any) -> Any:
    return st.lists(of, min_size=1) | st.dictionaries(KEYS, of, min_size=2)


TREES = st.recursive(st.just(1), containers)


@settings(max_examples=40, deadline=None)
@given(TREES)
def test_each_leaf_has_a_name_of_its_own(tree: Any) -> None:
    assert len(named_leaves(tree)) == len(jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({"a": {"b": 1}, "a.b": 2}, ["a.b", "['a.b']"]),
        ({"a": {"b.c": 1, "b": {"c": 2}}}, ["a.b.c", "a['b.c']"]),
        (Pair(left=[1, 2], right={"up": 3}), ["left.0", "left.1", "right.up"]),
    ],
)
def test_a_key_with_a_dot_stands_in_brackets(tree: Any, names: list[str]) -> None:
    assert sorted(named_leaves(tree)) == sorted(names)
