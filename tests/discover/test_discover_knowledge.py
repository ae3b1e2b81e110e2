"""If these fail, what a person knows is lost, or a contradiction is found only after hours of training."""

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from colonnade.discover.knowledge import Knowledge, check_public, check_together, combine, combine_private, own_only
from colonnade.errors import ConfigError

NAMES = ["age", "bmi", "glucose", "outcome"]


def edges(mask):
    return {(NAMES[i], NAMES[j]) for i, j in np.argwhere(mask) if i != j}


def test_knowledge_is_read_from_yaml():
    text = """
    required: [[age, bmi]]
    forbidden: [[outcome, age]]
    tiers: [[age], [bmi, glucose]]
    roots: [age]
    sinks: [outcome]
    """
    knowledge = Knowledge.model_validate(yaml.safe_load(text))
    assert knowledge.required == (("age", "bmi"),) and knowledge.tiers == (("age",), ("bmi", "glucose"))
    with pytest.raises(ValidationError):
        Knowledge.model_validate({"root": ["age"]})


def test_without_knowledge_only_self_loops_are_ruled_out():
    found = combine([], NAMES)
    np.testing.assert_array_equal(found.forbidden, np.eye(4, dtype=bool))
    assert not found.required.any()


def test_every_statement_becomes_its_edges():
    assert edges(combine([Knowledge(forbidden=[("bmi", "age")])], NAMES).forbidden) == {("bmi", "age")}
    tiers = combine([Knowledge(tiers=[["age"], ["bmi", "glucose"], ["outcome"]])], NAMES).forbidden
    assert edges(tiers) == {
        ("bmi", "age"),
        ("glucose", "age"),
        ("outcome", "age"),
        ("outcome", "bmi"),
        ("outcome", "glucose"),
    }
    assert edges(combine([Knowledge(roots=["age"])], NAMES).forbidden) == {(name, "age") for name in NAMES[1:]}
    assert edges(combine([Knowledge(sinks=["age"])], NAMES).forbidden) == {("age", name) for name in NAMES[1:]}


def test_variables_in_no_tier_are_free():
    found = edges(combine([Knowledge(tiers=[["age"], ["outcome"]])], NAMES).forbidden)
    assert found == {("outcome", "age")}


def test_parties_knowledge_adds_up():
    found = combine([Knowledge(required=[("age", "bmi")]), Knowledge(required=[("bmi", "glucose")])], NAMES)
    assert edges(found.required) == {("age", "bmi"), ("bmi", "glucose")}
    assert edges(found.forbidden) == {("bmi", "age"), ("glucose", "bmi"), ("glucose", "age")}, "would close a cycle"


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ([Knowledge(required=[("age", "bmi"), ("bmi", "glucose"), ("glucose", "age")])], "age → bmi → glucose → age"),
        ([Knowledge(required=[("age", "age")])], "age → age"),
        ([Knowledge(required=[("age", "bmi")]), Knowledge(required=[("bmi", "age")])], "age → bmi → age"),
        ([Knowledge(required=[("age", "bmi"), ("bmi", "outcome"), ("outcome", "bmi")])], "bmi → outcome → bmi"),
        ([Knowledge(required=[("age", "bmi")], forbidden=[("age", "bmi")])], "age → bmi is required and also"),
        ([Knowledge(required=[("age", "bmi")]), Knowledge(roots=["bmi"])], "age → bmi is required and also"),
        ([Knowledge(required=[("bmi", "age")], tiers=[["age"], ["bmi"]])], "bmi → age is required and also"),
        ([Knowledge(roots=["agee"])], "did you mean 'age'"),
        ([Knowledge(tiers=[["age"], ["bmi", "age"]])], "'age' stands in two tiers"),
    ],
)
def test_contradictions_are_one_clear_error(stated, message):
    with pytest.raises(ConfigError) as caught:
        combine(stated, NAMES)
    assert message in str(caught.value) and "\n" not in str(caught.value)


