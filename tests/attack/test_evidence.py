"""An attack has exactly what its knowledge names."""

import pytest
import torch

from colonnade.attack import ATTACKS, Attack, Evidence, Knowledge, make_attack, run_attack
from colonnade.errors import ConfigError


class Greedy(Attack):
    """Declares uploads only, and reaches for the auxiliary records."""

    name = "greedy"

    def fit(self, evidence):
        evidence.auxiliary_records  # noqa: B018


class Blind(Attack):
    """Guesses zero."""

    name = "blind"
    knowledge = frozenset({Knowledge.UPLOADS, Knowledge.LABELS, Knowledge.GRADIENTS_CONTROL})

    def reconstruct(self, uploads):
        return torch.zeros(len(uploads), 4)


@pytest.fixture
def evidence():
    return Evidence(
        (4,), {"uploads": torch.zeros(2, 3), "auxiliary_records": torch.ones(5, 4), "labels": torch.zeros(2)}
    )


def test_reaching_for_what_was_not_granted_names_the_knowledge(evidence):
    """A table would call an attack weak or strong that had another knowledge than printed."""
    with pytest.raises(ConfigError, match="knowledge 'auxiliary_records' was not granted"):
        run_attack(Greedy(), evidence)


def test_an_attack_is_told_what_the_evidence_lacks(evidence):
    with pytest.raises(ConfigError, match="attack 'decoder': it needs auxiliary_uploads, which is not there"):
        run_attack(make_attack("decoder"), evidence)


def test_an_attack_with_its_knowledge_runs(evidence):
    """Control over gradients is a permission and needs no thing."""
    assert run_attack(Blind(), evidence).shape == (2, 4)
    assert evidence.only(Blind.knowledge, where="here").held.keys() == {"uploads", "labels"}


def test_every_thing_has_its_attribute():
    attributes = {"architecture": "bottom_factory", "weights": "bottom"}
    for name in set(Knowledge) - {Knowledge.GRADIENTS_CONTROL}:
        thing = object()
        assert getattr(Evidence((1,), {name: thing}), attributes.get(name, name)) is thing


def test_evidence_cannot_be_changed_or_hold_unknown_things(evidence):
    with pytest.raises(AttributeError):
        evidence.uploads = torch.ones(1)
    with pytest.raises(ConfigError, match=r"unknown knowledge 'upload'.*did you mean 'uploads'"):
        Evidence((4,), {"upload": torch.zeros(1)})


def test_registered_attacks_are_named_and_described():
    assert "decoder" in ATTACKS
    for name in ATTACKS:
        entry = ATTACKS[name]
        assert issubclass(entry, Attack) and entry.name == name
        assert entry.strength in ("published", "adaptive", "oracle")
        assert (entry.__doc__ or "").strip()
    described = make_attack("decoder", epochs=3).describe()
    assert described["strength"] == "oracle" and described["epochs"] == 3
    assert all(type(thing) is str for thing in described["knowledge"])  # so that YAML can write it
    assert described["knowledge"] == ["auxiliary_records", "auxiliary_uploads", "uploads"]
