"""The two files that a person writes: `federation.yaml`, the same at every party, and the private `party.yaml`."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo

from colonnade.errors import ConfigError, nearest
from colonnade.federation.discovery import DiscoverySettings
from colonnade.federation.knowledge import Knowledge, VariableKind
from colonnade.federation.task import Settings, Task
from colonnade.federation.yaml_file import read_model

_PARTY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
RESERVED = "name"
"""No party's name: what is chosen for each party could not be told from one choice for all, which has this key."""
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>[0-9]{1,5})")
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?")
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be one line of printable text")
    return value


def _party_name(value: str) -> str:
    if not _PARTY_NAME.fullmatch(value):
        raise ValueError(
            f"'{value[:60]}' is no party name: use 1 to 40 of a-z, 0-9, '-' and '_', a letter or digit first"
        )
    return value


def _own_name(value: str) -> str:
    if value == RESERVED:
        raise ValueError(f"no party can be called '{RESERVED}': call it something else")
    return value


def _address(value: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if not found or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(f"'{value[:60]}' is no address: write host:port, such as clinic.example.org:7101")
    return value


def _fingerprint(value: str) -> str:
    if not _FINGERPRINT.fullmatch(value.lower()):
        raise ValueError("is no fingerprint: write sha256: and 64 hexadecimal digits, as 'colonnade keys' prints them")
    return value.lower()


def _device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        raise ValueError(f"'{value[:60]}' is no device: write auto, cpu, cuda or cuda:0")
    return value


def _resolved(value: Path, info: ValidationInfo) -> Path:
    """Paths in a file are meant from the file's own folder, wherever the command is started."""
    folder = (info.context or {}).get("folder", Path())
    return Path(folder) / value.expanduser()


Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
PartyName = Annotated[str, AfterValidator(_party_name), AfterValidator(_own_name)]
Address = Annotated[str, AfterValidator(_address)]
Device = Annotated[str, AfterValidator(_device)]
Fingerprint = Annotated[str, AfterValidator(_fingerprint)]
LocalPath = Annotated[Path, AfterValidator(_resolved)]


class PartyEntry(Settings):
    """How a party is reached and recognised.

    Attributes:
        address: host:port.
        fingerprint: of its certificate; None trusts any certificate that the CA gave to that name.
    """

    address: Address
    fingerprint: Fingerprint | None = None


class CoordinatorEntry(PartyEntry):
    """Who looks at the graph in a discovery, and how it is reached and recognised."""

    name: PartyName


class FederationFile(Settings):
    """`federation.yaml`: who takes part in what; the same at every party.

    Attributes:
        name: what the federation is called.
        parties: all parties, in the order in which their uploads are joined.
        active: the party that holds the label; None where nothing is trained.
        label: the label's column at the active party.
        task: what is learned.
        coordinator: the topology validator of a discovery; no party, it holds no data.
        discovery: how a causal graph is found.
        knowledge: what everybody may know about that graph beforehand.
        seed: of everything random that the parties share.
        heartbeat: seconds after which a silent party counts as lost.
    """

    name: Text
    parties: dict[PartyName, PartyEntry] = Field(min_length=2)
    active: PartyName | None = None
    label: Text | None = None
    task: Task = Task()
    coordinator: CoordinatorEntry | None = None
    discovery: DiscoverySettings = DiscoverySettings()
    knowledge: Knowledge = Knowledge()
    seed: int = Field(default=0, ge=0, lt=2**63, strict=True)
    heartbeat: float = Field(default=5.0, gt=0, le=3600)

    @property
    def passive(self) -> tuple[str, ...]:
        """The parties that hold no label, in order."""
        return tuple(party for party in self.parties if party != self.active)

    @property
    def everybody(self) -> dict[str, PartyEntry]:
        """All parties, then the coordinator if one is named."""
        return self.parties | ({self.coordinator.name: self.coordinator} if self.coordinator else {})

    @property
    def discovers(self) -> bool:
        """Whether the file is about discovery, as far as it says: training alone needs none of its parts."""
        said = self.coordinator is not None or self.discovery != DiscoverySettings() or self.knowledge != Knowledge()
        return said or self.label is None


class DataSettings(Settings):
    """Where a party's records are.

    Attributes:
        path: CSV, Parquet or, for images, the file or folder that holds them.
        id_column: the column with the ids that align records.
        columns: the columns to take part with; None takes all but id and label, an empty list none.
        kind: what the records are.
    """

    path: LocalPath
    id_column: Text | None = None
    columns: tuple[Text, ...] | None = None
    kind: Literal["table", "images"] = "table"


class DefenseSettings(Settings):
    """A defense by name; all other keys are its strength."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Text = "none"

    @property
    def strength(self) -> dict[str, Any]:
        """What the defense is made with."""
        return dict(self.model_extra or {})

    @property
    def names(self) -> list[str]:
        """By which names a federation may ask for it: its own, and those of its layers."""
        layers = self.strength.get("layers") if self.name == "layered" else None
        listed = layers if isinstance(layers, list) else []
        return [self.name, *(str(layer.get("name") if isinstance(layer, dict) else layer) for layer in listed)]


class CredentialSettings(Settings):
    """The PEM files that prove who this party is."""

    ca: LocalPath
    certificate: LocalPath
    key: LocalPath


class PartyFile(Settings):
    """`party.yaml`: what one party keeps to itself.

    Attributes:
        party: who I am: a party, or the coordinator.
        data: where my records are; the coordinator has none.
        sensitive: columns whose values the others must not learn; no features, unless `data.columns` lists them.
        kinds: in a discovery, of columns whose kind is not to be guessed.
        knowledge: what I know about edges from or to my own columns; in a discovery only the coordinator is told.
        defense: how my uploads are protected.
        device: where my networks live.
        runs: the folder of my runs.
        credentials: my keys; needed as soon as parties talk over a network.
        listen: the address to listen on, where it is not the one in the federation file.
        share_labels: at the active party: let all parties see labels where the task asks for it.
        missing_party: when predicting without some party: `refuse`, or `impute` its upload and say so.
    """

    party: PartyName
    data: DataSettings | None = None
    sensitive: tuple[Text, ...] = ()
    kinds: dict[Text, VariableKind] = Field(default={})
    knowledge: Knowledge = Knowledge()
    defense: DefenseSettings = DefenseSettings()
    device: Device = "auto"
    runs: LocalPath = Field(default=Path("runs"), validate_default=True)
    credentials: CredentialSettings | None = None
    listen: Address | None = None
    share_labels: bool = False
    missing_party: Literal["refuse", "impute"] = "refuse"

    @property
    def source(self) -> DataSettings:
        """Where my records are; an error where the file does not say."""
        if self.data is None:
            raise ConfigError("is missing", where=f"{self.party}: data", remedy="write where your records are")
        return self.data


def read_federation(path: Path | str) -> FederationFile:
    """Read `federation.yaml`; raise one `ProblemsError` with every problem in it."""
    return read_model(path, FederationFile, _federation_relations)


def read_party(path: Path | str) -> PartyFile:
    """Read `party.yaml`; raise one `ProblemsError` with every problem in it."""
    return read_model(path, PartyFile, _party_relations)


def federation_digest(federation: FederationFile) -> str:
    """Return the same text for files that mean the same, else another; a run compares what it needs of them itself."""
    content = federation.model_dump(mode="json") | {"order": list(federation.parties)}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _federation_relations(raw: dict[str, Any]) -> list[tuple[str, str, str]]:
    parties, active, coordinator = raw.get("parties"), raw.get("active"), raw.get("coordinator")
    if not isinstance(parties, dict):
        return []
    wrong = []
    if isinstance(active, str) and active not in parties:
        wrong.append(("active", f"'{active}' is no party of this federation", nearest(active, map(str, parties))))
    for given, missing in (("active", "label"), ("label", "active")):
        if raw.get(given) is not None and raw.get(missing) is None:
            wrong.append((missing, "is missing", f"'{given}' is there: write both, or none for discovery alone"))
    entries = list(parties.values())
    if isinstance(coordinator, dict):
        entries.append(coordinator)
        name = coordinator.get("name")
        if isinstance(name, str) and name in parties:
            wrong.append(("coordinator.name", f"'{name}' is a party", "name somebody who holds no data"))
    return wrong + _repeated(entries)


def _repeated(entries: list[Any]) -> list[tuple[str, str, str]]:
    wrong = []
    for key in ("address", "fingerprint"):
        values = [entry.get(key) for entry in entries if isinstance(entry, dict)]
        for value, times in Counter(str(value) for value in values if value is not None).items():
            if times > 1:
                wrong.append(
                    ("parties", f"{times} parties have the same {key} {value}", f"give each party its own {key}")
                )
    return wrong


def _party_relations(raw: dict[str, Any]) -> list[tuple[str, str, str]]:
    data = raw.get("data")
    if isinstance(data, dict) and data.get("kind", "table") == "table" and data.get("id_column") is None:
        return [("data.id_column", "is missing", "name the column with the ids that align your records")]
    return []