PARTIES = {"clinic": ["age"], "lab": ["bmi"], "insurer": ["glucose"], "shop": ["outcome"]}
BYSTANDER = {"shop": Knowledge(sinks=["outcome"])}


@pytest.mark.parametrize(
    ("public", "private", "blamed"),
    [
        ({}, {"clinic": {"required": [("age", "bmi")]}, "lab": {"forbidden": [("age", "bmi")]}}, "clinic and lab"),
        ({"roots": ["bmi"]}, {"clinic": {"required": [("age", "bmi")]}, "lab": {"roots": ["bmi"]}}, "clinic"),
        (
            {"required": [("glucose", "age")]},
            {"clinic": {"required": [("age", "bmi")]}, "lab": {"required": [("bmi", "glucose")]}},
            "clinic and lab",
        ),
        (
            {},
            {
                "clinic": {"required": [("age", "bmi")]},
                "lab": {"required": [("bmi", "glucose")]},
                "insurer": {"required": [("glucose", "age")]},
            },
            "clinic and lab and insurer",
        ),
    ],
    ids=["each-other", "public", "through-public", "circle-of-three"],
)
def test_a_contradiction_names_those_who_are_needed_for_it_and_nobody_else(public, private, blamed):
    """Who has nothing to do with it would be blamed, and all would learn that it knows something."""
    stated = {party: Knowledge(**known) for party, known in private.items()} | BYSTANDER
    with pytest.raises(ConfigError) as caught:
        combine_private(Knowledge(**public), stated, PARTIES)
    assert caught.value.where == blamed
    assert ("they" in caught.value.what) == (" and " in blamed)
    assert not any(name in str(caught.value) for name in NAMES)
    with pytest.raises(ConfigError, match="→") as caught:
        check_together(Knowledge(**public), stated, PARTIES)
    assert caught.value.where == blamed


def test_in_one_process_a_mistake_names_the_file_it_stands_in():
    files = {"lab": "lab.yaml: knowledge"}
    for public, private, where in (
        (Knowledge(roots=["agee"]), {"lab": Knowledge()}, "federation.yaml: knowledge"),
        (Knowledge(), {"lab": Knowledge(forbidden=[("agee", "bmi")])}, "lab.yaml: knowledge"),
        (Knowledge(), {"clinic": Knowledge(forbidden=[("age", "bmii")])}, "clinic"),
    ):
        with pytest.raises(ConfigError, match="unknown variable") as caught:
            check_together(public, private, PARTIES, where="federation.yaml: knowledge", files=files)
        assert caught.value.where == where


def test_what_all_know_can_be_checked_without_anybodys_columns():
    check_public(Knowledge(), where="federation.yaml")
    check_public(Knowledge(roots=["age"], tiers=[["age"], ["bmi"]]), where="federation.yaml")
    with pytest.raises(ConfigError, match=r"federation\.yaml: required edges form the cycle age → bmi → age"):
        check_public(Knowledge(required=[("age", "bmi"), ("bmi", "age")]), where="federation.yaml")


def test_a_party_may_speak_of_its_own_edges():
    """Whatever touches one of its columns is its business: nothing of this is refused."""
    own_only(
        Knowledge(
            required=[("age", "bmi")],
            forbidden=[("outcome", "age")],
            tiers=[["age"], ["bmi", "outcome"]],
            roots=["age"],
            sinks=["glucose"],
        ),
        ["age", "glucose"],
        "clinic",
    )


@pytest.mark.parametrize(
    "stated",
    [
        Knowledge(required=[("bmi", "outcome")]),
        Knowledge(forbidden=[("bmi", "outcome")]),
        Knowledge(roots=["bmi"]),
        Knowledge(sinks=["bmi"]),
        Knowledge(tiers=[["bmi"], ["age"], ["outcome"]]),
    ],
)
def test_a_party_may_not_speak_of_edges_between_others(stated):
    with pytest.raises(ConfigError, match="own variables") as caught:
        own_only(stated, ["age", "glucose"], "clinic")
    assert caught.value.where == "clinic"
