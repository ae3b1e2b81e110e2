"""What several tests of benches share."""

import numpy as np

from colonnade.progress import Progress


def striped_pictures():
    """Made-up pictures: ten classes of stripes and noise, their labels, and which are test pictures."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=240)
    stripes = (np.arange(32)[None] * (1 + labels[:, None]) // 8 % 2)[:, None, :, None]
    images = np.clip(90 + 80 * stripes + rng.normal(0, 25, (240, 3, 32, 32)), 0, 255).astype(np.uint8)
    return images, labels, np.arange(240) >= 200


class Notes(Progress):
    """Remembers what a bench says beside its rows."""

    def __init__(self):
        self.notes = []

    def message(self, text):
        self.notes.append(text)
