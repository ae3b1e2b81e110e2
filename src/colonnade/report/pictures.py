"""Pictures as text that a page can hold."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
import numpy.typing as npt

MAGNIFIED = 96
"""Pictures are shown at least so many pixels high: strips of 16 pixels are hard to judge."""


def picture_source(picture: npt.NDArray[np.float32]) -> str:
    """Return a picture, (channels, height, width) from 0 to 1, as the source of an image."""
    from PIL import Image

    values = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    # Pictures of one channel are grey; of others than three, the first is shown.
    shown = Image.fromarray(values.transpose(1, 2, 0) if len(values) == 3 else values[0])
    factor = max(1, math.ceil(MAGNIFIED / shown.height))
    file = io.BytesIO()
    shown.resize((shown.width * factor, shown.height * factor), Image.Resampling.NEAREST).save(file, "png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
