"""A bottom network whose batches are computed by all processes of its party.

Every process holds the network. For each batch the party hands out weights and records, and gathers representations;
on the way back it hands out their gradients and adds up those of the weights. Batch norms take their statistics from
the whole batch. So the numbers are those of one process, but for the order in which they are added.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from colonnade.data.label_preparation import LabelPreparation
from colonnade.data.preparation import preparation_from_dict
from colonnade.defend import make_defense
from colonnade.learn.norm import BatchWide
from colonnade.learn.part import BottomPart
from colonnade.learn.team import STOP, HelperLostError, Team
from colonnade.nets import build_bottom
from colonnade.nets.device import on_device, precision

BUILD, FORWARD, BACKWARD = 1, 2, 3
"""Orders to a helper, beside STOP."""
WORTH_SHARING = 2
"""Records that each process must get at least: the norm of a single one would have no spread."""


class Spread(nn.Module):
    """The bottom network, at the party itself: looks like `network`, and lets the whole team compute.

    Its weights, their names and their files are those of `network`. Only what is asked of this module is shared out;
    what a defense asks of `network` itself, it computes alone.

    Args:
        part: the bottom network, which the party's optimiser moves, and what helpers need to build the same.
        team: the party and its helpers.
        device: where the party computes.
    """

    def __init__(self, part: BottomPart, team: Team, device: torch.device) -> None:
        super().__init__()
        self.network, self._team, self.share = part.network, team, _Share(part.network, team)
        described = {
            "device": device.type,
            "recipe": part.recipe,
            "preparation": part.preparation.to_dict(),
            "defense": part.defense.describe(),
        }
        text = torch.frombuffer(bytearray(json.dumps(described).encode()), dtype=torch.uint8)
        team.order(BUILD, len(text))
        team.tell_all(text)
        team.settle_on(team.own_device(device.type))

    def forward(self, x: Tensor) -> Tensor:
        """Return the representations of records `x`."""
        if x.is_meta or len(x) < WORTH_SHARING * self._team.size:
            alone: Tensor = self.network(x)
            return alone
        if torch.is_grad_enabled():
            together: Tensor = _Together.apply(self, x, *self.network.parameters())  # type: ignore[no-untyped-call]
            return together
        return self.represent(x, learn=False)

    def represent(self, x: Tensor, learn: bool) -> Tensor:
        """Let every process compute its share of `x`; `learn` keeps what the way back needs."""
        mixed = torch.is_autocast_enabled(x.device.type)
        self._team.order(FORWARD, len(x), self.network.training, learn, mixed)
        self.share.meet_weights()
        own, *others = torch.tensor_split(x, self._team.size)
        for rank, shard in enumerate(others, start=1):
            self._team.send(shard, rank)
        h = self.share.represent(own, learn)
        parts = [h.new_empty(len(shard), *h.shape[1:]) for shard in others]
        return torch.cat([h, *(self._team.receive(part, rank) for rank, part in enumerate(parts, start=1))])

    def slopes(self, gradient: Tensor) -> Sequence[Tensor | None]:
        """Return the gradient of each weight for the `gradient` of the representations that are kept."""
        self._team.order(BACKWARD)
        own, *others = torch.tensor_split(gradient, self._team.size)
        for rank, shard in enumerate(others, start=1):
            self._team.send(shard, rank)
        return self.share.slopes(own)

    def state_dict(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return the weights under the names that they have in one process."""
        return self.network.state_dict(*arguments, **keywords)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Restore what `state_dict` returned."""
        return self.network.load_state_dict(state, strict, assign)


class _Together(torch.autograd.Function):
    """The whole team's pass, as autograd at the party sees it: one step from the weights to the representations."""

    @staticmethod
    def forward(ctx: Any, spread: Spread, x: Tensor, *weights: Tensor) -> Tensor:
        h = spread.represent(x, learn=True)
        ctx.spread, ctx.kept = spread, spread.share.kept
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is not ctx.spread.share.kept:
            raise RuntimeError("the way back goes through the last training pass, once")
        return None, None, *ctx.spread.slopes(gradient)


