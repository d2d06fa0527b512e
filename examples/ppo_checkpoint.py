"""`ppo.py --checkpoint DIR`: a training goes on where the process that ran it was killed."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from ppo_options import HOST, Options

KEPT = 3  # the newest ones
MARKER = ".ppo"  # in a directory of checkpoints
REPORT_ONLY = ("greedy", "fps")  # options that training does not depend on


class Checkpoints:
    """
    The newest checkpoints of one training, each in a directory named after its number of updates.

    Orbax gives a checkpoint this name when it is complete: one that was cut short is none. Each
    holds a description too: the options, the types of the arrays, a digest of their values, and
    where they were computed.

    Parameters
    ----------
    folder : Path
        Of the checkpoints; it is created.
    options : Options
        Those of the training.

    Raises
    ------
    SystemExit
        With a sentence, if the directory has a training with other options or files of another
        program, or the environment is on the host.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder, self.options = folder, options
        if options.env.startswith(HOST):
            raise self._refusal(
                f"expected an environment in JAX; got {options.env}, whose state is in its "
                "simulator. Leave the flag out."
            )
        self._claim()
        settings = ocp.CheckpointManagerOptions(
            preservation_policy=ocp.checkpoint_managers.LatestN(KEPT),
            enable_async_checkpointing=False,  # at most one call is ever lost
            cleanup_tmp_directories=True,
        )
        self.manager = ocp.CheckpointManager(folder.resolve(), options=settings)
        asked = asdict(options)
        self.asked = {name: asked[name] for name in asked if name not in REPORT_ONLY}
        for _, then in self._descriptions():
            self._require_same(then["options"], self.asked)
            break

    def _claim(self) -> None:
        """Mark the directory, and refuse one with files of another program."""
        marker = self.folder / MARKER
        others = self.folder.is_file() or (self.folder.is_dir() and any(self.folder.iterdir()))
        if others and not marker.exists():
            raise self._refusal(
                "expected a new or empty directory, or one that `--checkpoint` made; got one with "
                "other files. Choose another directory."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        marker.touch()

    def restore(self, training: Any) -> tuple[Any, int]:
        """
        The newest training that can be read, and the number of calls of `PPO.train` behind it.

        Parameters
        ----------
        training : pytree of arrays
            One that has just begun. What is restored lies on the same devices. It is given back,
            with 0, where nothing is saved.

        Raises
        ------
        SystemExit
            With a sentence, if the arrays of the saved one are of other types.
        """
        wanted = jax.tree.map(ocp.utils.to_shape_dtype_struct, without_empty(training))
        arguments = ocp.args.Composite(training=ocp.args.StandardRestore(wanted))
        for updates, then in self._descriptions():
            self._require_same(then["types"], types(training))
            try:
                found = self.manager.restore(updates, args=arguments)["training"]
                if digest(found) != then["digest"]:
                    raise ValueError("its digest is another one")
            except Exception as error:  # Orbax raises what its parts do
                self._put_aside(updates, error)
                continue
            calls = updates // self.options.updates_per_call
            finished = "finished " * (calls == self.options.n_calls)
            print(f"{self.folder} has the {finished}training up to update {updates}")
            if then["place"] != place(training):
                print(f"it was saved on {then['place']}; on {place(training)} numbers may differ")
            whole = jax.tree.map(lambda old, new: old if new is None else new, training, found)
            return whole, calls
        return training, 0

    def save(self, training: Any, calls: int) -> None:
        """Write what `restore` is to give back; it is on disk when this returns."""
        kept = without_empty(training)
        description = {
            "options": self.asked,
            "types": types(training),
            "digest": digest(kept),
            "place": place(training),
        }
        arguments = ocp.args.Composite(
            training=ocp.args.StandardSave(kept), description=ocp.args.JsonSave(description)
        )
        self.manager.save(calls * self.options.updates_per_call, args=arguments)

    def _descriptions(self) -> Iterator[tuple[int, Any]]:
        """Numbers of updates and descriptions, newest first; what is unreadable is put aside."""
        arguments = ocp.args.Composite(description=ocp.args.JsonRestore())
        for updates in sorted(self.manager.all_steps(), reverse=True):
            try:
                found = self.manager.restore(updates, args=arguments)["description"]
            except Exception as error:
                self._put_aside(updates, error)
            else:
                yield updates, found

    def _put_aside(self, updates: int, error: Exception) -> None:
        """Rename a checkpoint, so that the one that takes its place can be saved."""
        name = f"{updates}.unreadable-{time.time_ns()}"
        reason = str(error).partition("\n")[0][:100]
        print(f"{self.folder / str(updates)} cannot be read ({reason}); it is now {name}")
        (self.folder / str(updates)).rename(self.folder / name)
        self.manager.reload()

    def _require_same(self, then: dict[str, Any], now: dict[str, Any]) -> None:
        for name in [*now, *then]:
            if then.get(name) != now.get(name):
                raise self._refusal(
                    f"expected {name} = {then.get(name)}, as in the training that is saved there; "
                    f"got {now.get(name)}. Choose another directory."
                )

    def _refusal(self, sentence: str) -> SystemExit:
        return SystemExit(f"ppo.py: error: --checkpoint {self.folder}: {sentence}")


def without_empty(tree: Any) -> Any:
    """With None in place of arrays without elements, which Orbax does not store."""
    return jax.tree.map(lambda x: x if x.size else None, tree)


def types(tree: Any) -> dict[str, str]:
    """From the name of every array to its type, such as `float32[64, 4]`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): f"{x.dtype}{list(x.shape)}" for path, x in leaves}


def digest(tree: Any) -> str:
    """That of the types and values of all arrays."""
    found = hashlib.sha256()
    for x in jax.tree.leaves(tree):
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        found.update(f"{x.dtype}{x.shape}".encode())
        found.update(np.ascontiguousarray(jax.random.key_data(x) if is_key else x).data)
    return found.hexdigest()


def place(tree: Any) -> str:
    """The devices that the arrays lie on, and the version of JAX."""
    [sharding, *_] = [x.sharding for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]
    kinds = ", ".join(sorted({device.device_kind for device in sharding.device_set}))
    mesh = "a mesh of " * isinstance(sharding, NamedSharding)
    return f"{mesh}{sharding.num_devices} {kinds} with JAX {jax.__version__}"
