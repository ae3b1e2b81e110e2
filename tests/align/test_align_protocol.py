"""All parties end with the same records in the same order, or all end with an error that says why."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.align import alignment as alignment_module
from colonnade.align import courier as courier_module
from colonnade.align.alignment import align
from colonnade.align.cipher import POINT_BYTES
from colonnade.align.circle import find_common
from colonnade.align.courier import ALIGN_KINDS
from colonnade.align.together import align_together
from colonnade.errors import AlignmentError, ConfigError, DataError, PeerLostError
from colonnade.wire.channel import Channel
from colonnade.wire.local import local_channels

PARTIES = ("clinic", "lab", "registry", "pharmacy", "insurer")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
INTEGER = st.integers(-5, 12) | st.integers(-(2**70), 2**70)


def id_sets(parties):
    """Id lists, one per party, drawn from a shared pool so that they overlap."""

    def lists(pool):
        some = st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=len(pool), unique=True)
        return st.fixed_dictionaries(dict.fromkeys(PARTIES[:parties], some))

    pools = st.sets(TEXT, min_size=1, max_size=12) | st.sets(INTEGER, min_size=1, max_size=12)
    return pools.flatmap(lists)


def held_by_all(ids):
    return sorted(set.intersection(*map(set, ids.values())))


@pytest.mark.parametrize("parties", [2, 3, 5])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_drop_equals_the_intersection_in_the_clear(parties, data):
    ids = data.draw(id_sets(parties))
    expected = held_by_all(ids)
    if not expected:
        with pytest.raises(AlignmentError, match=r"no record in common .*leading zeros"):
            align_together(ids, active="lab")
        return
    aligned = align_together(ids, active="lab")
    for party, alignment in aligned.items():
        assert [ids[party][row] for row in alignment.rows] == expected
        assert alignment.digest == aligned["clinic"].digest
        assert alignment.held.all()


def test_the_same_ids_give_the_same_alignment_again():
    """A resumed or repeated run needs the same order, though keys and shuffles are new each time."""
    rng = np.random.default_rng(0)
    ids = {party: rng.permutation(60)[:50].tolist() for party in PARTIES[:3]}
    first, second = align_together(ids, active="lab"), align_together(ids, active="lab")
    for party in ids:
        np.testing.assert_array_equal(first[party].rows, second[party].rows)
        assert first[party].digest == second[party].digest


@pytest.mark.parametrize("overlap", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("parties", [2, 3])
def test_impute_keeps_all_records_of_the_active_party(overlap, parties):
    rng = np.random.default_rng(1)
    own = [f"p{number}" for number in range(100)]
    ids = {"clinic": own}
    for party in PARTIES[1:parties]:
        shared = rng.permutation(own)[: int(overlap * len(own))].tolist()
        ids[party] = rng.permutation(shared + [f"{party}{number}" for number in range(20)]).tolist()
    aligned = align_together(ids, active="clinic", policy="impute")
    records = [own[row] for row in aligned["clinic"].rows]
    assert sorted(records) == sorted(own)
    assert len({alignment.digest for alignment in aligned.values()}) == 1
    for party in PARTIES[1:parties]:
        assert aligned[party].held.sum() == int(overlap * len(own))
        for record, row in zip(records, aligned[party].rows, strict=True):
            assert (ids[party][row] == record) if row >= 0 else record not in ids[party]


@settings(max_examples=15, deadline=None)
@given(ids=id_sets(3))
def test_impute_equals_membership_in_the_clear(ids):
    own = ids["lab"]
    if any(not set(own) & set(others) for others in ids.values()):
        with pytest.raises(AlignmentError, match="no record in common"):
            align_together(ids, active="lab", policy="impute")
        return
    aligned = align_together(ids, active="lab", policy="impute")
    records = [own[row] for row in aligned["lab"].rows]
    for party, alignment in aligned.items():
        found = [ids[party][row] if row >= 0 else None for row in alignment.rows]
        assert found == [record if record in ids[party] else None for record in records]


def test_impute_repeats_its_order_only_with_the_same_secret():
    ids = {"clinic": list(range(50)), "lab": list(range(25))}
    runs = [
        align_together(ids, active="clinic", policy="impute", secret=secret)
        for secret in (b"a", b"a", b"b", None, None)
    ]
    orders = [tuple(run["clinic"].rows) for run in runs]
    assert orders[0] == orders[1]
    assert runs[0]["lab"].digest == runs[1]["lab"].digest
    assert len(set(orders)) == 4
    assert len({run["clinic"].digest for run in runs}) == 4


def test_an_alignment_prints_what_it_holds_and_cannot_be_changed():
    aligned = align_together({"clinic": list(range(1500)), "lab": [3]}, active="clinic", policy="impute")
    assert repr(aligned["lab"]).startswith("Alignment(1,500 records, 1 held here, policy impute, digest ")
    assert aligned["lab"].records == 1500
    with pytest.raises(ValueError, match="read-only"):
        aligned["lab"].rows[0] = 1


# What goes wrong


def test_integers_here_and_strings_there_names_both_parties():
    with pytest.raises(AlignmentError, match=r"(clinic|lab): has (integer|string) ids, but '(lab|clinic)' has"):
        align_together({"clinic": [1, 2], "lab": ["1", "2"]}, active="clinic")


@pytest.mark.parametrize("policy", ["drop", "impute"])
def test_a_party_with_unusable_ids_ends_everybody_with_its_reason(policy):
    with pytest.raises(DataError, match="registry: 1 ids occur more than once"):
        align_together({"clinic": [1, 2], "lab": [1, 2], "registry": [1, 1]}, active="clinic", policy=policy)


def live(channel, outcomes, ids, **options):
    try:
        with channel:
            outcomes[channel.name] = align(channel, ids, **options)
    except Exception as error:
        outcomes[channel.name] = error


def run_each(channels, ids, options, odd=None):
    """Let every party align on its own thread, those of `odd` with other options; return what each came to."""
    outcomes, odd = {}, odd or {}
    threads = [
        threading.Thread(target=live, args=(channel, outcomes, ids[name]), kwargs=options | odd.get(name, {}))
        for name, channel in channels.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a party hangs"
    return outcomes


@pytest.mark.parametrize("odd", [{"policy": "impute"}, {"active": "lab"}, {"order": ("lab", "clinic", "registry")}])
def test_parties_that_were_told_different_things_all_stop(odd):
    channels = local_channels(PARTIES[:3])
    common = {"active": "clinic", "order": PARTIES[:3], "policy": "drop"}
    outcomes = run_each(channels, dict.fromkeys(channels, (1, 2)), common, {"registry": odd})
    assert all(isinstance(error, AlignmentError | PeerLostError) for error in outcomes.values())
    field = next(iter(odd))
    assert any(f"registry: aligns with {field}" in str(error) for error in outcomes.values())


@pytest.mark.parametrize("policy", ["drop", "impute"])
def test_an_alignment_is_patient_and_what_follows_is_not(monkeypatch, policy):
    """A party that encrypts millions of ids would be given up while it does, or a training wait a day for a step."""
    patient = []
    monkeypatch.setattr(courier_module.Courier, "hear", spied(courier_module.Courier.hear, patient))
    channels = local_channels(PARTIES[:3])
    run_each(channels, dict.fromkeys(channels, (1, 2)), {"active": "clinic", "order": PARTIES[:3], "policy": policy})
    assert patient and all(patient)
    assert not any(channel.patient for channel in channels.values())


def spied(hear, patient):
    def spy(courier, *words):
        patient.append(courier._channel.patient)
        return hear(courier, *words)

    return spy


def test_a_party_that_dies_midway_ends_the_others(monkeypatch):
    def dies(courier, *args):
        if courier.name == "lab":
            raise RuntimeError("out of memory")
        return find_common(courier, *args)

    monkeypatch.setattr(alignment_module, "find_common", dies)
    channels = local_channels(PARTIES[:3])
    options = {"active": "clinic", "order": PARTIES[:3]}
    outcomes = run_each(channels, dict.fromkeys(channels, (1, 2)), options)
    for survivor in ("clinic", "registry"):
        assert isinstance(outcomes[survivor], PeerLostError)
        assert "lab: stopped: something unexpected (RuntimeError)" in str(outcomes[survivor])


class Tampering(Channel):
    """A party's channel that changes outgoing messages on their way."""

    def __init__(self, inner, tamper):
        super().__init__(inner.name, inner.peers, inner.run, inner.deadline)
        self._inner, self._tamper = inner, tamper

    def _deliver(self, to, message):
        message = self._tamper(message)
        self._inner.send(to, message.kind, message.step, message.tensors, message.meta)

    def _receive(self, frm, kind, step):
        return self._inner.recv(frm, kind, step)

    def abort(self, reason, culprit=None):
        self._inner.abort(reason, culprit)

    def close(self):
        self._inner.close()


