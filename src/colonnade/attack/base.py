"""What an attack is: it turns what a curious party saw into a guess."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from colonnade.attack.evidence import Evidence, Knowledge

Strength = Literal["published", "adaptive", "oracle"]
"""As published; knows the defense's public operator; or has true pairs of records and uploads: the ceiling."""


class Attack:
    """Turns what a curious active party saw into a guess of the victim's records.

    An attack that works after training writes `fit` and `reconstruct`; one that takes part in it is an `Insider`.
    It draws randomness from `self.generator` alone and computes on `self.device`.
    It never imports a defense: an adaptive attack is granted the defense's operator as a callable.
    """

    name: ClassVar[str]
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.UPLOADS})
    strength: ClassVar[Strength] = "published"
    of_training: ClassVar[bool] = False
    """Whether it reads what was uploaded in training, (records, epochs, ...), of people who were trained on."""

    def __init__(self) -> None:
        self.seed(0)

    def seed(self, seed: int, device: torch.device | str = "cpu") -> None:
        """Give the attack its own random stream, and the device to compute on."""
        self.random_seed, self.device = seed, torch.device(device)
        # The stream stays on the CPU, so that a seed means the same on every device.
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def takes_repeats(self) -> bool:
        """Whether it averages several uploads of each record."""
        return False

    def fit(self, evidence: Evidence) -> None:
        """Learn from what was granted, once, after the victim's training."""

    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Return a guess for each upload, shaped like the victim's records."""
        raise NotImplementedError(f"{type(self).__name__} does not guess records")

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength and the knowledge, as written beside every result."""
        return {
            "name": self.name,
            "strength": self.strength,
            "knowledge": sorted(thing.value for thing in self.knowledge),
        }


def run_attack(attack: Attack, evidence: Evidence) -> Tensor:
    """Grant `attack` the part of `evidence` that its knowledge names, and return its guesses for the uploads."""
    granted = evidence.only(attack.knowledge | {Knowledge.UPLOADS}, where=f"attack '{attack.name}'")
    attack.fit(granted)
    return attack.reconstruct(granted.uploads)
