"""If these fail, the cost of a large discovery is a wrong guess: people wait for days, or do not dare to begin."""

import subprocess
import sys

import pytest
from bench_parts import Notes

from colonnade.bench.causal import scale
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.hosts import Lived, Mark, live_apart
from colonnade.bench.causal.scale import ROUND, Size, coordinator_course, grown, judged, measure, party_course
from colonnade.errors import DataError, RunError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.progress import Progress

OPEN, EXCHANGE, LOOK, WEIGH = 7.0, 2.0, 3.0, 11.0


def lived(looks, per_round, weighings, slow_start=0.0):
    """Live through a discovery step by step, as a party's clock would see it; edges are weighed at these looks."""
    now, marks = OPEN, []
    for look in range(1, looks + 1):
        for place in range(per_round):
            exchange = (look - 1) * per_round + place
            marks.append(Mark(exchange, now, int(1000 * now)))
            now += EXCHANGE + (slow_start if exchange == 0 else 0.0)
        now += LOOK
        if look in weighings:
            marks.append(Mark(look * per_round, now, int(1000 * now)))
            now += WEIGH
    return Lived(marks, Mark(-1, now, int(1000 * now)), 5)


@pytest.mark.parametrize("of", ["seconds", "sent_bytes"])
def test_the_rule_gives_what_living_through_all_exchanges_gives(of):
    course = party_course(lived(2, ROUND, {2}, slow_start=0.5), of)
    whole = lived(80, 10, {60, 80}, slow_start=0.5)
    assert course.total(800, 80) == pytest.approx(getattr(whole.end, of), rel=1e-3)
    unit = 1 if of == "seconds" else 1000
    assert (course.exchange, course.look) == pytest.approx((EXCHANGE * unit, LOOK * unit))


def test_the_rule_counts_the_coordinators_answers():
    """They are sent once a look and twice for weighing, whatever happens between."""

    def answers(looks, weighings):
        sent, marks = 0, []
        for look in range(1, looks + 1):
            for answer in [40, 60] if look in weighings else [40]:
                sent += answer
                marks.append(Mark(10 * look, 0.0, sent))
        return Lived(marks, Mark(-1, 0.0, sent + 9), 5)

    course = coordinator_course(answers(2, {2}), "sent_bytes")
    assert course.total(800, 80) == answers(80, {60, 80}).end.sent_bytes + 9, "the graph is counted twice"


def block(**changes):
    """Return the row of one block of records."""
    seconds = {"first_seconds": 4.0, "exchange_seconds": 2.0, "look_seconds": 3.0, "last_seconds": 7.0}
    sent = {"first_bytes": 400, "exchange_bytes": 20, "look_bytes": 30, "last_bytes": 70}
    about = {"secure": True, "attributes": 50, "records": 1000, "parties": 3, "extrapolated_from": "10 exchanges"}
    memory = {"peak_memory": 900, "coordinator_memory": 100}
    return {**about, "seconds": 1.0, "bytes": 1000, "party_bytes": 400, **seconds, **sent, **memory, **changes}


def test_ten_blocks_of_records_are_delivered_and_kept_ten_times_and_exchanged_one_by_one():
    row = grown(block(), Size(50, 10_000, 3), {})
    assert (row["exchanges"], row["looks"]) == (8000, 800), "400 epochs of search and of refit, ten blocks each"
    # as a party would live through it: ten deliveries, exchanges, looks, two weighings of ten blocks
    assert row["seconds"] == 10 * 4.0 + 7998 * 2.0 + 798 * 3.0 + 2 * (7.0 + 9 * 2.0)
    assert row["bytes"] == 10 * 400 + 7998 * 20 + 798 * 30 + 2 * (70 + 9 * 20)
    assert row["party_bytes"] == round(0.4 * row["bytes"])
    assert row["peak_memory"] == 100 + 10 * 800 and row["coordinator_memory"] == 100
    assert row["extrapolated_from"] == "10 exchanges, 1000 records"


def test_what_would_fill_the_machine_is_not_tried(monkeypatch):
    """A machine that runs out of memory ends other people's work too."""
    monkeypatch.setitem(scale.SIZES, "default", [Size(50, 1000, 3), Size(50, 10_000, 3)])
    monkeypatch.setitem(scale.JUDGED, "default", set())
    measured = []

    def pretend(size, recipe, secure, full):
        measured.append((size.records, secure))
        return block(records=size.records, secure=secure)

    monkeypatch.setattr(scale, "measure", pretend)
    needed = 3 * (100 + 10 * 800) + 100
    for memory, tried in ((2 * needed, [1000, 10_000]), (2 * needed - 1, [1000])):
        measured.clear()
        monkeypatch.setattr(scale, "describe_device", lambda memory=memory: {"memory": memory})
        rows = scale.run("default", Progress())
        assert measured == [(records, secure) for records in tried for secure in (False, True)]
        assert [row["records"] for row in rows] == [1000, 1000, 10_000, 10_000]


