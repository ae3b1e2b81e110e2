"""If these fail, an audit attacks records that the model was trained on, or lets the attacker know its targets."""

import numpy as np
import pandas as pd
import pytest
import torch
from audit_parts import PARTIES, SETTINGS, table, table_federation, table_model

import colonnade as co
from colonnade.audit.held_out import divide, held_out_of
from colonnade.errors import ConfigError, DataError
from colonnade.learn.model import VerticalModel


def ids(held):
    return set(held.records["lab"].ids)


def accuracy_on(model, held):
    frame = table().loc[held.records["lab"].ids]
    return model.score(frame)


def test_exactly_the_test_records_are_held_out(trained):
    """Their accuracy, predicted anew, is the one that the training run told."""
    held = held_out_of(trained, None, None)
    assert accuracy_on(trained, held) == trained.scores["accuracy"]
    assert len(held) < len(table())
    assert list(held.records) == ["lab", "insurer"], "what the active party computes does not leave it"
    expected = (table().loc[held.records["lab"].ids, "outcome"] == "well").astype(int)
    assert torch.equal(held.labels, torch.tensor(expected.tolist()))


def test_a_split_column_is_heeded():
    frame = table().assign(part=["test" if i % 3 == 0 else "train" for i in range(240)])
    federation = co.Federation.from_frame(frame, PARTIES, label=("clinic", "outcome"), split="part")
    model = co.train(federation, progress=False, **SETTINGS)
    assert ids(held_out_of(model, None, None)) == set(frame.index[frame["part"] == "test"])


def test_a_loaded_model_is_given_its_federation(trained, tmp_path):
    loaded = co.load(trained.save(tmp_path))
    assert loaded.federation is None
    with pytest.raises(DataError, match="does not carry the records"):
        held_out_of(loaded, None, None)
    assert ids(held_out_of(loaded, table_federation(), None)) == ids(held_out_of(trained, None, None))


def test_records_that_a_party_lacks_are_left_out():
    """Attacks on several parties at once need the same people at all of them."""
    frame = table()
    frames = {
        "clinic": frame[["age", "outcome"]],
        "lab": frame[["glucose", "insulin", "city"]].iloc[:200],
        "insurer": frame[["claims"]].iloc[40:],
    }
    federation = co.align(co.Federation.from_frames(frames, label=("clinic", "outcome")), "impute")
    model = co.train(federation, progress=False, missing="impute", **SETTINGS)
    held = held_out_of(model, None, None)
    assert ids(held) == set(held.records["insurer"].ids)
    assert ids(held) <= set(frame.index[40:200])
    expected = (frame.loc[held.records["lab"].ids, "outcome"] == "well").astype(int).to_numpy()
    assert held.labels.tolist() == expected.tolist()


def test_given_records_are_taken_whole_and_brought_into_one_order(trained):
    new = table(60, seed=9)
    mixed = {"lab": new, "insurer": new.iloc[::-1].iloc[:50], "clinic": new}
    held = held_out_of(trained, None, mixed)
    assert len(held) == 50
    assert list(held.records["lab"].ids) == list(held.records["insurer"].ids)
    expected = (new.loc[held.records["lab"].ids, "outcome"] == "well").astype(int).to_numpy()
    assert held.labels.tolist() == expected.tolist()
    assert held_out_of(trained, None, new.drop(columns="outcome")).labels is None


def test_one_party_alone_has_its_own_records_and_no_labels(trained):
    alone = VerticalModel(trained.agreement, {"lab": trained.parts["lab"]})
    held = held_out_of(alone, None, {"lab": table(30, seed=5)[PARTIES["lab"]]})
    assert list(held.records) == ["lab"]
    assert held.labels is None
    assert alone.scores == {}
    with pytest.raises(DataError, match="no audited party holds"):
        held_out_of(alone, None, {"insurer": table(30)})


def test_the_division_is_disjoint_complete_and_new_with_every_seed(trained):
    held = held_out_of(trained, None, None)
    for seed in range(3):
        auxiliary, targets = divide(held, 0.25, 10_000, seed)
        assert not ids(auxiliary) & ids(targets)
        assert ids(auxiliary) | ids(targets) == ids(held)
        assert len(auxiliary) == round(0.25 * len(held))
    again = [divide(held, 0.5, 20, seed)[1].records["lab"].ids.tolist() for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]
    assert len(again[0]) == 20


def test_the_order_of_records_does_not_matter(trained):
    """An alignment brings them in another order each time; the same seed still means the same audit."""
    held = held_out_of(trained, None, None)
    turned = held.take(np.arange(len(held))[::-1].copy())
    for one, other in zip(divide(held, 0.5, 20, 5), divide(turned, 0.5, 20, 5), strict=True):
        assert list(one.records["lab"].ids) == list(other.records["lab"].ids)


def test_labels_follow_their_records(trained):
    held = held_out_of(trained, None, None)
    known = dict(zip(held.records["lab"].ids, held.labels.tolist(), strict=True))
    for part in divide(held, 0.5, 1000, seed=3):
        assert [known[one] for one in part.records["lab"].ids] == part.labels.tolist()


def test_what_can_not_be_audited_is_told(trained):
    few = table(3, seed=1)
    with pytest.raises(DataError, match="3 records were held out"):
        divide(held_out_of(trained, None, few), 0.5, 1000, 0)
    with pytest.raises(ConfigError, match="not both"):
        held_out_of(trained, table_federation(), few)
    other = co.Federation.from_frame(table(), {"clinic": ["age"], "lap": ["glucose"]}, label=("clinic", "outcome"))
    with pytest.raises(ConfigError, match=r"no party 'lab'.*did you mean 'lap'"):
        held_out_of(trained, other, None)
    active = VerticalModel(trained.agreement, {"clinic": trained.parts["clinic"]})
    with pytest.raises(ConfigError, match="no passive party's bottom model"):
        held_out_of(active, None, few)
    apart = co.Federation.from_frames({"clinic": table()[["age", "outcome"]], "lab": table()[["glucose"]]},
                                      label=("clinic", "outcome"))  # fmt: skip
    model = table_model(federation=co.align(apart))
    with pytest.raises(DataError, match="not aligned"):
        held_out_of(model, apart, None)


def test_a_model_passed_on_carries_no_records(trained):
    """Whoever pickles an estimator would otherwise give the training records away with it."""
    assert trained.federation is not None
    assert trained.__getstate__()["federation"] is None
    assert isinstance(trained.federation.records["lab"].table, pd.DataFrame)
    assert np.isfinite(trained.scores["accuracy"])
