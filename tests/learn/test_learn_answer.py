"""Prediction over a channel: if these fail, answers are worth nothing and nobody hears, or none come at all."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.align.alignment import align
from colonnade.errors import DataError, RefusedError, RunError
from colonnade.learn.agreement import Agreement
from colonnade.learn.answer import ask, serve
from colonnade.learn.part import Part
from colonnade.wire.local import LocalChannel
from colonnade.wire.together import run_together

PARTIES = {"clinic": ["age"], "lab": ["glucose", "insulin"], "insurer": ["claims"]}
PASSIVE = ("lab", "insurer")
ASKED = 30


def federation():
    rng = np.random.default_rng(0)
    names = [name for columns in PARTIES.values() for name in columns]
    table = pd.DataFrame(rng.normal(size=(200, 4)), columns=names, index=[f"p{row}" for row in range(200)])
    table["outcome"] = np.where(table.sum(axis=1) > 0, "ill", "well")
    return co.Federation.from_frame(table, PARTIES, label=("clinic", "outcome"))


@pytest.fixture(scope="module")
def models():
    return [co.train(federation(), seed=seed, epochs=2, batch_size=32, progress=False) for seed in (0, 1)]


def asked(parts, missing="refuse", **rows):
    """Ask for the first records; `rows` are those that a party holds, where they are others."""
    agreed = Agreement("town", tuple(PARTIES), "clinic", co.Task(), 0)
    known = federation().records
    held = {party: known[party].take(np.asarray(rows.get(party, range(ASKED)))) for party in PARTIES}
    roles = {party: partial(serve, agreement=agreed, part=parts[party], records=held[party]) for party in PASSIVE}
    clinic = partial(ask, agreement=agreed, part=parts["clinic"], records=held["clinic"], missing=missing)
    return run_together({"clinic": clinic, **roles})["clinic"]


def test_parts_of_one_model_answer_together(models):
    labels = asked(models[0].parts).labels
    table = pd.concat([records.table for records in federation().records.values()], axis=1)
    assert labels.equals(models[0].predict(table.iloc[:ASKED]).labels)


@pytest.mark.parametrize("absent", [("lab",), ("lab", "insurer")])
def test_who_holds_none_of_the_records_is_imputed_as_in_one_process(models, absent):
    """One party that knows none of the patients, and nobody would get an answer that asked for one without it."""
    strangers = dict.fromkeys(absent, range(100, 120))
    answer = asked(models[0].parts, "impute", **strangers)
    assert {party: int(count) for party, count in answer.imputed.sum().items()} == {
        party: ASKED * (party in absent) for party in PARTIES
    }
    known = {party: records for party, records in federation().records.items() if party not in absent}
    frames = {party: records.take(np.arange(ASKED)) for party, records in known.items()}
    assert answer.labels.equals(models[0].predict(frames, "impute").labels)


def test_who_holds_none_of_the_records_is_refused_unless_asked_for_and_told_of_the_usual_slip(models):
    with pytest.raises(DataError, match=r"lab: lacks 30 of 30 records .*--missing impute; check that all use the same"):
        asked(models[0].parts, lab=range(100, 120))


def says(model, **arrays):
    """A lab that aligns as it should and then answers in its own way: first `held`, then each piece of `upload`."""

    def live(channel, records):
        align(channel, records.ids, active="clinic", order=("clinic", "lab"), policy="impute", may_lack_all=True)
        held = {"held": arrays["held"]} if "held" in arrays else {}
        channel.send("clinic", "answer", 0, held, {"model": model})
        if "upload" in arrays:
            channel.send("clinic", "answer", 1, arrays["upload"])

    return live


HELD = np.ones(ASKED, bool)
MALFORMED = {
    "nothing held": ({}, "sent nothing as 'held'"),
    "another number of records": ({"held": np.ones(9, bool)}, r"sent bool \(9,\) as 'held' where bool \(30,\)"),
    "held in other numbers": ({"held": np.full(ASKED, 7)}, r"sent int64 \(30,\) as 'held' where bool"),
    "no upload": ({"held": HELD, "upload": {}}, "sent nothing as 'upload'"),
    "an upload too few": ({"held": HELD, "upload": {"upload": np.zeros((29, 32))}}, r"sent float64 \(29, 32\)"),
    "uploads of another width": ({"held": HELD, "upload": {"upload": np.zeros((30, 5))}}, r"sent float64 \(30, 5\)"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_an_answer_that_is_none_is_refused_and_whose_it_is_said(models, case):
    """The clinic's prediction would end with a traceback, and nobody would know which party to call."""
    arrays, reason = MALFORMED[case]
    parts, records = models[0].parts, federation().records
    agreed = Agreement("town", tuple(PARTIES), "clinic", co.Task(), 0)
    clinic = partial(ask, agreement=agreed, part=parts["clinic"], records=records["clinic"].take(np.arange(ASKED)))
    lab = partial(says(parts["clinic"].model, **arrays), records=records["lab"].take(np.arange(ASKED)))
    with pytest.raises(RefusedError, match=f"lab: {reason}.* was due"):
        run_together({"clinic": partial(clinic, missing="impute"), "lab": lab, "insurer": lambda channel: None})