def tampered(kind, change):
    def tamper(message):
        if message.kind != kind:
            return message
        tensors = {name: change(array.copy()) for name, array in message.tensors.items()}
        return replace(message, tensors=tensors, meta=change(dict(message.meta)) if not tensors else message.meta)

    return tamper


def blank(array):
    array[...] = 0
    return array


def flip(mask):
    mask[np.argmax(mask)] = False
    return mask


def swap_marks(mask):
    return np.roll(mask, 1)


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("align.list", blank, "lab: sent bytes that are no points"),
        ("align.list", lambda points: points[:-1], "lab: sent uint8 .* was due"),
        ("align.list", lambda points: points.astype(np.int16), "lab: sent int16 .* was due"),
        ("align.common", lambda mask: mask.astype(np.uint8), "lab: sent uint8 .* where bool"),
        ("align.common", flip, "lab: marked 1 common records where 2 were marked"),
        ("align.common", swap_marks, "lab: ended with other records than 'clinic'"),
        ("align.digest", lambda meta: {"digest": "0" * 64}, "lab: ended with other records than 'clinic'"),
        ("align.hello", lambda meta: meta | {"records": -1}, "lab: announced -1 records"),
        ("align.hello", lambda meta: meta | {"records": "many"}, "lab: announced 'many' records"),
        ("align.hello", lambda meta: {}, "lab: aligns with policy None"),
    ],
)
def test_a_peer_that_sends_nonsense_is_named(kind, change, reason):
    channels = local_channels(("clinic", "lab"))
    channels["lab"] = Tampering(channels["lab"], tampered(kind, change))
    options = {"active": "clinic", "order": ("clinic", "lab")}
    outcomes = run_each(channels, {"clinic": [1, 2, 3, 4], "lab": [3, 4, 5, 6]}, options)
    assert isinstance(outcomes["clinic"], AlignmentError)
    assert re.search(reason, str(outcomes["clinic"]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "x" * 100_000),
        ("active", ["lab"] * 10_000),
        ("order", {str(n): [n] for n in range(10_000)}),
        ("kind", "x" * 100_000),
        ("records", "many " * 10_000),
    ],
)
def test_a_peer_that_sends_a_long_word_is_quoted_in_short(field, value):
    """The reason would fill every party's terminal and run folder, and the name of the guilty one would be lost."""
    channels = local_channels(("clinic", "lab"))
    channels["lab"] = Tampering(channels["lab"], tampered("align.hello", lambda meta: meta | {field: value}))
    options = {"active": "clinic", "order": ("clinic", "lab")}
    outcomes = run_each(channels, {"clinic": [1, 2], "lab": [1, 2]}, options)
    assert isinstance(outcomes["clinic"], AlignmentError) and outcomes["clinic"].where == "lab"
    assert all(len(str(error)) < 500 for error in outcomes.values())


