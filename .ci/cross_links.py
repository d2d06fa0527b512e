"""
Links from the reference to the documentation of JAX, NumPy and Python, for mkdocs (`hooks` in
mkdocs.yml).

Their inventories would have to be downloaded on every build; the names that the docstrings use are
few, and a build needs no network this way.
"""

from typing import Any

JAX = "https://docs.jax.dev/en/latest/_autosummary/{}.html"
NUMPY = "https://numpy.org/doc/stable/reference/generated/{}.html"
PYTHON = "https://docs.python.org/3/library/"
NAMES = {
    JAX: "jax.Array jax.jit jax.lax.scan jax.random.key jax.random.split jax.vmap "
    "jax.typing.ArrayLike jax.typing.DTypeLike",
    NUMPY: "numpy.ndarray numpy.dtype",
    f"{PYTHON}typing.html#{{}}": "typing.Any",
    f"{PYTHON}collections.abc.html#{{}}": "collections.abc.Callable collections.abc.Sequence",
    f"{PYTHON}functions.html#{{}}": "bool int float str tuple list dict",
    f"{PYTHON}exceptions.html#{{}}": "ValueError TypeError KeyError IndexError RuntimeError "
    "NotImplementedError ImportError",
    f"{PYTHON}constants.html#{{}}": "None",
}


def on_env(env: Any, config: Any, files: Any) -> Any:
    urls = {name: url.format(name) for url, names in NAMES.items() for name in names.split()}
    for name, url in {**urls, "np.ndarray": urls["numpy.ndarray"]}.items():
        config.plugins["autorefs"].register_url(name, url)
    return env
