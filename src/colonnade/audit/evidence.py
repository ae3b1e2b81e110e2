"""Everything that could be granted to an attack on one party, made from the audited model itself."""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.attack.evidence import Evidence, Knowledge, Operator
from colonnade.audit.held_out import HeldOut
from colonnade.data.records import Records
from colonnade.defend import make_defense
from colonnade.defend.base import Defense
from colonnade.learn.model import VerticalModel
from colonnade.learn.part import BottomPart, Part
from colonnade.nets import build_bottom, mixed_seed
from colonnade.nets.veil import Veil

_NOISE, _OPERATOR = 1, 2
"""Tell the streams of one seed apart: an attack that drew from the stream of the uploads' noise could cancel it."""


def working_copy(model: VerticalModel, parties: Iterable[str]) -> VerticalModel:
    """Return the model with copies of these parties' bottoms: what an audit does to them stays without effect.

    They are copied as they would be saved, so that an audit finds the same before and after.
    """
    copies: dict[str, Part] = {}
    with TemporaryDirectory() as folder:
        for party in parties:
            part, place = model.parts[party], Path(folder) / str(len(copies))
            part.save(place)
            copies[party] = Part.load(place, device_of(part))
    return VerticalModel(model.agreement, {**model.parts, **copies}, model.federation)


def evidence_on(
    party: str, bottom: BottomPart, auxiliary: HeldOut, targets: HeldOut, *, seed: int, repeats: int | None = None
) -> Evidence:
    """Return all there is to know about one party's targets; an attack is granted what its knowledge names of it.

    Args:
        party: the victim.
        bottom: its trained bottom model, with its defense, whose noise is drawn anew from `seed`.
        auxiliary: the people whose records the attacker knows.
        targets: the people whose records it wants.
        seed: of the defense's noise, so that all attacks see the same uploads.
        repeats: upload every record so often; None gives uploads without that axis.
    """
    draw_noise_on(targets.records[party], party, bottom, seed)
    held: dict[str, Any] = {
        Knowledge.AUXILIARY_UPLOADS: uploads_of(bottom, auxiliary.records[party], repeats),
        Knowledge.UPLOADS: uploads_of(bottom, targets.records[party], repeats),
        Knowledge.WEIGHTS: copy.deepcopy(bottom.network).cpu().eval(),
    }
    if targets.labels is not None:
        held[Knowledge.LABELS] = targets.labels
    before = before_training(party, bottom, auxiliary, seed=seed)
    return replace(before, held={**before.held, **held})


def before_training(party: str, bottom: BottomPart, auxiliary: HeldOut, *, seed: int) -> Evidence:
    """Return what can be known before the victim has uploaded anything: no upload, no weight."""
    known = prepared(bottom, auxiliary.records[party])
    held: dict[str, Any] = {
        Knowledge.ARCHITECTURE: BottomFactory(bottom, known),
        Knowledge.AUXILIARY_RECORDS: known,
    }
    if auxiliary.labels is not None:
        held[Knowledge.AUXILIARY_LABELS] = auxiliary.labels
    bottom.defense.seed(operator_seed(party, seed), next(bottom.network.parameters()).device)
    imitation = Imitation(bottom, known, operator_seed(party, seed)) if bottom.defense.imitated_by_bottom else None
    operator = bottom.defense.operator()
    if operator is not None:
        held[Knowledge.DEFENSE_OPERATOR] = operator
    disguise = bottom.defense.imitated_disguise(known)
    return Evidence(tuple(bottom.recipe["input_shape"]), held, disguise=disguise, imitation=imitation)


def prepared(bottom: BottomPart, records: Records) -> Tensor:
    """Return records as the bottom model reads them."""
    return bottom.features(records)


