"""Networks that a party trains beside its bottom to protect it: above all a decoder set against its own uploads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from colonnade.checkpoint import named, under
from colonnade.data.preparation import FeaturePreparation, ImagePreparation
from colonnade.defend.base import Defense
from colonnade.nets.decoder import build_decoder

TABLE_UNIT = 0.25
"""A pixel's standard deviation is about a quarter of its range; a column's is counted alike, so that the weight of an
error means the same for images and tables."""


def unit_scale(preparation: FeaturePreparation) -> Tensor:
    """Return how much of a record's range, 0 to 1, one prepared unit is; broadcasts over a record."""
    if isinstance(preparation, ImagePreparation):
        return torch.tensor(preparation.statistics.scale)[:, None, None]
    return torch.tensor(TABLE_UNIT)


def slope(loss: Callable[[Tensor], Tensor], upload: Tensor) -> Tensor:
    """Return the gradient of `loss` with respect to the upload, to be added to the one that came back for it."""
    leaf = upload.detach().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


class Learner:
    """A network of the defense's own with its optimiser (Adam); it never leaves the party.

    Args:
        network: what learns; moved to `device`.
        device: where the party computes.
        learning_rate: of Adam.
    """

    def __init__(self, network: nn.Module, device: torch.device, learning_rate: float) -> None:
        self.network = network.to(device)
        self.parameters = list(network.parameters())
        self._optimizer = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)

    def __call__(self, *inputs: Tensor, train: bool) -> Tensor:
        """Return the network's output, with batch norms in training or in evaluation mode."""
        if self.network.training != train:
            self.network.train(train)
        output: Tensor = self.network(*inputs)
        return output

    def descend(self, loss: Tensor, gradient: Tensor | None = None) -> None:
        """Move the weights one step against the gradient of `loss`; of `gradient` times `loss`, where it is given."""
        # Not torch.autograd.grad: its gradients lie in memory as the uploads do, and Adam wants them as the weights.
        torch.autograd.backward(loss, gradient, inputs=self.parameters)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights and moments as named tensors."""
        moments = {
            f"{index}/{name}": value
            for index, entry in self._optimizer.state_dict()["state"].items()
            for name, value in entry.items()
        }
        return {**named("network", self.network.state_dict()), **named("moments", moments)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict(under("network", state))
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in under("moments", state).items():
            index, name = key.split("/", 1)
            moments.setdefault(int(index), {})[name] = value.clone()
        self._optimizer.load_state_dict(
            {"state": moments, "param_groups": self._optimizer.state_dict()["param_groups"]}
        )


class Adversary(Learner):
    """A decoder that guesses the party's records from its uploads: what a curious party could do, tried at home.

    Errors are mean squared errors in units where a record's values span about 0 to 1; see `unit_scale`.

    Args:
        upload_shape: shape of one upload.
        record_shape: shape of one record.
        unit: what one prepared unit is worth.
        seed: where the first weights come from.
        device: where the party computes.
        learning_rate: of Adam.
    """

    def __init__(
        self,
        upload_shape: Sequence[int],
        record_shape: Sequence[int],
        *,
        unit: Tensor,
        seed: int,
        device: torch.device,
        learning_rate: float,
    ) -> None:
        super().__init__(build_decoder(upload_shape, record_shape, seed=seed), device, learning_rate)
        self._unit = unit.to(device)
        self.ceiling = torch.full((), torch.inf, device=device)
        self._sum, self._count = torch.zeros((), device=device), 0

    def measure(self, data: Tensor) -> None:
        """Learn what guessing the mean record costs: the error beyond which there is nothing left to hide."""
        self.ceiling = ((data - data.mean(0)) * self._unit).square().mean()

    def error(self, upload: Tensor, x: Tensor, *, train: bool = False) -> Tensor:
        """Return the decoder's mean squared error."""
        return ((self(upload, train=train) - x) * self._unit).square().mean()

    def capped_error(self, upload: Tensor, x: Tensor) -> Tensor:
        """Return the error, at most that of the mean guess: an attacker who fares worse would guess the mean."""
        return torch.minimum(self.error(upload, x), self.ceiling)

    def learn(self, upload: Tensor, x: Tensor) -> None:
        """Improve the decoder by one step on a batch of uploads and their records."""
        error = self.error(upload.detach(), x, train=True)
        self.descend(error)
        self._sum, self._count = self._sum + error.detach(), self._count + 1

    def skill(self) -> float | None:
        """Return 1 - error / error(mean guess), the mean since the last call; None where nothing was learned since."""
        if not self._count:
            return None
        skill = 1 - (self._sum / self._count / self.ceiling).item()
        self._sum, self._count = torch.zeros_like(self._sum), 0
        return skill

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights, moments, the ceiling and what the meter has added up."""
        meter = torch.stack([self._sum, torch.full_like(self._sum, self._count)])
        return {**super().state_dict(), "ceiling": self.ceiling, "meter": meter}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.ceiling = state["ceiling"].to(self.ceiling)
        if "meter" in state:  # an older version kept none
            self._sum, self._count = state["meter"][0].to(self._sum), int(state["meter"][1])


class LearnedDefense(Defense):
    """A defense with networks of its own; it makes them in `extend` and keeps them in `learners`, by name.

    Their weights and moments are part of its state. One called "adversary" is an `Adversary`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.learners: dict[str, Learner] = {}
        self.unit = torch.tensor(TABLE_UNIT)

    @property
    def adversary(self) -> Adversary:
        """The local decoder."""
        adversary = self.learners["adversary"]
        assert isinstance(adversary, Adversary)
        return adversary

    def meet(self, preparation: FeaturePreparation) -> None:
        """Learn the unit in which errors are counted."""
        self.unit = unit_scale(preparation)

    def hire_adversary(self, upload_shape: Sequence[int], record_shape: Sequence[int], learning_rate: float) -> None:
        """Make the local decoder."""
        self.learners["adversary"] = Adversary(
            upload_shape,
            record_shape,
            unit=self.unit,
            seed=self.new_seed(),
            device=self.generator.device,
            learning_rate=learning_rate,
        )

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Measure the error of the mean guess."""
        if "adversary" in self.learners:
            self.adversary.measure(data)

    def new_seed(self) -> int:
        """Return a seed for one inner network, drawn from the defense's stream."""
        return int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device))

    def meters(self) -> dict[str, float]:
        """Return how much of the records the local decoder could guess."""
        skill = self.adversary.skill() if "adversary" in self.learners else None
        return {} if skill is None else {"adversary_skill": skill}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the random stream and everything the inner networks have learned."""
        state = super().state_dict()
        for name, learner in self.learners.items():
            state |= named(name, learner.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        for name, learner in self.learners.items():
            learner.load_state_dict(under(name, state))