def test_a_prediction_waits_for_a_living_party_as_long_as_that_computes(models, monkeypatch):
    """A party with millions of records, or who is served last, would be given up while it computes."""
    patient, receive = set(), LocalChannel._receive

    def note(channel, *message):
        patient.add(channel.patient)
        return receive(channel, *message)

    monkeypatch.setattr(LocalChannel, "_receive", note)
    asked(models[0].parts)
    assert patient == {True}


@pytest.mark.parametrize("missing", ["refuse", "impute"])
def test_a_part_of_another_model_is_refused_and_whose_it_is_said(models, missing):
    """Answers would be near a guess, and nothing would tell them from good ones."""
    mixed = {**models[0].parts, "insurer": models[1].parts["insurer"]}
    with pytest.raises(RunError, match="insurer: holds a part of another model") as caught:
        asked(mixed, missing)
    assert "--run NAME" in caught.value.remedy


def test_a_saved_part_is_known_again_and_a_folder_of_two_models_is_refused(models, tmp_path):
    for model, folder in zip(models, ("one", "other"), strict=True):
        model.save(tmp_path / folder)
    assert Part.load(tmp_path / "one" / "lab").model == models[0].parts["clinic"].model
    shutil.rmtree(tmp_path / "one" / "lab")
    shutil.copytree(tmp_path / "other" / "lab", tmp_path / "one" / "lab")
    with pytest.raises(RunError, match="lab: holds a part of another model"):
        co.load(tmp_path / "one")


@pytest.mark.parametrize("old", ["clinic", "lab"])
def test_a_part_that_an_older_version_saved_is_taken_as_it_is(models, tmp_path, old):
    models[0].save(tmp_path)
    described = json.loads((tmp_path / old / "part.json").read_text())
    del described["model"]
    (tmp_path / old / "part.json").write_text(json.dumps(described))
    assert asked(co.load(tmp_path).parts).labels.equals(asked(models[0].parts).labels)


def test_equal_trainings_in_one_process_make_equal_files(models, tmp_path):
    again = co.train(federation(), seed=0, epochs=2, batch_size=32, progress=False)
    for model, folder in ((models[0], "one"), (again, "other")):
        model.save(tmp_path / folder)
    for name in ("part.json", "part.safetensors"):
        one, other = ((tmp_path / folder / "lab" / name).read_bytes() for folder in ("one", "other"))
        assert one == other


def test_no_part_tells_the_secret_that_its_model_is_named_by(models):
    agreed = models[0].agreement
    mine, other = bytes(32), bytes([1] * 32)
    assert agreed.model_token(mine) != agreed.model_token(other) != agreed.model_token(b"one process")
    assert agreed.model_token(mine) != replace(agreed, run="other").model_token(mine)
