"""An attack that takes part in training: it watches every upload, and a malicious one answers as it likes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn

from colonnade.attack.base import Attack
from colonnade.attack.evidence import Evidence, Knowledge


class Insider(Attack, ABC):
    """An active party that attacks all passive parties while it trains with them.

    The order of a run: `meet` (what was granted, before anything happens), `begin` (the run is set up), `watch` (every
    training batch), `finish` (after the last one), `reconstruct_all`. An insider is a `Curious` of `learn.active`:
    `co.train(federation, curious=insider)` runs it. It keeps no checkpoints, so an attacked run can't be resumed.
    """

    def meet(self, evidence: Mapping[str, Evidence]) -> None:
        """Take what is known of each victim before training, by its name; uploads are not among it."""
        things = self.knowledge - {Knowledge.UPLOADS, Knowledge.LABELS}
        self.evidence = {
            victim: given.only(things, where=f"attack '{self.name}'") for victim, given in evidence.items()
        }

    @abstractmethod
    def begin(self, top: nn.Module, shapes: Mapping[str, tuple[int, ...]], outputs: int) -> None:
        """Build what the attack needs for uploads of these shapes; `top` is the very model that is being trained."""

    def watch(
        self, step: int, uploads: Mapping[str, Tensor], labels: Tensor, honest: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """See one training batch; return the gradients to send, `honest` or others."""
        return honest

    def finish(self) -> None:
        """Learn what can only be learned once training is over."""

    @abstractmethod
    def reconstruct_all(self, uploads: Mapping[str, Tensor], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return a guess for each upload of each victim; all victims' uploads belong to the same records.

        `labels` are the classes of those records, where the attack's knowledge has them; most attacks need none here.
        """
