"""If these fail, a run does not keep to what people know, or tells others what a party wanted to keep to itself."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from discovery_parts import chain

import colonnade as co
from colonnade.discover.agreement import COORDINATOR, DiscoveryAgreement
from colonnade.discover.coordinator import CoordinatorSeat
from colonnade.discover.discover import coordinate, take_part
from colonnade.discover.party import PartySeat
from colonnade.discover.variables import prepare_columns
from colonnade.errors import ConfigError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.wire.together import run_together

PARTIES = {"clinic": ["a", "b"], "lab": ["c", "d"], "shop": ["e"]}
EVERYTHING = {"evidence": 0.0, "least_strength": 0.0, "sparsity": 0.0, "growth": 0.0}
SHORT = {"epochs": 10, "refit_epochs": 2, "hidden": 2, "batch_size": 100}


def discover(knowledge, secure=False, parties=PARTIES, frame=None, **settings):
    federation = co.Federation.from_frame(chain() if frame is None else frame, parties)
    return co.discover(federation, secure, knowledge=knowledge, progress=False, **{**SHORT, **settings})


def edges(graph):
    return {(edge.cause, edge.effect) for edge in graph.edge_list()}


def test_without_knowledge_every_pair_has_an_edge():
    """What the tests below compare with: nothing is left out but by knowledge."""
    assert len(edges(discover(None, **EVERYTHING))) == 10


def test_required_edges_are_in_the_graph_however_weak():
    required = [("d", "a"), ("e", "c")]
    assert edges(discover({"required": required}, evidence=1e9)) == set(required)
    assert set(required) <= edges(discover({"required": required}, **EVERYTHING))


def test_forbidden_edges_are_not_in_the_graph():
    free = edges(discover(None, **EVERYTHING))
    found = discover({"forbidden": sorted(free)}, **EVERYTHING)
    assert edges(found) and not edges(found) & free
    assert all(found.strengths.loc[cause, effect] == 0 for cause, effect in free)


@pytest.mark.parametrize("order", ["abcde", "edcba"])
def test_tiers_order_the_graph(order):
    found = edges(discover({"tiers": [[name] for name in order]}, **EVERYTHING))
    assert found == {(cause, effect) for place, cause in enumerate(order) for effect in order[place + 1 :]}


def test_roots_have_no_causes_and_sinks_no_effects():
    graph = discover({"roots": ["d"], "sinks": ["a", "e"]}, **EVERYTHING)
    assert graph.parents("d") == () and edges(graph)
    assert not {cause for cause, _ in edges(graph)} & {"a", "e"}


def test_an_encrypted_run_keeps_to_it_too():
    known = {"required": [("c", "a")], "forbidden": [("c", "b")], "sinks": ["a"]}
    short = {"epochs": 2, "refit_epochs": 1, "validate_every": 1, "batch_size": 300}
    parties = {"clinic": ["a", "b"], "lab": ["c"]}
    assert edges(discover(known, True, parties, evidence=1e9, **short)) == {("c", "a")}
    graph = discover(known, True, parties, **EVERYTHING, **short)
    assert edges(graph) == {("c", "a"), ("b", "a"), ("b", "c")}


def test_a_required_edge_survives_when_it_is_worth_nothing_at_all():
    """`c` has nothing to do with `a` in these records. Its edge is known all the same."""
    frame = chain(60)
    frame["c"] = np.random.default_rng(5).normal(size=60)
    short = {"epochs": 1, "refit_epochs": 1, "validate_every": 1}
    known = {"required": [("a", "c")]}
    assert edges(discover(known, True, {"clinic": ["a"], "lab": ["c"]}, frame, evidence=1.0, **short)) == {("a", "c")}


def test_what_a_party_knows_holds_as_if_all_had_known_it():
    by_party = {"clinic": {"roots": ["b"]}, "shop": co.Knowledge(required=[("e", "d")], forbidden=[("a", "e")])}
    public = {"roots": ["b"], "required": [("e", "d")], "forbidden": [("a", "e")]}
    private, known = discover(by_party, **EVERYTHING), discover(public, **EVERYTHING)
    np.testing.assert_array_equal(private.strengths.to_numpy(), known.strengths.to_numpy())
    assert ("e", "d") in edges(private) and ("a", "e") not in edges(private) and private.parents("b") == ()


@pytest.mark.parametrize(
    ("knowledge", "where", "message"),
    [
        ({"required": [("a", "c"), ("c", "a")]}, "knowledge", "the cycle a → c → a"),
        ({"clinic": {"required": [("a", "c")]}, "lab": {"required": [("c", "a")]}}, "clinic and lab", "a → c → a"),
        ({"clinic": {"required": [("a", "c"), ("c", "a")]}}, "clinic", "a → c → a"),
        ({"lab": {"forbidden": [("aa", "c")]}}, "lab", "unknown variable 'aa'"),
        ({"required": [("a", "b")], "roots": ["b"]}, "knowledge", "a → b is required and also ruled out"),
        ({"required": [("a", "bb")]}, "knowledge", "unknown variable 'bb'"),
        ({"clinc": {"roots": ["a"]}}, "knowledge", "'clinc' is no party .*did you mean 'clinic'"),
        ({"root": ["a"]}, "knowledge", "'root' is no party .*did you mean 'roots'"),
        ({"lab": {"root": ["c"]}}, "lab", "unknown part 'root' .*did you mean 'roots'"),
        ({"lab": {"required": [("c", "d", "e")]}}, "lab", "required.*pairs"),
        ([("a", "b")], "knowledge", "pairs"),
        ({"lab": {"required": [("a", "b")]}}, "lab", "the required edge a → b is not about the party's own variables"),
        ({"lab": {"sinks": ["a"]}}, "lab", "the sink 'a' is not about"),
    ],
)
def test_knowledge_that_cannot_hold_is_one_clear_error_before_anything_is_learned(knowledge, where, message):
    class Untouched:
        def saw(self, *_):
            raise AssertionError("features have been exchanged")

    with pytest.raises(ConfigError, match=message) as caught:
        discover(knowledge, curious={"clinic": Untouched()})
    assert caught.value.where == where and caught.value.remedy and "\n" not in str(caught.value)


def live(private, public=None):
    """Let every role live as over a network; return all messages as (sender, receiver, message), and the graphs."""
    settings = DiscoverySettings(secure=False, reveal="own", **SHORT, **EVERYTHING)
    agreement = DiscoveryAgreement("local", tuple(PARTIES), COORDINATOR, settings, 0)
    sent = []

    def observed(channel, role, **arguments):
        channel.observe(lambda to, message: sent.append((channel.name, to, message)))
        return role(channel, agreement, **arguments)

    roles = {}
    for party, names in PARTIES.items():
        known = co.Knowledge(**private.get(party, {}))
        seat = PartySeat(party, prepare_columns(chain()[names]), b"secret", known)
        roles[party] = partial(observed, role=take_part, seat=seat)
    roles[COORDINATOR] = partial(observed, role=coordinate, seat=CoordinatorSeat(co.Knowledge(**public or {})))
    return sent, run_together(roles)


def test_what_a_party_knows_reaches_the_coordinator_and_nobody_else():
    sent, graphs = live({"shop": {"required": [("e", "c")], "forbidden": [("a", "e")], "roots": ["e"]}})
    telling = [(sender, to, message.kind) for sender, to, message in sent if '"e"' in json.dumps(dict(message.meta))]
    assert telling == [("shop", COORDINATOR, "hello")]
    for sender, to, message in sent:
        if sender == COORDINATOR and message.kind == "verdict":
            # Factors tell which edges were removed: to a party, those from and to its own variables.
            touching = {"own", *(f"{way}/{peer}" for way in ("to", "from") for peer in PARTIES if peer != to)}
            assert set(message.tensors) <= touching and "knowledge" not in message.meta
            for name, factors in message.arrays.items():
                peer = name.partition("/")[2] or to
                assert sorted(factors.shape) == sorted((len(PARTIES[to]), len(PARTIES[peer])))
    assert ("e", "c") in edges(graphs[COORDINATOR]) and ("e", "c") in edges(graphs["lab"])
    assert ("e", "c") not in edges(graphs["clinic"]), "with reveal='own', others do not even see the edge"


@pytest.mark.parametrize(
    ("private", "public", "where"),
    [
        ({"clinic": {"required": [("a", "c")]}, "lab": {"required": [("c", "a")]}}, {}, "clinic and lab"),
        (
            {"clinic": {"required": [("a", "c")]}, "lab": {"forbidden": [("a", "c")]}, "shop": {"sinks": ["e"]}},
            {},
            "clinic and lab",
        ),
        ({"clinic": {"required": [("a", "c")]}}, {"roots": ["c"]}, "clinic"),
        ({"clinic": {"required": [("a", "c"), ("c", "a")]}}, {}, "clinic"),
        ({"clinic": {"required": [("a", "cholesterol")]}}, {}, "clinic"),
        ({"clinic": {"required": [("c", "d")]}}, {}, "clinic"),
    ],
    ids=["each-other", "bystander", "public", "itself", "unknown", "not-its-own"],
)
def test_a_contradiction_in_private_knowledge_stops_all_without_telling_them_the_edge(private, public, where):
    """The coordinator's last words go to every party; they must not carry what one of them told it alone."""
    with pytest.raises(ConfigError) as caught:
        live(private, public)
    assert caught.value.where == where and caught.value.remedy
    said = str(caught.value)
    assert "→" not in said and "cholesterol" not in said and "'" not in said


def test_a_contradiction_in_public_knowledge_is_told_in_full():
    with pytest.raises(ConfigError, match="a → c → a"):
        live({}, {"required": [("a", "c"), ("c", "a")]})
