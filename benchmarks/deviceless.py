"""Compile for accelerators that are not there: an H100, a TPU v5e."""

import re
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks import thunks

H100 = Path(__file__).parent / "h100.txtpb"  # XLA's description of one
COLLECTIVE = re.compile(
    r"(?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)[\w\-]*\("
)
MAIN = "deviceless_main"


@cache
def devices(platform: str, topology: str) -> Any:
    """
    The devices of a machine that is not there.

    Parameters
    ----------
    platform : str
        "cuda" needs the wheels `jax-cuda13-plugin` and `jax-cuda13-pjrt`, in the version of JAX,
        `nvidia-cuda-nvcc` and `nvidia-nvvm`, all with `--no-deps`. "tpu" needs `libtpu`.
    topology : str
        For "cuda" parts, hosts and H100s of a host: "1x2x4". For "tpu" as "v5e:16x16".
    """
    if platform == "tpu":
        found = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    else:
        options = dict(target_config=H100.read_text(), topology=topology)
        found = topologies.get_topology_desc(platform="cuda", topology_name="", **options)
    return np.array(found.devices)


def on_one(platform: str, tree: Any) -> Any:
    """Shapes and dtypes of arrays on one device of the platform."""
    mesh = Mesh(devices(platform, {"cuda": "1x1x1", "tpu": "v5e:2x2"}[platform])[:1], "x")
    layout = NamedSharding(mesh, PartitionSpec())

    def placed(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout)

    return jax.tree.map(placed, tree)


def lowered(platform: str, function: Callable[..., Any], *args: Any) -> Any:
    """`function` lowered for the platform; the arguments are shapes and dtypes on its devices."""

    def main(*args: Any) -> Any:
        return function(*args)

    main.__name__ = MAIN
    return jax.jit(main).trace(*args).lower(lowering_platforms=(platform,))


def compiled(platform: str, function: Callable[..., Any], *args: Any) -> dict[str, float]:
    """
    Compile a scan over steps, and read what came out.

    Returns
    -------
    dict
        Seconds to compile, bytes, collectives; for "cuda" `kernels`, `launches` and `syncs` of a
        step, and the same `with an end`; for "tpu" fusions, loops and branches of the program.
    """
    program = lowered(platform, function, *args)
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {
            "xla_dump_to": folder,
            "xla_dump_hlo_as_text": True,
            "xla_dump_hlo_module_re": MAIN,
            "xla_gpu_autotune_level": 0,  # tuning would run kernels
        }
        begin = time.perf_counter()
        done = program.compile(options if platform == "cuda" else None)
        row = {"seconds": time.perf_counter() - begin}
        text = done.as_text()
        row |= _of_gpu(Path(folder), text) if platform == "cuda" else _of_tpu(text)
    memory = done.memory_analysis()
    row["bytes"] = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    row["collectives"] = len(COLLECTIVE.findall(text))
    return row


def _of_gpu(folder: Path, program: str) -> dict[str, float]:
    sequences = [*folder.glob(f"*{MAIN}*thunk_sequence_after_thunk_passes.txt")]
    if not sequences:
        raise RuntimeError(f"it compiles; the XLA of JAX {jax.__version__} does not list launches")
    (metadata,) = folder.glob(f"*{MAIN}*thunk_metadata.txt")
    rounds = thunks.known_rounds(program, metadata.read_text())
    least, with_end = thunks.step_costs(thunks.read(sequences[0].read_text()), rounds)
    row: dict[str, float] = {}
    for name in ("kernels", "launches", "syncs"):
        row[name] = getattr(least, name)
        row[f"{name} with an end"] = getattr(with_end, name)
    return row


def _of_tpu(program: str) -> dict[str, float]:
    names = {"fusions": "fusion", "loops": "while", "branches": "conditional"}
    return {name: len(re.findall(rf" {op}\(", program)) for name, op in names.items()}
