"""Several defenses, one behind the other: against reconstruction and for a secret at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.checkpoint import named, under
from colonnade.data.preparation import FeaturePreparation
from colonnade.data.secrets import Secret
from colonnade.defend.accounting import composed_epsilon
from colonnade.defend.adversary import LearnedDefense
from colonnade.defend.base import Defense, PrivacySpend
from colonnade.defend.bottleneck import Bottleneck
from colonnade.defend.causshield import CausShield
from colonnade.defend.invl_dnp import InvLDNP
from colonnade.defend.invl_enp import InvLENP
from colonnade.defend.keystone import Keystone
from colonnade.defend.registry import DEFENSES, make_defense
from colonnade.defend.soteria import Soteria
from colonnade.errors import ConfigError
from colonnade.nets.shapes import upload_shape

WHERE = "layered.layers"
READ_UPLOADS_ALONE = {
    *("none", "gaussian", "dp_laplace", "dp_gaussian", "prune", "top_k", "quantise", "hashvfl", "fedpass", "prifu"),
    *("nopeek", "disco", "ressfl", "inf2guard", "d3sfl", "bottleneck", "keystone", "nashcoder"),
}
"""Those whose `protect` is made of its representation and not of the record: no guarantee is lost on the way through.

A defense that is not listed, another package's above all, may look at the record again.
"""


class _Halt(NamedTuple):
    """Where the way back stops: what the layer with a way of its own was given, its upload, and what went on."""

    h: Tensor
    upload: Tensor
    onward: Tensor


@DEFENSES.register("layered")
class Layered(Defense):
    """Other defenses one behind the other: the upload of one is the representation of the next.

    What layers add to the bottom model stands behind it in their order, all of it before the first of them protects
    anything. All draw from one random stream, so a stack of one is that one defense, bit for bit.

    At most one layer may have a way back of its own, such as a game against a decoder or a head. It gets the gradient
    at its own upload, after that of later layers, and what it fights is that upload: put it last if it is to see what
    others see. A bottleneck with neither adversary nor causal weight has none, so it goes with `nashcoder`.

    A layer that claims differential privacy keeps its claim if what comes behind reads nothing but its upload; any
    other order is refused.

    Args:
        layers: the defenses, each `{"name": ..., strength...}`, a name, or a defense; none of them layered itself.

    Attributes:
        layers: the defenses, in order.
    """

    name: ClassVar[str] = "layered"
    cost: ClassVar[str] = "what its layers cost together"

    def __init__(self, layers: Sequence[str | Defense | Mapping[str, Any]]) -> None:
        super().__init__()
        if isinstance(layers, str | Mapping) or not isinstance(layers, Sequence) or not layers:
            remedy = "list defenses, each with its name; the first is nearest to the bottom model"
            raise ConfigError("it has no layers", where=WHERE, remedy=remedy)
        self.layers = [_made(place, choice) for place, choice in enumerate(layers)]
        self._trainer = _one_trainer(self.layers)
        _check_order(self.layers)
        # Of other defenses the class says so; of this one, what it is made of.
        self.needs_labels = any(layer.needs_labels for layer in self.layers)  # type: ignore[misc]
        self.needs_secrets = any(layer.needs_secrets for layer in self.layers)  # type: ignore[misc]
        self.memoise = any(layer.memoise for layer in self.layers)
        self._halt: _Halt | None = None
        self._share_stream()

    def seed(self, seed: int, device: torch.device | str = "cpu") -> None:
        """Give all layers one random stream.

        One, because whoever keeps a defense's stream aside, as early stopping does, keeps its `generator`: layers with
        streams of their own would send the same noise twice.
        """
        super().seed(seed, device)
        for layer in self.layers:
            layer.seed(seed, device)
        self._share_stream()

    @property
    def names(self) -> list[str]:
        """Its own name and those of its layers: whoever asks for one of them gets it."""
        return [self.name, *(layer.name for layer in self.layers)]

    def meet(self, preparation: FeaturePreparation) -> None:
        """Show every layer how records become numbers."""
        for layer in self.layers:
            layer.meet(preparation)

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append what the layers append, the first layer's first."""
        self._halt = None
        shape = upload_shape(bottom, input_shape)
        for place, layer in enumerate(self.layers):
            longer = layer.extend(bottom, input_shape)
            if longer is not bottom:
                before, (bottom, shape) = shape, (longer, upload_shape(longer, input_shape))
                _check_built_for(self.layers[:place], layer, reshaped=shape != before)
        return bottom

    def confide(self, secrets: Sequence[Secret]) -> None:
        """Show the secrets to the layers that hide them."""
        for layer in self.layers:
            if layer.needs_secrets:
                layer.confide(secrets)

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Prepare layer by layer."""
        self._halt = None
        for layer in self.layers:
            layer.prepare(bottom, data)
        self._check_disguise(data[:1])

    def resume(self, bottom: nn.Module, data: Tensor) -> None:
        """Get ready to be loaded, layer by layer."""
        self._halt = None
        for layer in self.layers:
            layer.resume(bottom, data)
        self._check_disguise(data[:1])

    def turn_to(self, rows: Tensor) -> None:
        """Tell every layer which records come next."""
        for layer in self.layers:
            layer.turn_to(rows)

    def announce(self, x: Tensor) -> None:
        """Show every layer the records that come next."""
        for layer in self.layers:
            layer.announce(x)

    def disguise(self, x: Tensor) -> Tensor:
        """Return the records in every layer's disguise, one over the other."""
        for layer in self.layers:
            x = layer.disguise(x)
        return x

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return what the last layer makes of what the others made."""
        return self._passed(h, lambda layer, h: layer.protect(x, h, train), train)

    def rehearse(self, x: Tensor, h: Tensor) -> Tensor:
        """Return an upload that stays at home."""
        return self._passed(h, lambda layer, h: layer.rehearse(x, h), learn=True)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Carry the gradient to the upload of the layer that has a way back of its own, and let it go on from there."""
        super().backward(x, h, upload, grad)
        if self._trainer is None:
            return
        halt, self._halt = self._halt, None
        if halt is None:
            raise RuntimeError("backward() needs a training upload before it")
        arrived = halt.onward.grad
        assert arrived is not None, "a layer's upload is made of its representation"
        self._trainer.backward(x, halt.h, halt.upload, arrived)

    def finish(self, bottom: nn.Module, data: Tensor) -> None:
        """Finish layer by layer."""
        self._halt = None
        for layer in self.layers:
            layer.finish(bottom, data)

    def operator(self) -> Callable[[Tensor], Tensor] | None:
        """Return all layers' public operators, one after the other; None where a layer has none."""
        operators = [layer.operator() for layer in self.layers]
        known = [operator for operator in operators if operator is not None]
        return _one_after_the_other(known) if len(known) == len(operators) else None

    def imitated_disguise(self, known: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Return all layers' disguises, one over the other."""
        found = [layer.imitated_disguise(known) for layer in self.layers]
        worn = [disguise for disguise in found if disguise is not None]
        return (lambda x: reduce(lambda seen, disguise: disguise(seen), worn, x)) if worn else None

    def fitted(self) -> dict[str, float]:
        """Return every layer's numbers under its place."""
        told: dict[str, float] = {}
        for place, layer in enumerate(self.layers):
            told |= named(f"layer{place}", layer.fitted())
        return told

    def load_fitted(self, fitted: Mapping[str, float]) -> None:
        """Give every layer its numbers."""
        for place, layer in enumerate(self.layers):
            layer.load_fitted(under(f"layer{place}", fitted))

    def meters(self) -> dict[str, float]:
        """Return all layers' numbers; where two have one of the same name, with the layer's name before it."""
        told = [layer.meters() for layer in self.layers]
        often = Counter(name for numbers in told for name in numbers)
        return {
            f"{label}_{name}" if often[name] > 1 else name: number
            for label, numbers in zip(self._labels(), told, strict=True)
            for name, number in numbers.items()
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Return the random stream, and every layer's state under its place."""
        state = super().state_dict()
        for place, layer in enumerate(self.layers):
            state |= named(f"layer{place}", layer.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; the stream last, since layers may draw from it while they load."""
        for place, layer in enumerate(self.layers):
            layer.load_state_dict(under(f"layer{place}", state))
        super().load_state_dict(state)

    def spend(self) -> PrivacySpend | None:
        """Return what has been spent; of several layers that keep an account, the least: all of them hold."""
        claims = [claim for layer in self.layers if (claim := layer.spend()) is not None]
        return min(claims, key=composed_epsilon, default=None)

    def describe(self) -> dict[str, Any]:
        """Return the name, and every layer's name and strength."""
        return {"name": self.name, "layers": [layer.describe() for layer in self.layers]}

    def _share_stream(self) -> None:
        for layer in self.layers:
            layer.generator = self.generator

    def _passed(self, h: Tensor, step: Callable[[Defense, Tensor], Tensor], learn: bool) -> Tensor:
        """Return `h` after a step of every layer; when learning, halt the way back at the layer that has its own."""
        for layer in self.layers:
            upload = step(layer, h)
            if learn and layer is self._trainer:
                # In full precision, as a defense that stands alone is given its upload back.
                upload = upload.float()
                self._halt = _Halt(h, upload, upload.detach().requires_grad_())
                upload = self._halt.onward
            h = upload
        return h

    def _check_disguise(self, some: Tensor) -> None:
        """Refuse a disguise where a layer must know a record again, by its numbers."""
        knowing = [layer.name for layer in self.layers if layer.memoise or layer.spend() is not None]
        if knowing and self.disguise(some) is not some:
            what = f"'{knowing[0]}' knows a record by its numbers, and another layer changes them for each upload"
            raise ConfigError(what, where=WHERE, remedy="leave one of them out")

    def _labels(self) -> list[str]:
        """Return the layers' names; those that come again, with their place."""
        often = Counter(layer.name for layer in self.layers)
        return [
            f"{layer.name}_{place}" if often[layer.name] > 1 else layer.name for place, layer in enumerate(self.layers)
        ]


def _made(place: int, choice: object) -> Defense:
    """Return the layer that stands at `place`; what is wrong with it is said with that place."""
    where = f"{WHERE}.{place}"
    described = {"name": choice} if isinstance(choice, str | Defense) else choice
    if not isinstance(described, Mapping) or not isinstance(described.get("name"), str | Defense):
        raise ConfigError("a layer has no name", where=where, remedy="give it the name of a defense")
    name, strength = described["name"], {str(key): value for key, value in described.items() if key != "name"}
    try:
        layer = make_defense(name, **strength)
    except ConfigError as error:
        at = f"{where}.name" if error.where is None else error.where.replace(str(name), where, 1)
        raise ConfigError(error.what, where=at, remedy=error.remedy) from error
    if isinstance(layer, Layered):
        raise ConfigError("a layer has layers itself", where=where, remedy="list all layers in one list")
    return layer


def _one_trainer(layers: Sequence[Defense]) -> Defense | None:
    """Return the layer that has a way back of its own; two would each need the whole way."""
    found = [layer for layer in layers if _trains(layer)]
    if len(found) > 1:
        names = " and ".join(f"'{layer.name}'" for layer in found)
        remedy = "keep one of them; a bottleneck has none with adversary: 0 and causal: 0"
        raise ConfigError(f"{names} each have a way back of their own", where=WHERE, remedy=remedy)
    return found[0] if found else None


def _trains(layer: Defense) -> bool:
    if isinstance(layer, Bottleneck) and not layer.adversary_weight and not layer.causal:
        return False
    return type(layer).backward is not Defense.backward


def _check_order(layers: Sequence[Defense]) -> None:
    """Refuse an order in which one layer undoes another, or makes its claim untrue."""
    for place, layer in enumerate(layers):
        if place and _starts_anew(layer):
            what = f"'{layer.name}' starts from the record, so what stands before it would be lost"
            raise ConfigError(what, where=f"{WHERE}.{place}", remedy="put it first")
        behind = [other.name for other in layers[place + 1 :] if other.memoise or other.name not in READ_UPLOADS_ALONE]
        if behind and layer.spend() is not None:
            what = f"'{behind[0]}' may read the record again, so '{layer.name}' before it could claim no privacy"
            raise ConfigError(what, where=WHERE, remedy=f"put '{layer.name}' last")


def _check_built_for(before: Sequence[Defense], layer: Defense, reshaped: bool) -> None:
    """Refuse a layer that lengthens the bottom model behind one that was built for the shorter one."""
    for other in before:
        learns = isinstance(other, LearnedDefense) and other.learners
        # The bits that Keystone promises are those of its own last layer.
        if _runs_bottom(other) or (reshaped and (learns or isinstance(other, Keystone))):
            what = f"'{layer.name}' lengthens the bottom model, and '{other.name}' was built for the shorter one"
            alone = _starts_anew(other) or isinstance(other, Keystone)
            remedy = "leave one of them out" if alone else f"put '{layer.name}' before '{other.name}'"
            raise ConfigError(what, where=WHERE, remedy=remedy)


def _starts_anew(layer: Defense) -> bool:
    """Return whether its upload is made of records, whatever the representation is."""
    return isinstance(layer, CausShield | InvLDNP) and not isinstance(layer, InvLENP)


def _runs_bottom(layer: Defense) -> bool:
    """Return whether it sends records through the bottom model itself, as it knows it."""
    causal = isinstance(layer, Bottleneck) and layer.causal > 0
    return causal or isinstance(layer, CausShield | InvLDNP | Soteria)


def _one_after_the_other(operators: Sequence[Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor]:
    fresh = True

    def operate(h: Tensor) -> Tensor:
        nonlocal fresh
        for place, operator in enumerate(operators):
            # Operators' streams begin alike. Each drops as many draws as stand before it: otherwise two layers would
            # add the same noise twice.
            for _ in range(place if fresh else 0):
                operator(h.detach())
            h = operator(h)
        fresh = False
        return h

    return operate
