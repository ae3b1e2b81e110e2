"""A stage on which everything to be read has been uploaded already, whenever and however that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.audit.attacks import bottom_of
from colonnade.audit.evidence import prepared
from colonnade.audit.stage import Stage

Uploads = tuple[Tensor, Tensor]
"""Of the people whose records the attacker knows, and of those whose records it wants."""


@dataclass(frozen=True)
class Shown(Stage):
    """A stage whose uploads were made before: all attacks read the same ones.

    Attributes:
        uploads: of each party.
    """

    uploads: Mapping[str, Uploads]

    def evidence(self, party: str, repeats: int | None = None) -> Evidence:
        """Return the true pairs and the uploads to be read."""
        bottom = bottom_of(self.model, party)
        known, wanted = self.uploads[party]
        held: dict[str, Tensor] = {
            Knowledge.AUXILIARY_RECORDS: prepared(bottom, self.auxiliary.records[party]),
            Knowledge.AUXILIARY_UPLOADS: known,
            Knowledge.UPLOADS: wanted,
        }
        return Evidence(tuple(bottom.recipe["input_shape"]), held)
