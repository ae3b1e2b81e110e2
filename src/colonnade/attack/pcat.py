"""PCAT: an honest but curious active party trains pseudo-clients behind its own top model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.evidence import Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.attack.shadow import Shadowing, step_down
from colonnade.errors import ConfigError
from colonnade.nets.adversarial import build_pilot
from colonnade.nets.shapes import Shape


@ATTACKS.register("pcat")
class Pcat(Shadowing):
    """PCAT: honest; pseudo-clients learn to serve the victims' top model, and an inverse of them reads the uploads.

    For each batch after a late start, auxiliary records of the same classes go through the pseudo-clients and the
    current top model; only the pseudo-clients learn from it. After the run a decoder learns to invert them, and each
    guess is refined until the pseudo-clients make of it what the victims uploaded.
    The bottoms' architecture is not known: pseudo-clients have one of their own, and take no more than the sign and the
    scale of the first uploads that are seen.

    Args:
        preset: `smoke`, `default` or `paper`; fills what is left at None.
        decoder_width: channels of the decoder, or hidden units where records are no images.
        late_start: batches to let pass before pseudo-clients begin to learn (published: about 100).
        inverse_epochs: passes over the auxiliary records that the decoder learns from after the run.
        refine_steps: steps of refining a guess (published: 200 to 1,000); 0 leaves the decoder's guess.
        learning_rate: of the pseudo-clients' Adam (published: the victim's; ours: 1e-3, the usual one of a task).
        inverse_rate: of the decoder's Adam.
        refine_rate: of the Adam that refines guesses (published: 1e-3 to 1e-2).
        batch_size: auxiliary records per step of the decoder.
        adaptive: pass the pseudo-clients' outputs through the public operator of the victims' defense.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "pcat"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.LABELS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_LABELS}
    )
    needs_top: ClassVar[bool] = True
    may_be_nothing: ClassVar[frozenset[str]] = frozenset({"late_start", "refine_steps"})
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {
            "decoder_width": 16,
            "late_start": 5, "inverse_epochs": 5, "refine_steps": 10,
            "learning_rate": 1e-3, "inverse_rate": 1e-3, "refine_rate": 1e-3,
        },
        "default": {
            "decoder_width": 64,
            "late_start": 100, "inverse_epochs": 50, "refine_steps": 200,
            "learning_rate": 1e-3, "inverse_rate": 1e-3, "refine_rate": 1e-3,
        },
        "paper": {
            "decoder_width": 64,
            "late_start": 100, "inverse_epochs": 30, "refine_steps": 1000,
            "learning_rate": 1e-4, "inverse_rate": 1e-4, "refine_rate": 1e-3,
        },
    }  # fmt: skip
    late_start: int
    inverse_epochs: int
    refine_steps: int
    learning_rate: float
    inverse_rate: float
    refine_rate: float

    def __init__(
        self,
        preset: str = "default",
        *,
        decoder_width: int | None = None,
        late_start: int | None = None,
        inverse_epochs: int | None = None,
        refine_steps: int | None = None,
        learning_rate: float | None = None,
        inverse_rate: float | None = None,
        refine_rate: float | None = None,
        batch_size: int = 128,
        adaptive: bool = False,
        mixed: bool = False,
    ) -> None:
        given = {
            "decoder_width": decoder_width,
            "late_start": late_start,
            "inverse_epochs": inverse_epochs,
            "refine_steps": refine_steps,
            "learning_rate": learning_rate,
            "inverse_rate": inverse_rate,
            "refine_rate": refine_rate,
        }
        super().__init__(preset, given, batch_size=batch_size, adaptive=adaptive, mixed=mixed)

    def make_shadow(self, victim: str, upload_shape: Shape, seed: int) -> nn.Module:
        """Return a pseudo-client, built from the shapes of records and uploads alone."""
        return build_pilot(self.evidence[victim].input_shape, upload_shape, linear=False, seed=seed)

    def set_up(self) -> None:
        """File the auxiliary records by class."""
        self._seen = 0
        self._serve = self.adam(self.shadows.parameters(), self.learning_rate)
        self._by_class = self.auxiliary_labels.argsort(stable=True)
        self._counts = torch.bincount(self.auxiliary_labels, minlength=self.outputs)
        self._firsts = self._counts.cumsum(0) - self._counts

    def see(self, step: int, uploads: list[Tensor], labels: Tensor) -> None:
        """Teach the pseudo-clients to serve the top model on auxiliary records of the batch's classes."""
        self._seen += 1
        if self._seen <= self.late_start:
            return
        rows = self.draw_like(labels)
        outputs = self.ask_top(self.imitate(self.known(rows).shown))
        step_down(self._serve, functional.cross_entropy(outputs, self.auxiliary_labels[rows]))

    def finish(self) -> None:
        """Teach the decoder to invert the pseudo-clients."""
        if self._seen <= self.late_start:
            raise ConfigError(
                f"the run ended after {self._seen} batches, before the attack began",
                where="pcat.late_start",
                remedy="train longer or start earlier",
            )
        self.shadows.eval()
        self.learn_to_decode(self.inverse_epochs, self.adam(self.decoder.parameters(), self.inverse_rate))

    def draw_like(self, labels: Tensor) -> Tensor:
        """Return the row of a random auxiliary record of each label's class; of any class, where that one has none."""
        chance = torch.rand(len(labels), generator=self.generator).to(self.device)
        counts, firsts = self._counts[labels], self._firsts[labels]
        firsts = torch.where(counts > 0, firsts, 0)
        counts = torch.where(counts > 0, counts, len(self.auxiliary))
        return self._by_class[firsts + (chance * counts).long().clamp(max=counts - 1)]

    def guess(self, uploads: list[Tensor], labels: Tensor | None) -> Tensor:
        """Return the decoder's guesses, refined until the pseudo-clients make the same uploads of them."""
        start = self.decode(uploads)
        with torch.enable_grad():
            whole = nn.Parameter(start.clone())
            refine = self.adam([whole], self.refine_rate)
            for _ in range(self.refine_steps):
                pairs = zip(self.imitate(self.strips(whole)), uploads, strict=True)
                step_down(refine, torch.stack([functional.mse_loss(made, upload) for made, upload in pairs]).sum())
        return whole.detach()
