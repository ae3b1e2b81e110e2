"""If these fail, what a person knows is lost, or a contradiction is found only after hours of training."""

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from colonnade.discover.knowledge import Knowledge, combine, own_only
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


def test_a_party_may_speak_of_its_own_edges():
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
