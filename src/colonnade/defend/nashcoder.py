"""A bottom model that hides its party's own sensitive columns, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.checkpoint import named, under
from colonnade.data.secrets import UNKNOWN, Secret
from colonnade.defend.adversary import Learner
from colonnade.defend.base import Defense
from colonnade.defend.noise import NoiseSource
from colonnade.defend.registry import DEFENSES
from colonnade.nets.blocks import unit_norm
from colonnade.nets.shapes import upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number, one_of, yes_or_no

HIDDEN = 64
"""Width of a surrogate head; the paper calls it a shallow model."""
POOLED = 4
"""Feature maps are averaged down to so many rows and columns before a head reads them."""

Cost = Callable[[Tensor, Tensor, int], Tensor]
"""c_k: what the party pays for a head's outputs on known secrets; the last argument is the number of classes."""


def neg_ce(outputs: Tensor, secret: Tensor, classes: int) -> Tensor:
    """Return minus the head's loss, as in the paper's example.

    Without a bound it rewards a head that is surely wrong, which a fresh attacker turns around.
    """
    return -head_loss(outputs, secret, classes).mean()


def capped_ce(outputs: Tensor, secret: Tensor, classes: int) -> Tensor:
    """Return minus the head's loss, counted up to what a head pays that knows nothing."""
    return -head_loss(outputs, secret, classes).clamp(max=math.log(classes) if classes else 1.0).mean()


def neg_kl_uniform(outputs: Tensor, secret: Tensor, classes: int) -> Tensor:
    """Return how far the head's answer is from none: KL(uniform, answer); a quantity's answer squared."""
    if not classes:
        return outputs.squeeze(1).square().mean()
    return -outputs.log_softmax(1).mean() - math.log(classes)


COSTS: dict[str, Cost] = {"neg_ce": neg_ce, "capped_ce": capped_ce, "neg_kl_uniform": neg_kl_uniform}


def head_loss(outputs: Tensor, secret: Tensor, classes: int) -> Tensor:
    """Return each record's loss: cross-entropy, or the squared error of a quantity in standard units."""
    if classes:
        return functional.cross_entropy(outputs, secret, reduction="none")
    return functional.mse_loss(outputs.squeeze(1), secret, reduction="none")


