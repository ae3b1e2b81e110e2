"""If these fail, a user's mistake ends in a traceback, or in a graph that looks sound and is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from discovery_parts import chain

import colonnade as co
from colonnade.discover.validator import is_acyclic
from colonnade.errors import ConfigError, DataError

PARTIES = {"clinic": ["a", "b"], "lab": ["c", "d"], "shop": ["e"]}
SHORT = {"epochs": 5, "refit_epochs": 2, "hidden": 2, "evidence": 0.0, "least_strength": 0.0}


def discover(frame, parties=PARTIES, secure=False, **settings):
    federation = co.Federation.from_frame(frame, parties)
    return co.discover(federation, secure, progress=False, **{**SHORT, **settings})


def with_hole(frame):
    return frame.assign(c=frame.c.where(frame.index > 9))


def changed(**columns):
    """Return what makes the chain's frame with some columns replaced."""
    return lambda frame: frame.assign(**columns)


@pytest.mark.parametrize(
    ("make", "party", "what", "remedy"),
    [
        (changed(c=3.0), "lab", "column 'c' is constant", "leave it out"),
        (changed(c="same"), "lab", "column 'c' is constant", "leave it out"),
        (
            changed(d=lambda frame: 2 - 3 * frame.c),
            "lab",
            "columns 'c' and 'd' say the same thing",
            "leave one of them",
        ),
        (with_hole, "lab", "column 'c' has 10 missing values", "set missing='impute', or drop those records"),
        (changed(c=np.nan), "lab", "every value is missing in column 'c'", "leave the column out"),
        (
            changed(e=lambda frame: frame.e.where(frame.e < 1, np.inf)),
            "shop",
            "infinite values in column 'e'",
            "replace",
        ),
        (changed(e=pd.Timestamp("2020-01-01")), "shop", "column 'e' holds dates", "days since an event"),
        (changed(e=[f"name {row}" for row in range(240)]), "shop", "column 'e' has 240 levels", "merge levels"),
    ],
    ids=["constant", "constant-text", "duplicated", "missing", "all-missing", "infinite", "dates", "too-many-levels"],
)
def test_a_column_that_cannot_be_used_is_named_with_its_party_and_a_remedy(make, party, what, remedy):
    with pytest.raises(DataError) as caught:
        discover(make(chain()))
    assert caught.value.where == party and what in caught.value.what and remedy in caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("records", [3, 5])
def test_fewer_records_than_columns_of_all_parties_are_refused(records):
    """Three parties with two columns each look harmless one by one."""
    with pytest.raises(DataError, match=f"{records} common records for 5 columns of all parties .*bring more records"):
        discover(chain()[:records])


def test_a_few_more_records_than_columns_are_enough_to_run():
    assert is_acyclic(discover(chain()[:8]).adjacency.to_numpy() > 0)


def test_missing_values_can_be_imputed():
    """The graph must stay near that of whole records, and never be NaN."""
    frame = chain()
    holes = frame.mask(np.random.default_rng(0).uniform(size=frame.shape) < 0.02)
    whole, imputed = (discover(table, missing="impute", epochs=150).strengths for table in (frame, holes))
    assert np.isfinite(imputed.to_numpy()).all()
    assert np.corrcoef(imputed.to_numpy().ravel(), whole.to_numpy().ravel())[0, 1] > 0.8


def test_two_parties_with_the_same_column_still_end_with_an_acyclic_graph():
    """Nobody can see it beforehand: columns never meet. One copy may explain the other, and no cycle comes of it."""
    frame = chain()
    graph = discover(frame.assign(c=frame.a), epochs=150, refit_epochs=20)
    mask = graph.adjacency > 0
    assert is_acyclic(mask.to_numpy()) and not (mask.loc["a", "c"] and mask.loc["c", "a"])
    assert np.isfinite(graph.strengths.to_numpy()).all()


