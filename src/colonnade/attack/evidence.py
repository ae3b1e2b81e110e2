"""What an attack is allowed to have, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from colonnade.errors import ConfigError, nearest

T = TypeVar("T")
Operator = Callable[[Tensor, Tensor], Tensor]
"""Records and their representation to uploads."""


class Knowledge(StrEnum):
    """The names of the things that an attack may be granted."""

    UPLOADS = "uploads"
    """What the victim uploaded; a curious active party always has these."""
    LABELS = "labels"
    """The labels of the uploaded records."""
    ARCHITECTURE = "architecture"
    """How the victim's bottom model is built, without its weights."""
    WEIGHTS = "weights"
    """The victim's trained bottom model."""
    AUXILIARY_RECORDS = "auxiliary_records"
    """Records like the victim's, none of them the victim's."""
    AUXILIARY_LABELS = "auxiliary_labels"
    """The labels of the auxiliary records."""
    AUXILIARY_UPLOADS = "auxiliary_uploads"
    """What the victim's bottom and defense make of the auxiliary records: only an oracle has these."""
    GRADIENTS_CONTROL = "gradients_control"
    """The attack may choose the gradients that the victim gets: only a malicious active party does."""
    DEFENSE_OPERATOR = "defense_operator"
    """The public operator of the victim's defense, representation to upload: what an adaptive attack has."""


# Control over gradients is a permission, not a thing that can be held.
_THINGS = frozenset(Knowledge) - {Knowledge.GRADIENTS_CONTROL}


class _Thing(Generic[T]):
    """One thing that may be held; reading it where it was not granted is an error that names it."""

    def __init__(self, name: Knowledge) -> None:
        self._name = name

    def __get__(self, evidence: Evidence, owner: type[Evidence]) -> T:
        if self._name not in evidence.held:
            remedy = f"name '{self._name}' in the attack's knowledge"
            raise ConfigError(f"knowledge '{self._name}' was not granted", where="evidence", remedy=remedy)
        thing: T = evidence.held[self._name]
        return thing


@dataclass(frozen=True)
class Evidence:
    """The things an attack was granted; each is an attribute, and asking for one that was not granted is an error.

    `bottom_factory` (knowledge `architecture`) makes an untrained bottom like the victim's from a seed;
    `bottom` (knowledge `weights`) is the victim's own; the other attributes are named like their knowledge.

    Attributes:
        input_shape: shape of one record of the victim, which every attack must know to guess one.
        held: what there is, under the names of `Knowledge`.
        moved: whether the victim moves its pictures a little each time it trains on them, as `task.augment` tells all.
        disguise: what the victim's defense does to records before its network sees them, with draws of the attacker's
            own; None where that is nothing, or where `defense_operator` is not granted.
        imitation: what makes, of a bottom of the attacker's own, the operator of a defense that a representation alone
            is too little for; None where `defense_operator` is there, or is not granted. See `operator_behind`.

    >>> import torch
    >>> evidence = Evidence((4,), {"uploads": torch.zeros(2, 3)})
    >>> evidence.uploads.shape
    torch.Size([2, 3])
    """

    input_shape: tuple[int, ...]
    held: Mapping[str, Any]
    moved: bool = False
    disguise: Callable[[Tensor], Tensor] | None = None
    imitation: Callable[[nn.Module], Operator] | None = None

    uploads: ClassVar[_Thing[Tensor]] = _Thing(Knowledge.UPLOADS)
    labels: ClassVar[_Thing[Tensor]] = _Thing(Knowledge.LABELS)
    bottom_factory: ClassVar[_Thing[Callable[[int], nn.Module]]] = _Thing(Knowledge.ARCHITECTURE)
    bottom: ClassVar[_Thing[nn.Module]] = _Thing(Knowledge.WEIGHTS)
    auxiliary_records: ClassVar[_Thing[Tensor]] = _Thing(Knowledge.AUXILIARY_RECORDS)
    auxiliary_labels: ClassVar[_Thing[Tensor]] = _Thing(Knowledge.AUXILIARY_LABELS)
    auxiliary_uploads: ClassVar[_Thing[Tensor]] = _Thing(Knowledge.AUXILIARY_UPLOADS)
    defense_operator: ClassVar[_Thing[Callable[[Tensor], Tensor]]] = _Thing(Knowledge.DEFENSE_OPERATOR)

    def __post_init__(self) -> None:
        for name in self.held:
            if name not in _THINGS:
                raise ConfigError(f"unknown knowledge '{name}'", where="evidence", remedy=nearest(name, _THINGS))

    def only(self, knowledge: Iterable[Knowledge], *, where: str) -> Evidence:
        """Return the part of the evidence that `knowledge` names; `where` is the attack that asks."""
        wanted = [name for name in knowledge if name in _THINGS]
        imitation = self._imitation_for(wanted)
        instead = set() if imitation is None else {Knowledge.DEFENSE_OPERATOR}
        missing = sorted(name for name in wanted if name not in {*self.held, *instead})
        if missing:
            remedy = "bring it along, or choose an attack that needs less"
            if missing == [Knowledge.DEFENSE_OPERATOR]:
                remedy = "bring it along; where a defense keeps secrets or wants records, leave 'adaptive' out"
            raise ConfigError(f"it needs {', '.join(missing)}, which is not there", where=where, remedy=remedy)
        held: dict[str, Any] = {name: self.held[name] for name in wanted if name in self.held}
        if Knowledge.ARCHITECTURE in held and Knowledge.AUXILIARY_RECORDS not in held:
            # A veil that was fitted on records would tell of them.
            factory = held[Knowledge.ARCHITECTURE]
            held[Knowledge.ARCHITECTURE] = getattr(factory, "without_records", lambda: factory)()
        disguise = self.disguise if Knowledge.DEFENSE_OPERATOR in wanted else None
        return Evidence(self.input_shape, held, self.moved, disguise, imitation)

    def operator_behind(self, shadow: nn.Module) -> Operator:
        """Return what the victim's defense would make of records and of what `shadow` makes of them."""
        if self.imitation is not None:
            return self.imitation(shadow)
        operator = self.defense_operator
        return lambda records, representation: operator(representation)

    def _imitation_for(self, wanted: Iterable[Knowledge]) -> Callable[[nn.Module], Operator] | None:
        if self.imitation is None or Knowledge.DEFENSE_OPERATOR not in wanted:
            return None
        if Knowledge.AUXILIARY_RECORDS in wanted:
            return self.imitation
        # Surrogates that were made of records would tell of them.
        without: Callable[[], Callable[[nn.Module], Operator] | None] = getattr(
            self.imitation, "without_records", lambda: self.imitation
        )
        return without()
