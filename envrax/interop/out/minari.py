# pyright: basic, reportMissingImports=false
"""`to_minari`: the steps of a rollout as a data set of Minari."""

import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from inspect import signature
from itertools import chain, islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envrax._checks.names import require_known
from envrax.agent_values import require_one_agent
from envrax.batched_env import AnyBatch, BatchedEnv
from envrax.env import AnyEnv, JaxEnv
from envrax.interop.gymnasium_spaces import from_space, to_space
from envrax.interop.out.rewards import require_reward_shape
from envrax.interop.peer.containers import mappings_as_dicts
from envrax.interop.peer.library import require
from envrax.interop.peer.spaces import outside
from envrax.rollouts import Episode, Transition, episodes
from envrax.spaces import Space
from envrax.spaces.base import is_list, is_mapping
from envrax.spaces.conform import conform
from envrax.spaces.masks import mask_shape

require("minari", "0.5.4", extra="minari")

from gymnasium import Env  # noqa: E402
from gymnasium.envs.registration import EnvSpec  # noqa: E402

# By name, since a type checker takes `import minari` for this file.
minari: Any = import_module("minari")
EpisodeBuffer: Any = import_module("minari.data_collector").EpisodeBuffer
DATASET_ID_RE: Any = import_module("minari.dataset.minari_dataset").DATASET_ID_RE
get_dataset_path: Any = import_module("minari.storage").get_dataset_path

_WHO = "to_minari"
_OWN = {"dataset_id", "buffer", "env", "observation_space", "action_space", "jpeg_encoding"}
_KEYWORDS = [x for x in signature(minari.create_dataset_from_buffers).parameters if x not in _OWN]