class _Share:
    """One process's share of every pass.

    Attributes:
        kept: the representations that the next way back starts from.
    """

    def __init__(self, network: nn.Module, team: Team) -> None:
        self.network, self._team = network, team
        self.kept: Tensor | None = None

    def meet_weights(self) -> None:
        """Take the party's weights, and the statistics of its norms."""
        tensors = [tensor.detach() for tensor in (*self.network.parameters(), *self.network.buffers())]
        numbers = [tensor for tensor in tensors if tensor.is_floating_point()]
        heard = self._team.tell_all(_joined(numbers))
        if self._team.rank > 0:
            for tensor, told in zip(numbers, _apart(heard, numbers), strict=True):
                tensor.copy_(told)

    def represent(self, x: Tensor, learn: bool) -> Tensor:
        """Return the representations of this share."""
        with torch.set_grad_enabled(learn), BatchWide(self._team):
            h: Tensor = self.network(x)
        if learn:
            self.kept = h
        return h.detach()

    def slopes(self, gradient: Tensor | None = None) -> Sequence[Tensor | None]:
        """Return the gradients of the weights, added up over all shares; a helper hears its own `gradient` first."""
        assert self.kept is not None, "a pass is kept before its way back"
        kept, self.kept = self.kept, None
        heard = self._team.receive(torch.empty_like(kept), 0) if gradient is None else gradient
        weights = list(self.network.parameters())
        learning = [weight for weight in weights if weight.requires_grad]
        found = dict(zip(learning, torch.autograd.grad(kept, learning, heard, allow_unused=True), strict=True))
        slopes = [found.get(weight) for weight in weights]
        own = [
            torch.zeros_like(weight) if slope is None else slope for weight, slope in zip(weights, slopes, strict=True)
        ]
        summed = _apart(self._team.add_up(_joined(own)), own)
        return [None if slope is None else total for slope, total in zip(slopes, summed, strict=True)]


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Return all numbers as one tensor, because each that is handed over costs time, however small."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _apart(joined: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return what was joined, in the shapes of `like`."""
    parts = torch.split(joined, [tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def help_out() -> None:
    """Live as a helper: do what the party orders until it says stop, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the party says so, and then stop
    with suppress(HelperLostError), Team() as team:
        _Helper(team).serve()


class _Helper:
    """A process that computes shares, and knows records and weights only while it does."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._device: torch.device
        self._share: _Share
        self._shape: tuple[int, ...]

    def serve(self) -> None:
        """Do what is ordered."""
        while (order := self._team.await_order())[0] != STOP:
            kind, count, training, learn, mixed = order
            if kind == BUILD:
                self._build(count)
            elif kind == FORWARD:
                self._represent(count, bool(training), bool(learn), bool(mixed))
            else:
                self._share.slopes()

    def _build(self, length: int) -> None:
        text = self._team.tell_all(torch.empty(length, dtype=torch.uint8))
        described = json.loads(bytes(text.tolist()))
        self._device = self._team.own_device(described["device"])
        self._team.settle_on(self._device)
        network = on_device(_same_network(described), self._device)
        self._share, self._shape = _Share(network, self._team), tuple(described["recipe"]["input_shape"])

    def _represent(self, count: int, training: bool, learn: bool, mixed: bool) -> None:
        self._share.meet_weights()
        if self._share.network.training != training:
            self._share.network.train(training)
        own = len(torch.tensor_split(torch.arange(count), self._team.size)[self._team.rank])
        x = self._team.receive(torch.empty((own, *self._shape), device=self._device), 0)
        with precision(self._device, mixed):
            h = self._share.represent(x, learn)
        self._team.send(h, 0)


def _same_network(described: Mapping[str, Any]) -> nn.Module:
    """Build the party's network, layers of its defense included; its weights come with the first records."""
    preparation = preparation_from_dict(described["preparation"])
    assert not isinstance(preparation, LabelPreparation), "a bottom model has a preparation of features"
    chosen, recipe = dict(described["defense"]), described["recipe"]
    defense = make_defense(chosen.pop("name"), **chosen)
    defense.seed(0)
    defense.meet(preparation)
    return defense.extend(build_bottom(**recipe, seed=0), tuple(recipe["input_shape"]))
