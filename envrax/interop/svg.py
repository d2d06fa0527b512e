# pyright: basic, reportMissingImports=false
"""Images of SVG drawings, made on the host."""

import importlib
import io
from typing import Any

import numpy as np

DPI = 96


def drawn(who: str, svg: str) -> np.ndarray:
    """
    The image of a drawing, on white.

    Letters are those of the fonts that the system has, or else of the ones that matplotlib brings.

    Parameters
    ----------
    who : str
        The environment, for the message.
    svg : str
        The drawing.

    Returns
    -------
    numpy.ndarray
        uint8 (height, width, 3).

    Raises
    ------
    NotImplementedError
        If a package that draws is not installed.
    """
    try:
        resvg, image, matplotlib = map(
            importlib.import_module, ("resvg_py", "PIL.Image", "matplotlib")
        )
    except ImportError as error:
        raise NotImplementedError(
            f"{who}.render: expected packages that turn SVG into an image; got an error: {error}. "
            "Install them with `pip install resvg-py pillow matplotlib`."
        ) from error
    fonts: dict[str, Any] = dict(
        font_dirs=[f"{matplotlib.get_data_path()}/fonts/ttf"],
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
        serif_family="DejaVu Serif",
        monospace_family="DejaVu Sans Mono",
    )
    png = resvg.svg_to_bytes(svg_string=svg, background="white", dpi=DPI, **fonts)
    return np.array(image.open(io.BytesIO(bytes(png))).convert("RGB"))