def to_minari(
    dataset_id: str,
    transitions: Transition | Iterable[Transition] | Iterable[Episode],
    env: AnyEnv | AnyBatch,
    *,
    env_spec: Any = None,
    record_infos: bool = False,
    jpeg_encoding: bool = False,
    **metadata: Any,
) -> Any:
    """
    Write the steps of a rollout as a data set of Minari, split into episodes as by `episodes`.

    Each episode is written when it has ended, so of an iterator only the last piece and the
    episodes that have not ended are in memory. If it fails, nothing of the data set stays.

    Parameters
    ----------
    dataset_id : str
        A name with a version, such as `"cartpole/random-v0"`. Minari keeps the data under it in
        `~/.minari/datasets`, or in the folder that the environment variable `MINARI_DATASETS_PATH`
        names.
    transitions : Transition, or iterable of Transition or of Episode
        The steps, as for `episodes`; or its results, to choose episodes or to add those of several
        rollouts.
    env : JaxEnv or BatchedEnv
        The environment that was played, which has the spaces, with its wrappers. Its text, with the
        config, is `envrax_env` in the metadata of the data set.
    env_spec : str, gymnasium.Env or gymnasium.envs.registration.EnvSpec, optional
        What Minari's `recover_environment` makes, such as `"envrax/classic.CartPole-v0"`: see
        `envrax.interop.gymnasium_registration`. Gymnasium makes it once here.
    record_infos : bool, default False
        Write `info` too, with zeros as the first entry: Minari's infos begin with that of the
        reset. What is nested has the name `outer/inner`, in a list or a tuple `outer/0`; HDF5 reads
        such names as nested dicts. Here and in all else, float types that NumPy lacks, such as
        bfloat16, are written as float32.
    jpeg_encoding : bool, default False
        Compress uint8 images of 32 x 32 pixels or more, with loss, as Minari does by default, and
        `minari.combine_datasets` always. Their shape must be (h, w) or (h, w, 3).
    **metadata
        Keywords of `minari.create_dataset_from_buffers`, such as `algorithm_name`, `author`,
        `author_email`, `code_permalink`, `description`, `requirements` and `data_format`.

    Returns
    -------
    minari.MinariDataset
        What `minari.load_dataset(dataset_id)` returns: `observations` of T + 1 entries, `actions`,
        `rewards`, `terminations` and `truncations` of T; rewards are float64, as Minari's collector
        has them of `to_gymnasium`. Episodes without an end are truncated.

    Raises
    ------
    TypeError
        If `env` is no environment of one agent, the steps are none, as for `episodes`, `env_spec`
        is none, or Minari has no such keyword.
    ValueError
        If there are no steps, an episode does not fit the spaces of `env` or lacks its last
        observation, infos differ in their types, `env_spec` makes an environment of other spaces, a
        key of a dict cannot be a name in the file, a dict is empty or an array has no elements, an
        episode is longer than Minari reads in Arrow and Parquet, 32,767 steps, or the id is
        malformed or taken.
    """
    if not isinstance(env, JaxEnv | BatchedEnv):
        raise TypeError(
            f"{_WHO}: expected a JaxEnv or a BatchedEnv after the steps; got {_short(env)}. Pass "
            "the one that was played, or one member of a fleet."
        )
    require_known(f"{_WHO}: expected the keywords", metadata, _KEYWORDS)
    require_one_agent(_WHO, env)
    batched = isinstance(env, BatchedEnv)
    obs_space = env.single_observation_space if batched else env.observation_space
    action_space = env.single_action_space if batched else env.action_space
    if env_spec is not None and not isinstance(env_spec, str | EnvSpec | Env):
        raise TypeError(
            f"{_WHO}: expected env_spec to be an id of Gymnasium, an environment of it or its "
            f"`spec`; got {_short(env_spec)}. Pass its id."
        )
    spec = env_spec.spec if isinstance(env_spec, Env) else env_spec
    if isinstance(spec, EnvSpec) and EnvSpec.from_json(spec.to_json()).entry_point is None:
        raise ValueError(
            f"{_WHO}: expected `env_spec` of an id in Gymnasium's registry; got that of an object, "
            f"{spec.id}, which no program can make again. Register it, or leave it out."
        )
    path = _new_path(dataset_id)
    longest = 2**15 - 1 if metadata.get("data_format") in ("arrow", "parquet") else sys.maxsize
    found = _buffers(_episodes(transitions), obs_space, action_space, record_infos, longest)
    first = next(found, None)  # made now, so that a wrong argument writes nothing
    if first is None:
        raise ValueError(f"{_WHO}: expected at least one step; got none.")
    for name in {"author", "author_email"} & {*metadata}:  # of several, Minari takes a set
        names = metadata[name]
        metadata[name] = set(names) if isinstance(names, tuple | list) else names
    spaces = {"observation_space": to_space(obs_space), "action_space": to_space(action_space)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # one for each keyword that is left out
            dataset = minari.create_dataset_from_buffers(
                dataset_id, [], env_spec, jpeg_encoding=jpeg_encoding, **spaces, **metadata
            )
        if env_spec is not None:
            _require_like(dataset.recover_environment(), obs_space, action_space)
        dataset.storage.update_metadata({"envrax_env": repr(env)})
        dataset.storage.update_episodes(chain([first], found))
    except BaseException:  # also Ctrl-C
        shutil.rmtree(path, ignore_errors=True)
        raise
    return minari.load_dataset(dataset_id)


def _require_like(made: Any, obs_space: Space, action_space: Space) -> None:
    """Raise a ValueError unless what `env_spec` makes has observations and actions like these."""
    try:
        for name, space in ("observation_space", obs_space), ("action_space", action_space):
            theirs = from_space(getattr(made, name))
            if theirs.shape != space.shape or mask_shape(theirs) != mask_shape(space):
                raise ValueError(
                    f"{_WHO}: expected `env_spec` of an environment with {name} {space}; got one "
                    f"with {theirs}. Name the one that was played, or leave it out."
                )
    finally:
        made.close()


def _new_path(dataset_id: str) -> Path:
    """The folder of a data set that does not exist yet."""
    match = DATASET_ID_RE.fullmatch(dataset_id) if isinstance(dataset_id, str) else None
    if match is None or match["version"] is None:
        raise ValueError(
            f"{_WHO}: expected an id of letters, digits, `-` and `_` with a version, such as "
            f"'cartpole/random-v0'; got {_short(dataset_id)}. The part before a `/` needs two "
            "letters."
        )
    path = get_dataset_path(dataset_id)
    if path.exists():
        raise ValueError(
            f"{_WHO}: expected an id without a data set; got {dataset_id!r}, which is at {path}. "
            "Give it the next version, or call `minari.delete_dataset` first."
        )
    return path


def _short(x: Any) -> str:
    """What an argument is, for a message: steps only by their type."""
    return type(x).__name__ if isinstance(x, tuple | list) else repr(x)


def _episodes(transitions: Any) -> Iterator[Episode]:
    """The episodes of any argument of `to_minari`; the first piece is read now."""
    if isinstance(transitions, Episode):
        return iter([transitions])
    if isinstance(transitions, Transition) or not isinstance(transitions, Iterable):
        return episodes(transitions)
    rest = iter(transitions)
    first = list(islice(rest, 1))
    items = chain(first, rest)
    return items if first and isinstance(first[0], Episode) else episodes(items)


def _buffers(
    found: Iterator[Episode],
    obs_space: Space,
    action_space: Space,
    record_infos: bool,
    longest: int,
) -> Iterator[Any]:
    """The episodes as Minari takes them, each checked when it is made."""
    hint = "Pass the environment, with its wrappers, that was played, and whole episodes."
    first_types: Any = None  # of the infos, which Arrow reads only if all are alike
    for i, episode in enumerate(found):
        who = f"{_WHO}: episode {i}"
        n = len(episode.done)
        if n > longest:
            raise ValueError(
                f"{who}: expected at most {longest} steps, which Minari reads whole from this "
                f'format; got {n}. Write `data_format="hdf5"`.'
            )
        obs = conform(obs_space.batch(n + 1), episode.obs, who, "obs", hint)
        action = conform(action_space.batch(n), episode.action, who, "action", hint)
        require_reward_shape(who, episode.reward, (n,))
        info = episode.info if record_infos else {}
        for name, tree in ("obs", obs), ("action", action), *[("info", info)] * bool(info):
            _require_writable(who, name, tree)
        infos = _infos(info)
        types = {name: (x[0].shape, x[0].dtype) for name, x in infos.items()}
        first_types = types if first_types is None else first_types
        if types != first_types:
            raise ValueError(
                f"{who}: expected infos with the names, shapes and dtypes of those before; got "
                f"{types} after {first_types}. Write them as another data set."
            )
        truncated = episode.truncated.copy()
        truncated[-1] |= not episode.terminated[-1]
        yield EpisodeBuffer(
            observations=outside(obs_space, obs),
            actions=outside(action_space, action),
            rewards=episode.reward.astype(np.float64),  # as Minari's own collector writes them
            terminations=episode.terminated,
            truncations=truncated,
            infos=infos,
        )


def _require_writable(who: str, where: str, tree: Any) -> None:
    """Raise a ValueError for what the file could not hold, or would take for something else."""
    if tree is None:  # such as the mask of a part where all is legal: it is left out
        return
    if is_mapping(tree):
        for key, value in tree.items():
            if not isinstance(key, str) or "/" in key or key in ("", "."):
                raise ValueError(
                    f"{who}: expected keys that are names in a file, without a slash; got {key!r} "
                    f"in `{where}`. Rename it: `TransformObservation` renames observations."
                )
            _require_writable(who, f"{where}[{key!r}]", value)
    elif is_list(tree):
        for i, value in enumerate(tree):
            _require_writable(who, f"{where}[{i}]", value)
    is_empty = 0 in tree.shape[1:] if isinstance(tree, np.ndarray) else not tree
    if is_empty:
        raise ValueError(
            f"{who}: expected arrays with elements; got none in `{where}`. Leave it out, with a "
            "wrapper or by `steps._replace`."
        )


def _writable(x: np.ndarray) -> np.ndarray:
    """The same, in float32 for float types that NumPy lacks."""
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    return x.astype(np.float32) if is_float and x.dtype.kind != "f" else x


def _infos(info: Any) -> dict[str, Any]:
    """Infos by flat names, since Minari reads no nested ones from Arrow; numbers in lists."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(mappings_as_dicts(info))
    named = {jax.tree_util.keystr(k, simple=True, separator="/"): _writable(x) for k, x in leaves}
    rows = {name: np.concatenate([np.zeros_like(x[:1]), x]) for name, x in named.items()}
    return {name: list(x) if x.ndim == 1 else x for name, x in rows.items()}
