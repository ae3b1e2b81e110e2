"""If these fail, a model is tested on other records than its owner held out, and nobody is told."""

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.errors import ConfigError, DataError

PARTIES = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
LABEL = ("clinic", "outcome")
QUICK = {"epochs": 2, "batch_size": 32, "progress": False}


@pytest.fixture(scope="module")
def frame():
    """Two hundred records to train on; the hundred to test on come from elsewhere, where another rule holds."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 4)), columns=["age", "bmi", "glucose", "insulin"])
    table.index = [f"p{row}" for row in range(300)]
    turned = np.where(np.arange(300) < 200, 1, -1)
    table["outcome"] = np.where(table["age"] + turned * table["glucose"] > 0, "ill", "well")
    table["part"] = ["train"] * 200 + ["test"] * 100
    return table


def apart(frame):
    return {"clinic": frame[[*PARTIES["clinic"], "outcome", "part"]], "lab": frame[PARTIES["lab"]]}


@pytest.mark.parametrize("column", ["part", "no such column"])
def test_a_split_column_that_the_federation_has_not_is_an_error(frame, column):
    """A random split was taken without a word: a score was reported from records like those trained on."""
    federation = co.Federation.from_frame(frame, PARTIES, label=LABEL)
    with pytest.raises(ConfigError, match=r"task.split.column: this federation has no such column .name it as split="):
        co.train(federation, split={"column": column}, **QUICK)


def test_a_split_column_of_another_name_is_an_error(frame):
    """Whoever made two columns of parts would be given the scores of the wrong one."""
    federation = co.Federation.from_frame(frame, PARTIES, label=LABEL, split="part")
    with pytest.raises(ConfigError, match="this federation has no such column"):
        co.train(federation, split={"column": "other part"}, **QUICK)
    assert co.train(federation, split={"column": "part"}, **QUICK).agreement.task.split.column == "part"


def test_frames_of_their_own_may_have_a_split_column_too(frame):
    """Parties that are not aligned yet could only be split at random, and the column was learned from."""
    frames, held_out = apart(frame), frame[frame["part"] == "test"]
    frames["lab"] = frames["lab"].sample(frac=1, random_state=0)
    federation = co.align(co.Federation.from_frames(frames, label=LABEL, split="part"))
    model = co.train(federation, split={"column": "part"}, **QUICK)
    assert model.parts["clinic"].bottom.preparation.feature_names == PARTIES["clinic"]
    assert model.scores["accuracy"] == pytest.approx(model.score(held_out))


def test_a_split_column_goes_by_the_records_own_ids(frame):
    """With ids in a column the parts of other records would be taken, wherever rows are numbered otherwise."""
    frames = {party: table.rename_axis("id").reset_index() for party, table in apart(frame).items()}
    frames["clinic"].index = np.arange(300)[::-1]
    federation = co.Federation.from_frames(frames, label=LABEL, id_column="id", split="part")
    assert federation.split.equals(frame["part"].rename_axis("id"))


@pytest.mark.parametrize(
    ("label", "split", "error", "message"),
    [
        (LABEL, "parts", DataError, "clinic: no column 'parts' .did you mean 'part'"),
        (None, "part", ConfigError, "split: only the label's party says what records are for"),
        (("clinik", "outcome"), "part", ConfigError, "label: label owner 'clinik' is no party"),
    ],
)
def test_a_split_column_that_can_not_be_set_aside_is_named(frame, label, split, error, message):
    """The error would speak of something that its reader never wrote."""
    with pytest.raises(error, match=message):
        co.Federation.from_frames(apart(frame), label=label, split=split)