@DEFENSES.register("nashcoder")
class NashCoder(Defense):
    """NashCoder: the bottom is trained against a head that guesses the party's secrets from its uploads (Eq. 4, 5).

    At every update the head learns from the upload as it is, then the bottom follows q_k times the task's gradient,
    which comes from the active party, plus alpha times that of its own cost c_k of what the head knows. Nothing but the
    upload leaves the party, and neither labels nor other parties' secrets are needed. Whether a secret is safe is for
    fresh attackers to say (`co.audit_attributes`), not for the meter of this head: a bottom can fool one head.

    The published form uploads the representation itself. That fools the party's own head, on Adult a linear attacker
    too, but neither networks nor boosted trees, which read differences however small (docs/papers/equilibrium.md has
    the numbers). So the upload is normalised and noise is added, which drowns small differences for all of them. Fresh
    noise averages out for whoever sees a record uploaded many times; no differential privacy is claimed.

    Args:
        alpha: how much a secret counts beside the task; alike for every secret of the party.
        cost: `capped_ce`, `neg_ce` or `neg_kl_uniform`.
        sigma: deviation of fresh noise on the normalised upload; 0 for the published form, which has neither.
        head_steps: steps that the head takes before each step of the bottom.
        head_rate: learning rate of the head (Adam).
        renew_every: updates of the bottom after which the head starts anew, so that the bottom can't learn to fool
            just this one; 0 for never.
        reversal: the quick way: one pass teaches the head and, with its sign turned, the bottom.
    """

    name: ClassVar[str] = "nashcoder"
    needs_secrets: ClassVar[bool] = True
    knob: ClassVar[str | None] = "alpha"
    published_strengths: ClassVar[tuple[float, ...]] = (0.2, 0.5, 1.0, 1.5, 2.0)
    cost: ClassVar[str] = "steps of a small head for each secret"

    def __init__(
        self,
        alpha: float = 1.0,
        cost: str = "capped_ce",
        *,
        sigma: float = 1.0,
        head_steps: int = 3,
        head_rate: float = 1e-3,
        renew_every: int = 0,
        reversal: bool = False,
    ) -> None:
        super().__init__()
        self.alpha = number("nashcoder.alpha", alpha, at_least=0)
        self.cost_name = one_of("nashcoder.cost", cost, COSTS)
        self._cost = COSTS[self.cost_name]
        self.sigma = number("nashcoder.sigma", sigma, at_least=0)
        self._noise = NoiseSource("gaussian", memoise=False)
        self.head_steps = int(number("nashcoder.head_steps", head_steps, at_least=1, whole=True))
        self.head_rate = number("nashcoder.head_rate", head_rate, at_least=0)
        self.renew_every = int(number("nashcoder.renew_every", renew_every, at_least=0, whole=True))
        self.reversal = yes_or_no("nashcoder.reversal", reversal)
        self._secrets: list[Secret] = []
        self._values: list[Tensor] = []
        self._heads: list[Learner] = []
        self._rows = torch.zeros(0, dtype=torch.int64)
        self._shape: tuple[int, ...] = ()
        self._updates = 0
        self._meter = torch.zeros(3, 0, dtype=torch.float64)

    def confide(self, secrets: Sequence[Secret]) -> None:
        """See the secrets."""
        device = self.generator.device
        self._secrets = list(secrets)
        self._values = [torch.from_numpy(secret.values).to(device) for secret in secrets]
        self._meter = torch.zeros(3, len(secrets), dtype=torch.float64, device=device)

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Begin with new heads."""
        self._heads, self._updates = [], 0
        self._meter = torch.zeros_like(self._meter)

    def turn_to(self, rows: Tensor) -> None:
        """Remember which records the next upload is about."""
        self._rows = rows

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append a norm under which the network can't outgrow the noise."""
        return nn.Sequential(bottom, unit_norm(upload_shape(bottom, input_shape))) if self.sigma else bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation under noise."""
        return h + self.sigma * self._noise.draw(x, h, self.generator) if self.sigma else h

    def operator(self) -> Callable[[Tensor], Tensor] | None:
        """Return fresh noise of the same scale."""
        generator = self.imitators_stream()
        return (lambda h: h + self.sigma * self._noise.draw(h, h, generator)) if self.sigma else None

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Teach the heads, then carry the task's gradient and that of the secrets' cost into the bottom."""
        if not self._heads or (self.renew_every and self._updates % self.renew_every == 0):
            self._shape = tuple(upload.shape[1:])
            self._heads = [self._new_head(secret) for secret in self._secrets]
        self._updates += 1
        pressure = torch.zeros_like(grad)
        for place, head in enumerate(self._heads):
            known, values, classes = self._batch(place)
            if len(values):
                pressed, loss, cost = self._play(head, upload.detach()[known], values, classes)
                pressure[known] += pressed.to(pressure.dtype)
                self._meter[0, place] += loss
                self._meter[1, place] += cost
                self._meter[2, place] += 1
        upload.backward(grad + self.alpha * pressure)  # type: ignore[no-untyped-call]

    def meters(self) -> dict[str, float]:
        """Return each head's mean loss since the last call, the higher the less it knows, and its mean cost c_k."""
        measured = zip(self._secrets, *self._meter.tolist(), strict=False)  # a model that only predicts has no secrets
        self._meter = torch.zeros_like(self._meter)
        found: dict[str, float] = {}
        for secret, loss, cost, batches in measured:
            if batches:
                found |= {f"head_loss_{secret.name}": loss / batches, f"cost_{secret.name}": cost / batches}
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return the heads, their optimisers, the meter and the random stream."""
        state = {**super().state_dict(), "meter": self._meter, "updates": torch.tensor(self._updates)}
        for place, head in enumerate(self._heads):
            state |= named(f"head{place}", {**head.state_dict(), "shape": torch.tensor(self._shape)})
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; a model that only predicts has no secrets and needs no heads."""
        if self._secrets and state["meter"].shape[1] != len(self._secrets):
            raise ValueError("the state is about another number of secrets")  # one without a head would not be hidden
        super().load_state_dict(state)
        self._updates, stream = int(state["updates"]), self.generator.get_state()
        self._heads = []
        for place, secret in enumerate(self._secrets):
            if kept := under(f"head{place}", state):
                self._shape = tuple(kept["shape"].tolist())
                self._heads.append(self._new_head(secret))
                self._heads[-1].load_state_dict(kept)
        self.generator.set_state(stream)  # making heads drew from it
        self._meter = state["meter"].clone().to(self.generator.device)

    def describe(self) -> dict[str, Any]:
        """Return the name and everything chosen."""
        return {
            "name": self.name,
            "alpha": self.alpha,
            "cost": self.cost_name,
            "sigma": self.sigma,
            "head_steps": self.head_steps,
            "head_rate": self.head_rate,
            "renew_every": self.renew_every,
            "reversal": self.reversal,
        }

    def _batch(self, place: int) -> tuple[Tensor, Tensor, int]:
        """Return which records of the batch have this secret, and its values there."""
        values, classes = self._values[place][self._rows], self._secrets[place].classes
        known = values != UNKNOWN if classes else ~values.isnan()
        return known, values[known], classes

    def _play(self, head: Learner, upload: Tensor, secret: Tensor, classes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Teach the head; return the gradient of its cost to the party (Eq. 5), its mean loss, and that cost."""
        leaf = upload.float().requires_grad_()
        if self.reversal:
            # The cost c_k is minus the head's own loss, up to the cap: one pass serves both players.
            outputs = head(leaf, train=True)
            loss = head_loss(outputs, secret, classes).mean()
            cost = self._cost(outputs, secret, classes)
            pressure = torch.autograd.grad(cost, leaf, retain_graph=True)[0]
            head.descend(loss)
            return pressure, loss.detach(), cost.detach()
        for _ in range(self.head_steps):
            head.descend(head_loss(head(upload.float(), train=True), secret, classes).mean())
        outputs = head(leaf, train=True)
        cost = self._cost(outputs, secret, classes)
        pressure = torch.autograd.grad(cost, leaf)[0]
        return pressure, head_loss(outputs.detach(), secret, classes).mean(), cost.detach()

    def _new_head(self, secret: Secret) -> Learner:
        seed = int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device))
        network = initialised(lambda: surrogate_head(self._shape, secret.classes or 1), seed)
        return Learner(network, self.generator.device, self.head_rate)


def surrogate_head(shape: Sequence[int], outputs: int) -> nn.Sequential:
    """Return a shallow network that guesses a secret from uploads of `shape`: vectors, or maps that it averages."""
    pool: list[nn.Module] = []
    width = math.prod(shape)
    if len(shape) == 3:
        rows, columns = (min(POOLED, size) for size in shape[1:])
        pool, width = [nn.AdaptiveAvgPool2d((rows, columns))], shape[0] * rows * columns
    return nn.Sequential(*pool, nn.Flatten(), nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))
