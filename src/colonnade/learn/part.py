"""What one party keeps of a trained model, and how it lies on disk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.data.preparation import FeaturePreparation, LabelPreparation, preparation_from_dict
from colonnade.data.records import Records
from colonnade.defend import make_defense
from colonnade.defend.base import Defense
from colonnade.errors import DataError, RunError
from colonnade.learn.checkpoint import named, read_tensors, under, write_tensors
from colonnade.nets import build_bottom, build_top
from colonnade.nets.device import on_device, require_device
from colonnade.run import write_atomically

ANSWER_BATCH = 1024


@contextmanager
def naming(party: str) -> Iterator[None]:
    """Let what is wrong with records name whose they are."""
    try:
        yield
    except DataError as error:
        raise DataError(error.what, where=party, remedy=error.remedy) from error


@dataclass(frozen=True)
class BottomPart:
    """A trained bottom model with everything that stands before and behind it.

    Attributes:
        network: the bottom network.
        preparation: turns the party's records into numbers, as fitted on its training records.
        defense: turns representations into uploads.
        recipe: how the network is built.
        party: whose it is.
    """

    network: nn.Module
    preparation: FeaturePreparation
    defense: Defense
    recipe: dict[str, Any]
    party: str

    def features(self, records: Records) -> Tensor:
        """Return `records` as the network reads them."""
        with naming(self.party):
            return torch.from_numpy(self.preparation.transform(records))

    def upload(self, records: Records) -> Tensor:
        """Return the uploads for `records`, as they would leave the party."""
        return next(self.uploads(records))

    def uploads(self, records: Records) -> Iterator[Tensor]:
        """Yield the uploads for `records` as often as they are asked for; columns are prepared once."""
        features = self.features(records).to(next(self.network.parameters()).device)
        self.network.eval()
        while True:
            with torch.no_grad():
                uploaded = torch.cat([self._upload(x) for x in torch.split(features, ANSWER_BATCH)])
            yield uploaded

    def _upload(self, x: Tensor) -> Tensor:
        x = self.defense.disguise(x)
        return self.defense.protect(x, self.network(x), train=False)


@dataclass(frozen=True)
class TopPart:
    """A trained top model, its labels, and the mean upload of each party that it joins, in order."""

    network: nn.Module
    label: LabelPreparation
    means: dict[str, Tensor]
    recipe: dict[str, Any]
    label_name: str = "label"


@dataclass(frozen=True)
class Part:
    """One party's part: a bottom model, the top model, or both; `result` at the active party.

    Parts of one `model` bear the same name of it; those that an older version made bear none.
    """

    party: str
    bottom: BottomPart | None = None
    top: TopPart | None = None
    result: dict[str, Any] = field(default_factory=dict)
    model: str | None = None

    def save(self, folder: Path) -> None:
        """Write `part.json` and `part.safetensors`; no pickle."""
        folder.mkdir(parents=True, exist_ok=True)
        described: dict[str, Any] = {"party": self.party, "model": self.model, "result": self.result}
        tensors: dict[str, Tensor] = {}
        if self.bottom:
            described["bottom"] = {
                "recipe": self.bottom.recipe,
                "preparation": self.bottom.preparation.to_dict(),
                "defense": self.bottom.defense.describe(),
            }
            tensors |= named("bottom", self.bottom.network.state_dict())
            tensors |= named("defense", self.bottom.defense.state_dict())
        if self.top:
            described["top"] = {
                "recipe": self.top.recipe,
                "label": self.top.label.to_dict(),
                "label_name": self.top.label_name,
                "uploads": list(self.top.means),
            }
            tensors |= named("top", self.top.network.state_dict())
            tensors |= named("mean", self.top.means)
        write_tensors(folder / "part.safetensors", tensors, {"party": self.party})
        write_atomically(folder / "part.json", json.dumps(described, indent=1).encode())

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Part:
        """Read what `save` wrote."""
        require_device(device)
        try:
            described = json.loads((folder / "part.json").read_text())
            tensors = read_tensors(folder / "part.safetensors")[0]
            return cls(
                described["party"],
                _load_bottom(described, tensors, device) if "bottom" in described else None,
                _load_top(described["top"], tensors, device) if "top" in described else None,
                described["result"],
                described.get("model"),
            )
        except FileNotFoundError as error:
            raise RunError(
                "no saved part of a model", where=str(folder), remedy="give the folder of a saved model"
            ) from error
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise RunError(f"part of a model is damaged: {error}", where=str(folder), remedy="save it anew") from error


def require_same_model(model: str | None, other: str | None, party: str) -> None:
    """Refuse `party`'s part of another model: together they would give answers, and none worth anything.

    Args:
        model: that a part of is held here.
        other: that `party` holds a part of.
        party: whose part it is.
    """
    if model and other and model != other:
        remedy = "give the parts of one and the same training at all parties, over the network with --run NAME"
        raise RunError("holds a part of another model", where=party, remedy=remedy)


def of_one_model(parts: dict[str, Part], active: str) -> dict[str, Part]:
    """Return `parts`; refuse one that is of another model than the active party's."""
    for party, part in parts.items():
        require_same_model(parts[active].model, part.model, party)
    return parts


def _load_bottom(part: dict[str, Any], tensors: dict[str, Tensor], device: torch.device | str) -> BottomPart:
    described = part["bottom"]
    recipe, preparation = described["recipe"], preparation_from_dict(described["preparation"])
    if isinstance(preparation, LabelPreparation):
        raise ValueError("a bottom model needs a preparation of features")
    chosen = dict(described["defense"])
    defense = make_defense(chosen.pop("name"), **chosen)
    defense.seed(0, device)
    defense.meet(preparation)
    network = defense.extend(build_bottom(**recipe, seed=0), tuple(recipe["input_shape"]))
    network.load_state_dict(under("bottom", tensors))
    defense.load_state_dict(under("defense", tensors))
    # Fresh noise for every process: the noise of the one before would cancel in the difference of two uploads.
    defense.seed(secrets.randbits(256), device)
    return BottomPart(on_device(network, device), preparation, defense, recipe, part["party"])


def _load_top(described: dict[str, Any], tensors: dict[str, Tensor], device: torch.device | str) -> TopPart:
    recipe = described["recipe"]
    network = build_top(**recipe, seed=0)
    network.load_state_dict(under("top", tensors))
    label = LabelPreparation.from_dict(described["label"])
    means = under("mean", tensors)
    return TopPart(
        on_device(network, device),
        label,
        {party: means[party].to(device) for party in described["uploads"]},
        recipe,
        described["label_name"],
    )
