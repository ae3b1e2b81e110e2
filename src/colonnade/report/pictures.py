"""Pictures as text that a page can hold."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt


def picture_source(picture: npt.NDArray[np.float32]) -> str:
    """Return a picture, (channels, height, width) from 0 to 1, as the source of an image; the page magnifies it."""
    from PIL import Image

    values = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    # Pictures of one channel are grey; of others than three, the first is shown.
    shown = Image.fromarray(values.transpose(1, 2, 0) if len(values) == 3 else values[0])
    file = io.BytesIO()
    shown.save(file, "png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
