"""Noise for uploads: fresh each time, or the same each time the same record is uploaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

NoiseKind = Literal["gaussian", "laplace"]

KEY_BYTES = 32


class NoiseSource:
    """Draws noise of unit scale, shaped like a batch of representations.

    Fresh noise averages out: a curious party that sees a record in a hundred epochs sees a tenth of its deviation.
    Memoised noise does not: a record's noise is a keyed hash of the record's own prepared numbers, stretched to as many
    random words as its representation has entries. No table of past noise is kept, so it also works for records that
    come after training, in another process.

    What memoising costs: while the bottom model learns, the same noise lies on a moving representation, so the
    difference of two uploads of one record shows the difference of its representations without any noise. And records
    that are equal get equal noise.

    Args:
        kind: standard normal noise, or Laplace noise of density exp(-|z|) / 2.
        memoise: the same noise for the same record; the key is drawn from the generator at the first use.
    """

    def __init__(self, kind: NoiseKind, memoise: bool) -> None:
        self.kind, self.memoise = kind, memoise
        self._key: Tensor | None = None

    def draw(self, x: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
        """Return noise for the uploads of records `x`, of the shape, type and device of `like`."""
        noise = self._remembered(x, like, generator) if self.memoise else self._fresh(like, generator)
        return noise.to(like)

    def renew(self) -> None:
        """Forget the key: the next run gets noise of its own."""
        self._key = None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the key, once there is one."""
        return {} if self._key is None else {"key": self._key}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._key = state["key"].cpu() if "key" in state else None

    def _fresh(self, like: Tensor, generator: torch.Generator) -> Tensor:
        # Drawn where the stream lives: the same seed gives the same noise wherever the representation is.
        if self.kind == "gaussian":
            return torch.randn(like.shape, generator=generator, device=generator.device)
        # The difference of two exponential variables is a Laplace variable.
        pair = torch.empty((2, *like.shape), device=generator.device).exponential_(generator=generator)
        return pair[0] - pair[1]

    def _remembered(self, x: Tensor, like: Tensor, generator: torch.Generator) -> Tensor:
        if self._key is None:
            drawn = torch.randint(256, (KEY_BYTES,), generator=generator, device=generator.device)
            self._key = drawn.to("cpu", torch.uint8)
        words = _words(x, self._key.numpy().tobytes(), like[0].numel())
        return _shaped(words.to(like.device), self.kind).view(like.shape)


def _words(x: Tensor, key: bytes, count: int) -> Tensor:
    """Return `count` secret random 32-bit words for each record: SHAKE128 of the key and the record."""
    records = x.detach().float().flatten(1).cpu().numpy()
    stream = b"".join(hashlib.shake_128(key + record.tobytes()).digest(4 * count) for record in records)
    return torch.from_numpy(np.frombuffer(stream, "<i4").astype(np.int32))


def _shaped(words: Tensor, kind: NoiseKind) -> Tensor:
    """Turn uniform words into noise: the first bit is the sign, the others the chance of anything farther out."""
    # From 2**-31 to 1. Small chances, which make large noise, are where floats are finest; zero never comes up.
    tail = ((words & 0x7FFFFFFF).float() + 1) * 2.0**-31
    size = -torch.special.ndtri(tail / 2) if kind == "gaussian" else -tail.log()
    return torch.where(words < 0, -size, size)
