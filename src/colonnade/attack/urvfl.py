"""URVFL: a malicious active party drives the victims' uploads to look like its shadows' (NDSS 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.evidence import Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.attack.shadow import Shadowing, step_down
from colonnade.nets.adversarial import build_class_discriminator
from colonnade.nets.device import on_device
from colonnade.strength import yes_or_no


@ATTACKS.register("urvfl")
class Urvfl(Shadowing):
    """URVFL: malicious; a discriminator with classes makes the victims upload what a trained decoder can read.

    Before the run, shadows of all victims and one decoder learn together to reproduce auxiliary records. During the
    run, a discriminator per victim tells victim's uploads from shadow's, class by class; instead of the task's gradient
    the victim gets the one that makes its upload pass for the shadow's of the same class. So the bottoms no longer
    learn the task, and utility must be measured on an honest run.

    Published is an attacker with a strip of its own and one victim; here the active party may have none, and all
    victims are attacked at once, with one decoder for all.

    The discriminator must keep up with the victim. Published is Adam at 1e-4 for both; against a victim at Adam 1e-3
    (halves of digits, 600 batches) a rate of 1e-4 found 39 and 54 % of the two halves, as skill against the mean, and
    1e-3 found 84 and 83 %.

    Args:
        preset: `smoke`, `default` or `paper`; fills what is left at None.
        decoder_width: channels of the decoder, or hidden units where records are no images.
        pretrain_epochs: passes over the auxiliary records before the run (published: 20, over 4,545 records).
        learning_rate: of Adam, for all of the attack's networks (published: 1e-4).
        sync: the "Sync" variant: no pretraining, shadows and decoder learn while they attack.
        augment: shift and mirror auxiliary images, afresh for each batch, while the decoder learns from them. Wrong for
            images that a mirror changes, as it does digits. The discriminator always compares records as victims train
            on them: moved where the task moves them, never mirrored.
        batch_size: auxiliary records per step of pretraining.
        adaptive: pass the shadows' outputs through the public operator of the victims' defense.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "urvfl"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {
            Knowledge.UPLOADS,
            Knowledge.LABELS,
            Knowledge.ARCHITECTURE,
            Knowledge.AUXILIARY_RECORDS,
            Knowledge.AUXILIARY_LABELS,
            Knowledge.GRADIENTS_CONTROL,
        }
    )
    may_be_nothing: ClassVar[frozenset[str]] = frozenset({"pretrain_epochs"})
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {"decoder_width": 16, "pretrain_epochs": 5, "learning_rate": 1e-3},
        "default": {"decoder_width": 64, "pretrain_epochs": 60, "learning_rate": 1e-4},
        "paper": {"decoder_width": 64, "pretrain_epochs": 20, "learning_rate": 1e-4},
    }
    pretrain_epochs: int
    learning_rate: float

    def __init__(
        self,
        preset: str = "default",
        *,
        decoder_width: int | None = None,
        pretrain_epochs: int | None = None,
        learning_rate: float | None = None,
        sync: bool = False,
        augment: bool = False,
        batch_size: int = 128,
        adaptive: bool = False,
        mixed: bool = False,
    ) -> None:
        given = {"decoder_width": decoder_width, "pretrain_epochs": pretrain_epochs, "learning_rate": learning_rate}
        super().__init__(preset, given, batch_size=batch_size, adaptive=adaptive, mixed=mixed)
        self.sync = yes_or_no("urvfl.sync", sync)
        self.augment = yes_or_no("urvfl.augment", augment)

    def set_up(self) -> None:
        """Build the discriminators; unless `sync`, teach shadows and decoder and freeze them."""
        self.discriminators = on_device(
            nn.ModuleList(
                build_class_discriminator(shape, self.outputs, seed=self.new_seed())
                for shape in self.upload_layout.shapes
            ),
            self.device,
        )
        self._spot = self.adam(self.discriminators.parameters(), self.learning_rate)
        learners = nn.ModuleList([self.shadows, self.decoder])
        self._reproduce = self.adam(learners.parameters(), self.learning_rate)
        if not self.sync:
            self.learn_to_decode(self.pretrain_epochs, self._reproduce, augment=self.augment)
            learners.eval()

    def see(self, step: int, uploads: list[Tensor], labels: Tensor) -> list[Tensor]:
        """Return gradients that make each upload pass for the shadow's of its class; teach the discriminators."""
        rows = self.draw(len(labels))
        known, classes = self.known(rows), self.auxiliary_labels[rows]
        if self.sync:
            step_down(self._reproduce, self.decoding_error(self.augmented(known.whole) if self.augment else known))
        with torch.no_grad():
            imitated = self.imitate(known.shown)
        answers: list[Tensor] = []
        losses = []
        for discriminator, upload, shadow in zip(self.discriminators, uploads, imitated, strict=True):
            leaf = upload.clone().requires_grad_()
            passes = functional.cross_entropy(self._judge(discriminator, leaf), 2 * labels + 1)
            answers += torch.autograd.grad(passes, leaf)
            losses.append(functional.cross_entropy(self._judge(discriminator, upload), 2 * labels))
            losses.append(functional.cross_entropy(self._judge(discriminator, shadow), 2 * classes + 1))
        step_down(self._spot, torch.stack(losses).sum())
        return answers

    def _judge(self, discriminator: nn.Module, uploads: Tensor) -> Tensor:
        with self.precision():
            logits: Tensor = discriminator(uploads)
        return logits.float()