@dataclass(frozen=True)
class BottomFactory:
    """Makes an untrained bottom like a victim's from a seed: the network and the defense's own layers.

    Attributes:
        bottom: the victim's.
        known: prepared records that a veil is fitted on; None leaves it open.
    """

    bottom: BottomPart
    known: Tensor | None = None

    def __call__(self, seed: int) -> nn.Module:
        """Build one."""
        recipe = self.bottom.recipe
        twin = twin_of(self.bottom.defense.describe(), seed)
        twin.meet(self.bottom.preparation)
        network = twin.extend(build_bottom(**recipe, seed=seed), tuple(recipe["input_shape"]))
        return veiled(network, self.known)

    def without_records(self) -> BottomFactory:
        """Return the factory for who knows how the victim is built, and no record of the kind."""
        return replace(self, known=None)


@dataclass(frozen=True)
class Imitation:
    """Makes, for a bottom of an attacker's own, a defense like the victim's, with draws and surrogates of its own.

    Attributes:
        bottom: the victim's; only what everybody is told of it is looked at.
        known: prepared records that surrogates are made of; None where the attacker has none.
        seed: of the draws.
    """

    bottom: BottomPart
    known: Tensor | None
    seed: int

    def __call__(self, shadow: nn.Module) -> Operator:
        """Build one; what `shadow` learns later counts."""
        device = next(shadow.parameters()).device
        twin = twin_of(self.bottom.defense.describe(), self.seed)
        twin.seed(self.seed, device)
        twin.meet(self.bottom.preparation)
        return twin.behind(shadow, None if self.known is None else self.known.to(device))

    def without_records(self) -> Imitation | None:
        """Return the same for who has no records; None where there can't be one without."""
        return None if self.bottom.defense.imitated_by_records else replace(self, known=None)


def veiled(network: nn.Module, known: Tensor | None) -> nn.Module:
    """Fit the veils of an untrained bottom on prepared records `known`, where there are enough of them; return it.

    Nobody is told what a party's veil takes away, but whoever knows other records of the kind can find about the same.
    """
    for veil in (part for part in network.modules() if isinstance(part, Veil)):
        if known is not None and len(known) > veil.directions.shape[1]:
            veil.fit(known)
    return network


def twin_of(described: Mapping[str, Any], seed: int) -> Defense:
    """Return a defense of the same kind, but not the victim's: its random stream and its secrets are its own."""
    strength = dict(described)
    twin = make_defense(strength.pop("name"), **strength)
    twin.seed(seed)
    return twin


def uploads_of(bottom: BottomPart, records: Records, repeats: int | None = None) -> Tensor:
    """Return what leaves the party for `records`; with `repeats`, so often, as (records, repeats, ...)."""
    if repeats is None:
        return bottom.upload(records).float().cpu()
    return torch.stack([upload.float().cpu() for upload in islice(bottom.uploads(records), repeats)], dim=1)


def draw_noise_on(records: Records, party: str, bottom: BottomPart, seed: int) -> None:
    """Let the defense draw noise for uploads that an attacker gets, and can't draw again, of these records.

    Seed and names are no secrets, and a challenge is given away: who drew its noise once more would take it off. The
    wanted records are what the attacker does not have, and an audit has each time. All bits of their digest count: so
    many as a seed usually has could be tried out.
    """
    content = prepared(bottom, records).cpu().contiguous().numpy().tobytes()
    own = hashlib.sha256(f"{seed}/{party}/".encode() + content).digest()
    bottom.defense.seed(int.from_bytes(own), next(bottom.network.parameters()).device)


def draw_noise_from(party: str, bottom: BottomPart, seed: int, stream: int = _NOISE) -> None:
    """Let the defense draw from `seed`, so that an audit can be repeated.

    Every party draws its own noise: whoever sees the same noise on two parties' uploads takes it off by subtraction.
    """
    bottom.defense.seed(_party_seed(party, seed, stream), next(bottom.network.parameters()).device)


def operator_seed(party: str, seed: int) -> int:
    """Return what an attacker's imitation of a party's defense draws from: no secret, and another for each party."""
    return _party_seed(party, seed, _OPERATOR)


def _party_seed(party: str, seed: int, stream: int) -> int:
    return mixed_seed(seed, stream, zlib.crc32(party.encode())) >> 1


def device_of(part: Part) -> torch.device:
    """Return where the networks of a party are."""
    held = part.bottom or part.top
    assert held is not None, "a part of a model has a network"
    return next(held.network.parameters()).device
