"""If these fail, a column enters discovery as something it is not, or a bad one is found only in a useless graph."""

import numpy as np
import pandas as pd
import pytest

from colonnade.discover.variables import BOUND, measures, prepare_columns
from colonnade.errors import ConfigError, DataError

N = 60
rng = np.random.default_rng(0)


def table(**columns):
    return pd.DataFrame({"age": np.random.default_rng(1).normal(50, 12, N), **columns})


def mixed():
    draw = np.random.default_rng(2)
    return table(
        smoker=draw.random(N) < 0.3,
        sex=draw.choice(["f", "m"], N),
        visits=draw.poisson(3, N),
        town=draw.choice(["Bern", "Chur", "Sion"], N),
        stage=pd.Categorical(draw.choice([10, 2, 3], N)),
    )


def test_kinds_are_guessed_from_the_values():
    found = prepare_columns(mixed())
    assert [(v.name, v.kind, v.levels, v.columns) for v in found.variables] == [
        ("age", "continuous", (), slice(0, 1)),
        ("smoker", "binary", ("0", "1"), slice(1, 2)),
        ("sex", "binary", ("f", "m"), slice(2, 3)),
        ("visits", "count", (), slice(3, 4)),
        ("town", "categorical", ("Bern", "Chur", "Sion"), slice(4, 7)),
        ("stage", "categorical", ("2", "3", "10"), slice(7, 10)),
    ]
    assert found.plain.shape == (N, 10) and found.target.shape == found.observed.shape == (N, 6)
    assert found.plain.dtype == found.target.dtype == np.float64


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(N) % 31, "continuous"),
        (np.arange(N) % 30, "count"),
        (np.arange(N) % 30 - 1, "continuous"),
        (np.arange(N) % 30 + 0.5, "continuous"),
        (1990 + np.arange(N) % 20, "continuous"),
        (np.arange(N) % 2 + 1.5, "binary"),
    ],
    ids=["31 values", "30 values", "negative", "halves", "years", "two numbers"],
)
def test_counts_are_small_whole_numbers(values, kind):
    assert prepare_columns(table(x=values)).variables[1].kind == kind


def test_plain_columns_have_mean_0_and_total_variance_1():
    found = prepare_columns(mixed())
    np.testing.assert_allclose(found.plain.mean(axis=0), 0, atol=1e-12)
    for variable in found.variables:
        assert found.plain[:, variable.columns].var(axis=0).sum() == pytest.approx(1)


def test_targets_are_what_a_decoder_predicts():
    frame = mixed()
    found = prepare_columns(frame)
    np.testing.assert_array_equal(found.target[:, 0], found.plain[:, 0])
    np.testing.assert_array_equal(found.target[:, 1], frame["smoker"])
    np.testing.assert_array_equal(found.target[:, 2], frame["sex"] == "m")
    np.testing.assert_array_equal(found.target[:, 3], frame["visits"])
    towns = [found.variables[4].levels[int(number)] for number in found.target[:, 4]]
    assert towns == frame["town"].tolist()
    expected = np.log1p(frame["visits"].to_numpy())
    np.testing.assert_allclose(found.plain[:, 3], (expected - expected.mean()) / expected.std())


def test_stated_kinds_are_followed():
    found = prepare_columns(mixed(), kinds={"visits": "continuous", "stage": "categorical"})
    assert [v.kind for v in found.variables][3] == "continuous"
    codes = prepare_columns(table(code=np.arange(N) % 4 + 1), kinds={"code": "categorical"}).variables[1]
    assert codes.levels == ("1", "2", "3", "4") and codes.width == 4


def test_outliers_are_clipped():
    values = np.random.default_rng(0).normal(size=400)
    values[7] = 1e6
    found = prepare_columns(pd.DataFrame({"x": values}))
    assert found.plain[7, 0] == BOUND == found.target[7, 0]


def test_without_standardising_columns_keep_their_scale():
    frame = mixed()
    found = prepare_columns(frame, standardise=False)
    np.testing.assert_allclose(found.plain[:, 0], frame["age"] - frame["age"].mean())
    assert np.abs(found.plain[:, 0]).max() > BOUND


def test_raw_variances_are_kept_for_varsortability():
    frame = mixed()
    found = measures(prepare_columns(frame))
    assert list(found) == list(frame.columns)
    assert found["age"] == pytest.approx(frame["age"].var(ddof=0))
    assert found["visits"] == pytest.approx(frame["visits"].var(ddof=0))
    shares = frame["town"].value_counts(normalize=True)
    assert found["town"] == pytest.approx(1 - (shares**2).sum())


