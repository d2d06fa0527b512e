"""
Links from the reference to the documentation of JAX and NumPy, for mkdocs (`hooks` in mkdocs.yml).

Their inventories would have to be downloaded on every build; the names that the docstrings use are
few, and a build needs no network this way.
"""

from typing import Any

JAX, NUMPY, PYTHON = (
    "https://docs.jax.dev/en/latest/_autosummary/",
    "https://numpy.org/doc/stable/reference/",
    "https://docs.python.org/3/library/",
)
LINKS = {
    "jax.Array": f"{JAX}jax.Array.html",
    "jax.jit": f"{JAX}jax.jit.html",
    "jax.lax.scan": f"{JAX}jax.lax.scan.html",
    "jax.random.key": f"{JAX}jax.random.key.html",
    "jax.random.split": f"{JAX}jax.random.split.html",
    "jax.vmap": f"{JAX}jax.vmap.html",
    "jax.typing.ArrayLike": f"{JAX}jax.typing.ArrayLike.html",
    "jax.typing.DTypeLike": f"{JAX}jax.typing.DTypeLike.html",
    "numpy.ndarray": f"{NUMPY}generated/numpy.ndarray.html",
    "numpy.dtype": f"{NUMPY}generated/numpy.dtype.html",
    "typing.Any": f"{PYTHON}typing.html#typing.Any",
    "collections.abc.Callable": f"{PYTHON}collections.abc.html#collections.abc.Callable",
    "collections.abc.Sequence": f"{PYTHON}collections.abc.html#collections.abc.Sequence",
    **{
        name: f"{PYTHON}{page}"
        for page, names in {
            "functions.html": "bool int float str tuple list dict",
            "exceptions.html": "ValueError TypeError KeyError IndexError RuntimeError "
            "NotImplementedError ImportError",
        }.items()
        for name in names.split()
    },
}
LINKS = {
    name: url if "#" in url or "python.org" not in url else f"{url}#{name}"
    for name, url in LINKS.items()
}
LINKS["None"] = f"{PYTHON}constants.html#None"
LINKS["np.ndarray"] = LINKS["numpy.ndarray"]


def on_env(env: Any, config: Any, files: Any) -> Any:
    for name, url in LINKS.items():
        config.plugins["autorefs"].register_url(name, url)
    return env
