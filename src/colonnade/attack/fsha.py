"""FSHA: a malicious active party hijacks the feature space, knowing neither labels nor architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.evidence import Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.attack.shadow import Shadowing, step_down
from colonnade.nets.adversarial import build_critic, build_pilot
from colonnade.nets.device import on_device
from colonnade.nets.shapes import Shape


@ATTACKS.register("fsha")
class Fsha(Shadowing):
    """FSHA: malicious; a Wasserstein critic drives the victims' uploads into the feature space of the attacker's pilot.

    A pilot per victim and one decoder learn to reproduce unlabelled auxiliary records; a critic per victim learns to
    tell victim's uploads from pilot's, and the victim gets the gradient that lowers what the critic says of it. The
    task's gradient is not sent, so utility must be measured on an honest run.

    The published code differs in more than numbers, and `paper` brings back only the numbers and the slope of each map:
    here the critic bends smoothly (SiLU), its Adam has betas (0, .9), and the penalty is on the slope over a whole
    record. A pilot's outputs are normalised, and take the sign and the scale of the uploads that the victim begins
    with: left to itself a pilot drifts to where the victim can't follow. And the critic takes several steps a batch
    under a lighter penalty, because the victim's learning rate is not the attacker's to choose: published is a victim
    ten times slower than the critic, over 10,000 batches.

    What to expect: the attack is slow, and a quick victim outruns it. Of whole 8 x 8 digits behind three convolutions
    it found 61 % (as skill against the mean; critic of 16 channels, one seed, the best of about twenty settings) in 800
    batches of a victim at Adam 3e-4 and nothing at 1e-3; the published penalty and single step of the critic found
    nothing in as many batches. Without classes a victim may also settle on a mirror image, worse than the mean.

    Args:
        preset: `smoke`, `default` or `paper`; fills what is left at None.
        decoder_width: channels of the decoder, or hidden units where records are no images.
        critic_width: channels of the critic (published: 256).
        critic_steps: steps of the critic for each batch (published: 1).
        learning_rate: of the critics' Adam (published: 1e-4).
        pilot_rate: of the pilots' and the decoder's Adam (published: 1e-5, over 10,000 batches).
        penalty: weight of the gradient penalty (published: 500).
        adaptive: pass the pilots' outputs through the public operator of the victims' defense.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "fsha"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.GRADIENTS_CONTROL}
    )
    may_be_nothing: ClassVar[frozenset[str]] = frozenset({"penalty"})
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {
            "decoder_width": 16, "critic_width": 32, "critic_steps": 1,
            "learning_rate": 1e-3, "pilot_rate": 1e-3, "penalty": 10.0,
        },
        "default": {
            "decoder_width": 64, "critic_width": 64, "critic_steps": 5,
            "learning_rate": 3e-4, "pilot_rate": 1e-3, "penalty": 10.0,
        },
        "paper": {
            "decoder_width": 64, "critic_width": 256, "critic_steps": 1,
            "learning_rate": 1e-4, "pilot_rate": 1e-5, "penalty": 500.0,
        },
    }  # fmt: skip
    critic_width: int
    critic_steps: int
    learning_rate: float
    pilot_rate: float
    penalty: float

    def __init__(
        self,
        preset: str = "default",
        *,
        decoder_width: int | None = None,
        critic_width: int | None = None,
        critic_steps: int | None = None,
        learning_rate: float | None = None,
        pilot_rate: float | None = None,
        penalty: float | None = None,
        adaptive: bool = False,
        mixed: bool = False,
    ) -> None:
        given = {
            "decoder_width": decoder_width,
            "critic_width": critic_width,
            "critic_steps": critic_steps,
            "learning_rate": learning_rate,
            "pilot_rate": pilot_rate,
            "penalty": penalty,
        }
        super().__init__(preset, given, adaptive=adaptive, mixed=mixed)

    def make_shadow(self, victim: str, upload_shape: Shape, seed: int) -> nn.Module:
        """Return a pilot: a network of the attacker's own from the victim's records to uploads of its shape."""
        return build_pilot(self.evidence[victim].input_shape, upload_shape, linear=True, seed=seed)

    def set_up(self) -> None:
        """Build the critics and the optimisers."""
        self.critics = on_device(
            nn.ModuleList(
                build_critic(shape, width=self.critic_width, seed=self.new_seed())
                for shape in self.upload_layout.shapes
            ),
            self.device,
        )
        # Without momentum, as is usual under a gradient penalty: with it the critic's slope ran away.
        self._spot = torch.optim.Adam(self.critics.parameters(), self.learning_rate, betas=(0.0, 0.9), fused=True)
        learners = [*self.shadows.parameters(), *self.decoder.parameters()]
        self._reproduce = self.adam(learners, self.pilot_rate)

    def see(self, step: int, uploads: list[Tensor], labels: Tensor) -> list[Tensor]:
        """Return gradients that lower the critics' verdicts on the uploads; teach pilots, decoder and critics."""
        known = self.known(self.draw(len(labels)))
        piloted = self.imitate(known.shown)
        step_down(self._reproduce, functional.mse_loss(self.decode(piloted), known.whole))
        for _ in range(self.critic_steps):
            triples = zip(self.critics, uploads, piloted, strict=True)
            losses = [self._critic_loss(critic, upload, pilot.detach()) for critic, upload, pilot in triples]
            step_down(self._spot, torch.stack(losses).sum())
        return [self._way_down(critic, upload) for critic, upload in zip(self.critics, uploads, strict=True)]

    def _way_down(self, critic: nn.Module, upload: Tensor) -> Tensor:
        """Return the gradient of the critic's mean verdict on a victim's uploads."""
        leaf = upload.clone().requires_grad_()
        return torch.autograd.grad(self._judge(critic, leaf).mean(), leaf)[0]

    def _critic_loss(self, critic: nn.Module, upload: Tensor, pilot: Tensor) -> Tensor:
        apart = self._judge(critic, pilot).mean() - self._judge(critic, upload).mean()
        return apart + self.penalty * self._gradient_penalty(critic, upload, pilot)

    def _gradient_penalty(self, critic: nn.Module, upload: Tensor, pilot: Tensor) -> Tensor:
        """Return how far the critic's slope between the two is from one, of each record; in full precision.

        The published code takes the slope of each map of an upload by itself; so does the preset `paper`.
        """
        share = torch.rand(len(upload), *[1] * (upload.dim() - 1), generator=self.generator).to(upload)
        between = torch.lerp(upload, pilot, share).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        one_by_one = slope.flatten(2) if self.preset == "paper" and slope.dim() == 4 else slope.flatten(1)
        norm = (one_by_one.square().sum(-1) + 1e-12).sqrt()  # the root of zero has no finite slope
        return (norm - 1).square().mean()

    def _judge(self, critic: nn.Module, uploads: Tensor) -> Tensor:
        with self.precision():
            verdict: Tensor = critic(uploads)
        return verdict.float()