@pytest.mark.parametrize("name", ["age", "smoker", "sex", "visits", "town", "stage"])
def test_imputed_values_say_nothing(name):
    frame = mixed().astype({"smoker": object, "visits": "Int64"})
    frame.loc[[3, 11], name] = None
    found = prepare_columns(frame, missing="impute")
    place = list(frame.columns).index(name)
    columns = found.variables[place].columns
    assert (found.plain[[3, 11], columns] == 0).all() and not found.observed[[3, 11], place].any()
    assert found.observed.sum() == N * 6 - 2 and np.isfinite(found.target).all()
    seen = found.plain[found.observed[:, place], columns]
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
    assert seen.var(axis=0).sum() == pytest.approx(1)


age = table()["age"]
BAD = {
    "constant": (table(x=np.full(N, 3.0)), "'x' is constant"),
    "constant text": (table(x=["a"] * N), "'x' is constant"),
    "constant but for rounding": (table(x=1e9 + 1e-5 * np.arange(N)), "'x' is constant"),
    "duplicate": (table(x=age), "'age' and 'x' say the same"),
    "linear": (table(x=-1.8 * age + 32), "'age' and 'x' say the same"),
    "linear binary": (table(a=np.arange(N) % 2, b=["u", "v"] * (N // 2)), "'a' and 'b' say the same"),
    "renamed levels": (table(a=list("uvw") * 20, b=list("zyx") * 20), "'a' and 'b' say the same"),
    "missing": (table(x=[np.nan, *rng.normal(size=N - 1)]), "'x' has 1 missing"),
    "missing text": (table(x=[None, None, *"abc" * 19, "a"]), "'x' has 2 missing"),
    "all missing": (table(x=np.full(N, np.nan)), "every value of column 'x' is missing"),
    "infinite": (table(x=[np.inf, *rng.normal(size=N - 1)]), "'x' has infinite"),
    "too large": (table(x=1e160 * rng.normal(size=N)), "'x' are too large"),
    "too small": (table(x=1e-200 * rng.normal(size=N)), "'x' are too small"),
    "too many levels": (table(x=[f"name {n}" for n in range(N)]), "'x' has 60 levels"),
    "dates": (table(x=pd.date_range("2020", periods=N)), "'x' holds dates"),
    "no columns": (pd.DataFrame(index=range(N)), "no columns"),
    "few records": (pd.DataFrame(rng.normal(size=(3, 4)), columns=list("abcd")), "3 records for 4 encoded columns"),
    "few records for levels": (table(x=list("abcd") * 15).head(4), "4 records for 5 encoded columns"),
    "no records": (table().head(0), "0 records"),
    "one name twice": (pd.DataFrame(rng.normal(size=(9, 2)), columns=["a", "a"]), "'a' occurs twice"),
}


@pytest.mark.parametrize(("frame", "message"), BAD.values(), ids=BAD)
def test_bad_columns_are_one_clear_error(frame, message):
    with pytest.raises(DataError) as caught:
        prepare_columns(frame, where="clinic")
    assert message in str(caught.value)
    assert caught.value.where == "clinic" and caught.value.remedy and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (np.arange(N) % 3, "binary", "3 different values"),
        (list("ab") * 30, "continuous", "holds text"),
        (np.arange(N) - 5.0, "count", "other numbers"),
        (np.arange(N) + 100, "count", "above 50 on average"),
        (np.arange(N), "categorical", "60 levels"),
    ],
)
def test_a_stated_kind_must_fit(values, kind, message):
    with pytest.raises(DataError, match=message):
        prepare_columns(table(x=values), kinds={"x": kind})


def test_kinds_of_unknown_columns_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'age'"):
        prepare_columns(table(), kinds={"agee": "continuous"})
    with pytest.raises(ConfigError, match="did you mean 'count'"):
        prepare_columns(table(), kinds={"age": "counts"})


def test_columns_that_are_only_alike_are_kept():
    """Strong correlation is what discovery is for; only an exact copy is refused."""
    noise = np.random.default_rng(5).normal(size=N)
    found = prepare_columns(table(x=age + 1e-3 * noise, town=list("abc") * 20, region=list("abcabd") * 10))
    assert len(found.variables) == 4


def test_a_copy_is_found_through_missing_values():
    copied, other = 2 * age + 1, age.copy()
    copied[:5], other[10:14] = np.nan, np.nan
    with pytest.raises(DataError, match="'age' and 'x'"):
        prepare_columns(pd.DataFrame({"age": other, "x": copied}), missing="impute")


def test_few_common_records_prove_no_copy():
    one, two = (np.arange(N) % 2).astype(float), (np.arange(N) % 2).astype(float)
    one[:28], two[32:] = np.nan, np.nan
    assert len(prepare_columns(pd.DataFrame({"a": one, "b": two}), missing="impute").variables) == 2