def test_rules_are_held_against_what_was_measured():
    rows = [
        block(seconds=110.0, bytes=500, peak_memory=90),
        block(attributes=200),
        block(seconds=100.0, bytes=400, peak_memory=100, extrapolated_from=None),
    ]
    (told,) = judged(rows)
    assert "50 attributes, 1000 records, 3 parties, encrypted: what 10 exchanges tell" in told
    assert told.endswith("the whole discovery took: seconds 1.100, bytes 1.250, peak_memory 0.900")


@pytest.mark.parametrize(
    ("preset", "sizes", "judged_rows"),
    [("default", 10, 2 * 5 + 2), ("paper", 36, 2 * 12 + 2 * 12)],
)
def test_the_grid_is_the_promised_one_and_small_sizes_are_judged(monkeypatch, preset, sizes, judged_rows):
    asked = scale.SIZES[preset]
    assert len(set(asked)) == len(asked) == sizes and Size(200, 10_000, 3) in asked
    assert {size.attributes for size in asked} == {10, 15, 25, 50, 100, 200}
    assert {size.records for size in asked} == {1000, 10_000} and {size.parties for size in asked} == {2, 3, 5}

    def pretend(size, recipe, secure, full):
        told = None if full else "10 exchanges"
        return block(attributes=size.attributes, records=size.records, parties=size.parties, secure=secure,
                     extrapolated_from=told)  # fmt: skip

    monkeypatch.setattr(scale, "measure", pretend)
    monkeypatch.setattr(scale, "describe_device", lambda: {"memory": 10**9})
    progress = Notes()
    rows = scale.run(preset, progress)
    assert len(rows) == 2 * sizes + judged_rows
    assert sum("rule judged" in note for note in progress.notes) == judged_rows


def test_a_row_that_is_there_is_not_measured_again_and_one_that_failed_is_named(tmp_path, monkeypatch):
    sizes = [Size(6, 60, 2), Size(7, 60, 2)]
    monkeypatch.setitem(scale.SIZES, "smoke", sizes)
    monkeypatch.setitem(scale.JUDGED, "smoke", set())
    measured = []

    def pretend(size, recipe, secure, full):
        measured.append((size, secure))
        if size == sizes[1]:
            raise RunError("no memory left")
        return block(attributes=size.attributes, secure=secure)

    monkeypatch.setattr(scale, "measure", pretend)
    progress = Notes()
    first = scale.run("smoke", progress, folder=tmp_path)
    assert len(first) == 2 and len(measured) == 4
    assert progress.notes[-1] == "left out: 7 attributes, 60 records, 2 parties, encrypted: no memory left"
    assert scale.run("smoke", Progress(), folder=tmp_path) == first
    assert measured[4:] == [(sizes[1], False), (sizes[1], True)]


def test_a_few_exchanges_between_processes_tell_the_bytes_of_all_of_them():
    """Real processes: what is measured is what hosts would send."""
    size, recipe = Size(6, 60, 2), {"epochs": 60, "refit_epochs": 40}
    rule, full = (measure(size, recipe, secure=False, full=full) for full in (False, True))
    assert rule["exchanges"] == full["exchanges"] == 100 and rule["extrapolated_from"] == "10 exchanges"
    assert rule["bytes"] == pytest.approx(full["bytes"], rel=0.01), "of 100 exchanges one forward pass is not counted"
    assert full["extrapolated_from"] is None and full["seconds"] > 0 < rule["exchange_seconds"]
    assert min(row[name] for row in (rule, full) for name in ("peak_memory", "coordinator_memory")) > 10_000_000
    assert set(rule) == set(full)


@pytest.mark.slow
def test_encryption_costs_bytes_and_memory():
    size = Size(6, 60, 3)
    plain, secure = (measure(size, {}, secure=secure, full=False) for secure in (False, True))
    assert secure["exchange_bytes"] > 10 * plain["exchange_bytes"]
    assert secure["peak_memory"] > plain["peak_memory"]


@pytest.mark.slow
def test_the_first_error_is_told_and_not_that_the_others_were_lost():
    settings = DiscoverySettings(secure=False, epochs=1, refit_epochs=0)
    with pytest.raises(DataError, match="5 common records for 6 columns"):
        live_apart(Design(6, 3, records=5), 2, settings, 0)


def test_importing_the_bench_loads_no_torch():
    """`colonnade bench list` would take seconds with it."""
    look = "import sys, colonnade.bench.causal.scale, colonnade.bench.causal.diabetes; "
    look += "assert not {'torch', 'seal', 'grpc'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0
