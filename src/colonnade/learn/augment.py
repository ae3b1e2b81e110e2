"""Pictures that are never seen twice alike: each is moved a little, afresh for every batch it is trained on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from colonnade.stream import stream

REACH = 16
"""A picture moves by up to this fraction (1/16) of its height, in every direction."""


class Shifts:
    """Moves each picture of a batch by whole pixels; what enters at the border is mirrored.

    Every party moves its own pictures, by its own secret stream: nobody learns by how much.

    Args:
        seed: the same seed gives the same moves.
        device: of the pictures.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.generator = stream(seed, device)

    def __call__(self, pictures: Tensor) -> Tensor:
        """Return pictures (records, channels, rows, columns), each moved by its own draw."""
        count, channels, rows, columns = pictures.shape
        reach = min(max(rows // REACH, 1), rows - 1, columns - 1)
        padded = functional.pad(pictures, [reach] * 4, mode="reflect")
        place = {"generator": self.generator, "device": self.generator.device}
        down, right = torch.randint(2 * reach + 1, (2, count, 1), **place).to(pictures.device)  # type: ignore[call-overload]
        which = torch.arange(count, device=pictures.device)[:, None, None, None]
        channel = torch.arange(channels, device=pictures.device)[:, None, None]
        row = (down + torch.arange(rows, device=pictures.device))[:, None, :, None]
        column = (right + torch.arange(columns, device=pictures.device))[:, None, None, :]
        return padded[which, channel, row, column]

    def state_dict(self) -> dict[str, Tensor]:
        """Return where the stream is."""
        return {"stream": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.generator.set_state(state["stream"].cpu())