@pytest.mark.parametrize(
    "change", [lambda places: places + 100, lambda places: places - 100, lambda places: places[:1].repeat(len(places))]
)
def test_impossible_positions_from_the_active_party_are_refused(change):
    channels = local_channels(("clinic", "lab"))
    tamper = tampered("align.positions", lambda content: content if isinstance(content, dict) else change(content))
    channels["clinic"] = Tampering(channels["clinic"], tamper)
    options = {"active": "clinic", "order": ("clinic", "lab"), "policy": "impute"}
    outcomes = run_each(channels, {"clinic": [1, 2, 3, 4], "lab": [3, 4, 5, 6]}, options)
    assert "clinic: sent positions that cannot be" in str(outcomes["lab"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"policy": "dorp"}, "did you mean 'drop'"),
        ({"active": "clinik"}, "did you mean 'clinic'"),
        ({"order": ["clinic"]}, "at least two"),
        ({"order": ["clinic", "clinic"]}, "each once"),
        ({"order": ["clinic", "bank"]}, "'bank' is not both"),
        ({"order": ["lab", "registry"], "active": "lab"}, "'clinic' is not both"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_sent(options, reason):
    channel = local_channels(PARTIES[:3])["clinic"]
    channel.observe(lambda to, message: pytest.fail("something was sent"))
    with pytest.raises(ConfigError, match=reason):
        align(channel, [1, 2], **({"active": "clinic", "order": PARTIES[:3]} | options))


# What travels


@pytest.mark.parametrize("policy", ["drop", "impute"])
def test_messages_keep_the_rules_of_the_wire(monkeypatch, policy):
    """Only known kinds, bounded payloads, steps that grow strictly per link and kind: else the network refuses them."""
    monkeypatch.setattr(courier_module, "PIECE_BYTES", 5 * POINT_BYTES)
    channels = local_channels(PARTIES[:3])
    seen, kinds = {}, set()

    def watch(sender):
        def observer(to, message):
            assert message.payload_bytes <= 5 * POINT_BYTES
            assert message.step > seen.get((sender, to, message.kind), 6)
            seen[sender, to, message.kind] = message.step
            kinds.add(message.kind)

        return observer

    for name, channel in channels.items():
        channel.observe(watch(name))
    ids = {"clinic": list(range(60)), "lab": list(range(10, 25)), "registry": list(range(5, 200))}
    options = {"active": "clinic", "order": list(ids), "policy": policy, "step": 7}
    outcomes = run_each(channels, ids, options)
    assert outcomes["registry"].records == (15 if policy == "drop" else 60)
    assert kinds == set(ALIGN_KINDS) - ({"align.positions"} if policy == "drop" else set())


@pytest.mark.slow
def test_ten_thousand_ids_at_three_parties():
    rng = np.random.default_rng(2)
    ids = {party: rng.choice(20_000, 10_000, replace=False) for party in PARTIES[:3]}
    aligned = align_together(ids, active="lab")
    expected = held_by_all({party: values.tolist() for party, values in ids.items()})
    for party, alignment in aligned.items():
        assert ids[party][alignment.rows].tolist() == expected
