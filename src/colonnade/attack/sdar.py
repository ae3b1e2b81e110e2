"""SDAR: an honest but curious active party simulates the bottoms and reads the uploads with the simulators' decoder."""

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
from colonnade.nets.adversarial import build_conditional, build_conditional_discriminator, with_class
from colonnade.nets.decoder import build_decoder
from colonnade.nets.device import on_device
from colonnade.nets.shapes import Shape
from colonnade.strength import number, yes_or_no


@ATTACKS.register("sdar")
class Sdar(Shadowing):
    """SDAR: honest; simulators regularised by a discriminator imitate the victims, and their decoder reads uploads.

    For each batch a simulator of each victim learns to serve the current top model on auxiliary records, and to upload
    what its discriminator takes for the victim's upload of that class; the decoder learns to reproduce auxiliary
    records from the simulators' uploads. The gradients sent are the honest ones.

    The published decoder has a discriminator of its own, whose learning rate (5e-9) keeps it as it began; removing it
    changed little in the published ablation, and it is left out.

    Args:
        preset: `smoke`, `default` or `paper`; fills what is left at None.
        decoder_width: channels of the decoder, or hidden units where records are no images.
        discriminator_width: channels of the discriminators (published: 256).
        updates: steps of the attack for each batch that it sees (published: 1, over 20,000 batches).
        learning_rate: of the simulators' Adam (published: 1e-3); the decoder's is half of it, and the discriminators'
            is `fooling` times it, as published.
        fooling: weight of the discriminator in the simulators' loss (published: 0.02).
        conditional: tell the decoder the class of each record, in training and when it guesses. None does so in the
            preset `paper`, as published, and not in ours.
        batch_size: auxiliary records per step.
        adaptive: pass the simulators' outputs through the public operator of the victims' defense.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "sdar"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {
            Knowledge.UPLOADS,
            Knowledge.LABELS,
            Knowledge.ARCHITECTURE,
            Knowledge.AUXILIARY_RECORDS,
            Knowledge.AUXILIARY_LABELS,
        }
    )
    needs_top: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {"decoder_width": 16, "discriminator_width": 32, "updates": 1, "learning_rate": 1e-3},
        "default": {"decoder_width": 64, "discriminator_width": 256, "updates": 4, "learning_rate": 1e-3},
        "paper": {"decoder_width": 64, "discriminator_width": 256, "updates": 1, "learning_rate": 1e-3},
    }
    discriminator_width: int
    updates: int
    learning_rate: float

    def __init__(
        self,
        preset: str = "default",
        *,
        decoder_width: int | None = None,
        discriminator_width: int | None = None,
        updates: int | None = None,
        learning_rate: float | None = None,
        fooling: float = 0.02,
        conditional: bool | None = None,
        batch_size: int = 128,
        adaptive: bool = False,
        mixed: bool = False,
    ) -> None:
        given = {
            "decoder_width": decoder_width,
            "discriminator_width": discriminator_width,
            "updates": updates,
            "learning_rate": learning_rate,
        }
        super().__init__(preset, given, batch_size=batch_size, adaptive=adaptive, mixed=mixed)
        self.fooling = number("sdar.fooling", fooling, at_least=0)
        self.conditional = preset == "paper" if conditional is None else yes_or_no("sdar.conditional", conditional)

    def set_up(self) -> None:
        """Build the discriminators and the optimisers."""
        self.discriminators = on_device(
            nn.ModuleList(
                build_conditional_discriminator(
                    shape, self.outputs, width=self.discriminator_width, seed=self.new_seed()
                )
                for shape in self.upload_layout.shapes
            ),
            self.device,
        )
        self._simulate = self.adam(self.shadows.parameters(), self.learning_rate)
        self._spot = self.adam(self.discriminators.parameters(), self.learning_rate * self.fooling)
        self._reproduce = self.adam(self.decoder.parameters(), self.learning_rate / 2)

    def see(self, step: int, uploads: list[Tensor], labels: Tensor) -> None:
        """Teach simulators, discriminators and decoder from one batch."""
        for _ in range(self.updates):
            rows = self.draw(self.batch_size)
            known, classes = self.known(rows), self.auxiliary_labels[rows]
            simulated = self.imitate(known.shown)
            task = functional.cross_entropy(self.ask_top(simulated), classes)
            step_down(self._simulate, task + self.fooling * self._judged(simulated, classes, as_victims=True))
            apart = self._judged(uploads, labels, as_victims=True)
            apart += self._judged([upload.detach() for upload in simulated], classes, as_victims=False)
            step_down(self._spot, apart)
            with torch.no_grad():
                simulated = self.imitate(known.shown)
            step_down(self._reproduce, functional.mse_loss(self._decode(simulated, classes), known.whole))

    def make_decoder(self, upload_shape: Shape, record_shape: Shape, seed: int) -> nn.Module:
        """Return an untrained decoder; one that is told the class if `conditional`."""
        if not self.conditional:
            return build_decoder(upload_shape, record_shape, width=self.decoder_width, seed=seed)
        body = build_decoder(with_class(upload_shape), record_shape, width=self.decoder_width, seed=seed)
        return build_conditional(body, upload_shape, self.outputs, seed=seed)

    def guess(self, uploads: list[Tensor], labels: Tensor | None) -> Tensor:
        """Return the decoder's guesses."""
        if self.conditional and labels is None:
            remedy = "give reconstruct_all the labels, or make the attack with conditional=False"
            raise ConfigError("its decoder needs the class of each record", where="attack 'sdar'", remedy=remedy)
        return self._decode(uploads, labels)

    def _decode(self, uploads: list[Tensor], labels: Tensor | None) -> Tensor:
        return self.decode(uploads, labels if self.conditional else None)

    def _judged(self, uploads: list[Tensor], labels: Tensor, *, as_victims: bool) -> Tensor:
        """Return the cross-entropy of taking each victim's uploads, or the simulators', for the victim's own."""
        losses = []
        for discriminator, upload in zip(self.discriminators, uploads, strict=True):
            with self.precision():
                logits = discriminator(upload, labels).float()
            wanted = torch.ones_like(logits) if as_victims else torch.zeros_like(logits)
            losses.append(functional.binary_cross_entropy_with_logits(logits, wanted))
        return torch.stack(losses).sum()