def test_two_parties_with_the_same_name_are_told():
    frame = chain()
    federation = co.Federation.from_frames({"clinic": frame[["a", "b"]], "lab": frame[["b", "c"]]})
    with pytest.raises(DataError, match=r"lab: variable 'b' is also held by 'clinic' .*rename"):
        co.discover(co.align(federation), False, progress=False, **SHORT)


def test_records_must_be_aligned_first():
    frame = chain()
    federation = co.Federation.from_frames({"clinic": frame[["a", "b"]], "lab": frame[["c"]]})
    with pytest.raises(DataError, match=r"not aligned .*co.align"):
        co.discover(federation, False)


def test_a_record_that_a_party_lacks_is_no_reason_to_guess():
    frame = chain()
    federation = co.Federation.from_frames({"clinic": frame[["a", "b"]], "lab": frame[["c"]][:200]})
    with pytest.raises(DataError, match=r"lab: lacks some of the records .*'drop'"):
        co.discover(co.align(federation, "impute"), False, progress=False, **SHORT)
    assert len(co.discover(co.align(federation), False, progress=False, **SHORT).variables) == 3


def test_a_party_without_columns_is_named():
    with pytest.raises(DataError, match="'shop' has neither columns nor the label"):
        discover(chain(), {"clinic": ["a", "b"], "lab": ["c"], "shop": []})


def test_a_label_is_a_variable_of_its_party():
    frame = chain().assign(sick=lambda table: np.where(table.d > 0, "yes", "no"))
    federation = co.Federation.from_frame(frame, {"clinic": ["a"], "lab": ["c", "d"]}, label=("register", "sick"))
    graph = co.discover(federation, False, progress=False, **SHORT)
    assert graph.party_of == {"a": "clinic", "c": "lab", "d": "lab", "sick": "register"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "epoch: unknown setting .*did you mean 'epochs'"),
        ({"epochs": 0}, "epochs: .*greater than or equal to 1"),
        ({"missing": "drop"}, "missing: .*'refuse' or 'impute'"),
        ({"recipe": "papers"}, "recipe: no recipe 'papers' .*did you mean 'paper'"),
        ({"kinds": {"a": "continous"}}, "clinic: column 'a' has the unknown kind 'continous' .*'continuous'"),
        ({"kinds": {"height": "count"}}, "kinds: a kind is stated for 'height' .*known: a, b, c, d, e"),
        ({"seed": -1}, "seed: -1 is no seed"),
        ({"resume": True}, "run: nothing to resume from"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_the_nearest_known_one(settings, message):
    with pytest.raises(ConfigError, match=message):
        discover(chain(), **settings)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("count", "clinic: column 'a' is stated to be a count and holds other numbers .*continuous"),
        ("binary", "clinic: column 'a' is stated to be binary and has 240 different values"),
    ],
)
def test_a_kind_that_does_not_fit_the_values_is_refused(kind, message):
    with pytest.raises(DataError, match=message):
        discover(chain(), kinds={"a": kind})


def test_a_party_cannot_be_called_as_the_coordinator_is():
    with pytest.raises(ConfigError, match="'coordinator' holds columns"):
        discover(chain(), {"coordinator": ["a"], "lab": ["b"]})


def test_bad_input_of_an_encrypted_run_is_found_before_anything_is_encrypted():
    with pytest.raises(DataError, match="lab: column 'c' is constant"):
        discover(chain().assign(c=1.0), secure=True)


def test_a_party_named_all_is_refused_before_anything_is_learned():
    """Under reveal='own' nobody could tell its graph from the whole one."""
    federation = co.Federation.from_frame(chain(), {"all": ["a", "b"], "lab": ["c", "d", "e"]})
    with pytest.raises(ConfigError, match="give the party 'all' another name"):
        co.discover(federation, False, progress=False)


@pytest.mark.parametrize("seed", [1.5, -1, True, "0"])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ConfigError, match="is no seed"):
        discover(chain(), seed=seed)
