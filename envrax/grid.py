"""`evaluate_grid`: a policy on every point of a grid of configurations, as one compiled call."""

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from envrax._jax.keys import require_key
from envrax._jax.programs import is_traced
from envrax._play import Play, Policy
from envrax.env import AnyEnv, JaxEnv, with_config
from envrax.evaluation import Evaluation, counts, evaluated
from envrax.spaces.base import kind
from envrax.wrappers.randomization import require_dynamic

__all__ = ["GridEvaluation", "evaluate_grid"]


class GridEvaluation(NamedTuple):
    """
    What `evaluate_grid` returns. `str` of it is a table of mean returns.

    Attributes
    ----------
    returns, lengths, complete : jax.Array
        As in `Evaluation`, of shape `(*grid axes, n_episodes)`.
    grid : OrderedDict
        The values along each axis, by the names of the fields, in the order of the axes.
    """

    returns: jax.Array
    lengths: jax.Array
    complete: jax.Array
    grid: OrderedDict[str, list[Any]]  # JAX sorts the keys of a plain dict

    def table(self) -> str:
        """
        Mean returns as text: the last field goes across, the one before it down.

        With more fields there is a block for each combination of the values of the others.
        """
        means = np.asarray(self.returns).mean(axis=-1)
        names = ["", *self.grid] if len(self.grid) == 1 else [*self.grid]
        values = [*self.grid.values()] if len(self.grid) > 1 else [[""], *self.grid.values()]
        means = means.reshape([len(axis) for axis in values])
        blocks: list[str] = []
        for place in itertools.product(*(range(len(axis)) for axis in values[:-2])):
            at = zip(names, place, values, strict=False)
            heading = ", ".join(f"{name} = {_label(axis[i])}" for name, i, axis in at)
            block = _block(names[-2:], values[-2:], means[place])
            blocks.append(f"{heading}\n{block}" if heading else block)
        return "\n\n".join(blocks)

    def __str__(self) -> str:
        return self.table()


def evaluate_grid(
    env: AnyEnv,
    policy: Policy | None,
    rng: jax.Array,
    grid: Mapping[str, Sequence[Any]],
    n_episodes: int,
    *,
    policy_state: Any = None,
    max_steps: int | None = None,
) -> GridEvaluation:
    """
    Evaluate a policy on every combination of values of some fields of the config.

    At each point it is `evaluate` of `with_config(env, **point)`, up to the rounding of floats. All
    points begin from the same keys, and run side by side in one compiled program, until the last
    episode has ended.

    Parameters
    ----------
    env : JaxEnv
        The environment, not a batch.
    policy, rng, n_episodes, policy_state, max_steps
        As for `evaluate`.
    grid : mapping of str to sequence
        Values by the names of fields; `"params.length"` is an entry of a field that is a dict, as
        the parameters of another library are.

    Returns
    -------
    GridEvaluation
        `returns`, `lengths` and `complete`, with an axis for each field, in the order of `grid`,
        and then one of `n_episodes`.

    Raises
    ------
    TypeError
        If `env` is no `JaxEnv`, there is no such field, a value does not fit it, or the environment
        uses it as a static value, or draws it itself.
    ValueError
        If the grid or one of its axes is empty.

    Examples
    --------
    >>> from envrax.testing import CountingEnv
    >>> found = evaluate_grid(CountingEnv(), None, jax.random.key(0), {"max_steps": [2, 6]}, 3)
    >>> found.lengths.tolist()
    [[2, 2, 2], [6, 6, 6]]
    """
    if not isinstance(cast(Any, env), JaxEnv) or not env.traceable:
        raise TypeError(
            f"evaluate_grid: expected a JaxEnv that JAX can trace; got {env!r}. Pass one that "
            "`make` returned, without a batch around it."
        )
    play = Play(env, policy, "evaluate_grid", resets=False)
    n_episodes, max_steps = counts("evaluate_grid", n_episodes, max_steps)
    require_key(rng, "evaluate_grid", "pass one key.")
    axes = _axes(grid)
    given = play.arrays, rng, policy_state, {k: _stacked(k, v) for k, v in axes.items()}
    run = _evaluated if is_traced(given) else _compiled
    found = run(play, n_episodes, max_steps, tuple(axes), *given)
    return GridEvaluation(*found, grid=axes)


def _evaluated(
    play: Any,
    n_episodes: int,
    max_steps: int | None,
    names: tuple[str, ...],  # a dict of arrays comes out of `jit` sorted
    arrays: Any,
    rng: Any,
    policy_state: Any,
    axes: dict[str, Any],
) -> Evaluation:
    one = {
        k: jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), axes[k])
        for k in names
    }
    require_dynamic("evaluate_grid", play.given, _nested(one))

    def at(point: dict[str, Any]) -> Evaluation:
        env = with_config(play.given, **_nested(point))
        return evaluated(play.around(env), n_episodes, max_steps, arrays, rng, policy_state)

    function = at
    for name in reversed(names):  # the first one is mapped outermost
        function = jax.vmap(function, ({k: 0 if k == name else None for k in names},))
    return function(axes)


_compiled: Any = jax.jit(_evaluated, static_argnums=(0, 1, 2, 3))


def _axes(grid: Any) -> OrderedDict[str, list[Any]]:
    expected = "evaluate_grid: expected a grid of fields with the values of each"
    try:
        axes = OrderedDict((name, list(values)) for name, values in grid.items())
    except (AttributeError, TypeError):
        raise TypeError(f"{expected}; got {grid!r}. Write `{{name: [value, ...]}}`.") from None
    if not axes or not all(axes.values()):
        raise ValueError(f"{expected}, one at least; got {grid!r}.")
    return axes


def _nested(fields: dict[str, Any]) -> dict[str, Any]:
    """`{"params.length": x}` as `{"params": {"length": x}}`."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        first, dot, rest = name.partition(".")
        if dot:
            nested.setdefault(first, {})[rest] = value
        else:
            nested[first] = value
    return nested


def _stacked(name: str, values: list[Any]) -> Any:
    """The values of an axis, stacked; by NumPy where nothing is traced, which compiles nothing."""
    stack: Any = jnp.stack if is_traced(values) else np.stack
    try:
        stacked = jax.tree.map(lambda *x: stack(x), *values)
        leaves = jax.tree.leaves(stacked)
        if any(kind(x.dtype) == "other" for x in leaves):
            raise TypeError("no numbers")
        known: list[Any] = [x for x in leaves if isinstance(x, np.ndarray)]
        if any(x.dtype.kind in "iu" and np.any(x != x.astype(np.int32)) for x in known):
            raise ValueError("integers beyond int32")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"evaluate_grid: expected numbers of one shape for {name!r}, integers within int32; "
            f"got {values!r}. Pass a sequence of numbers."
        ) from error
    return stacked


def _block(names: list[str], values: list[list[Any]], means: Any) -> str:
    corner = " \\ ".join(filter(None, names))
    rows = [[corner, *map(_label, values[1])]]
    for label, row in zip(values[0], means, strict=True):
        rows.append([_label(label), *(f"{mean:.4g}" for mean in row)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _label(value: Any) -> str:
    value = value.item() if getattr(value, "shape", None) == () else value
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
