"""If these fail, a result says that records were found, or were safe, where they were not."""

import math

import numpy as np
import pandas as pd
import pytest

from colonnade.audit.score import MEASURES, column_scores, scores, trivial_guesses, trivial_scores, why_no_lpips
from colonnade.audit.truth import Truth, check_guesses, columns_of, joined, natural, truth_of
from colonnade.data.preparation import prepare_features
from colonnade.data.records import Records
from colonnade.errors import ConfigError, DataError

RNG = np.random.default_rng(0)


def prepared_images(channels=3):
    images = RNG.integers(0, 256, (20, channels, 6, 5), dtype=np.uint8)
    records = Records(pd.RangeIndex(20), images=images)
    preparation = prepare_features(records)
    return images / 255, preparation, preparation.transform(records)


def prepared_table():
    frame = pd.DataFrame(
        {
            "city": ["north", "south", "north", None, "north", "west"],
            "height": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0],
            "weight": [3.0, 1.0, 2.0, 5.0, 4.0, 0.0],
        }
    )
    records = Records.from_frame(frame)
    preparation = prepare_features(records)
    return preparation, preparation.transform(records).astype(float)


def test_prepared_pictures_become_the_pixels_they_were():
    pixels, preparation, prepared = prepared_images()
    assert np.allclose(natural(preparation, prepared), pixels, atol=1e-6)
    assert natural(preparation, 100 * prepared).max() == 1, "pixels end at 1"
    assert natural(preparation, 100 * prepared).min() == 0


def test_every_measure_is_the_one_that_its_name_says():
    pixels, preparation, prepared = prepared_images()
    truth = truth_of(preparation, prepared[:12], prepared[12:])
    guesses = np.clip(pixels[:12] + RNG.normal(0, 0.1, pixels[:12].shape), 0, 1)
    found = scores(truth, guesses, threshold=0.008)
    each = [float(np.mean((guesses[i] - pixels[i]) ** 2)) for i in range(12)]
    blind = [float(np.mean((pixels[12:].mean(axis=0) - pixels[i]) ** 2)) for i in range(12)]
    nearest = [np.argmin([np.sum((guesses[i] - pixels[j]) ** 2) for j in range(12)]) == i for i in range(12)]
    assert tuple(found) == MEASURES
    assert found["mse"] == pytest.approx(np.mean(each), rel=1e-5)
    assert found["psnr"] == pytest.approx(np.mean([10 * math.log10(1 / error) for error in each]), rel=1e-5)
    assert found["skill"] == pytest.approx(1 - np.mean(each) / np.mean(blind), rel=1e-5)
    assert found["identification"] == np.mean(nearest)
    assert found["asr"] == np.mean(np.array(each) <= 0.008)
    assert 0 < found["asr"] < 1
    assert -1 <= found["ssim"] < 1


def test_a_table_has_no_measures_of_pictures():
    preparation, prepared = prepared_table()
    found = scores(truth_of(preparation, prepared[:4], prepared[4:]), prepared[:4])
    assert [name for name in MEASURES if math.isnan(found[name])] == ["psnr", "ssim", "lpips"]
    assert found["mse"] == 0
    assert found["skill"] == found["identification"] == found["asr"] == 1


def test_trivial_guesses_score_as_trivial():
    _, preparation, prepared = prepared_images()
    truth = truth_of(preparation, prepared[:12], prepared[12:])
    found = {name: scores(truth, guess) for name, guess in trivial_guesses(truth, seed=0).items()}
    assert list(found) == ["mean record", "constant grey", "random other", "per-record mean"]
    assert found["mean record"]["skill"] == 0
    assert found["mean record"]["identification"] == pytest.approx(1 / 12), "a blind guess finds by chance"
    assert found["random other"]["identification"] == 0
    assert found["constant grey"]["mse"] == pytest.approx(np.mean((truth.records - 0.5) ** 2))
    preparation, prepared = prepared_table()
    tables = truth_of(preparation, prepared[:4], prepared[4:])
    assert "constant grey" not in trivial_guesses(tables, seed=0), "a table has no grey"


def test_columns_of_a_table_are_found_again():
    """Each column's numbers stand where the preparation puts them: its own name for each says where."""
    preparation, _ = prepared_table()
    names = preparation.feature_names
    found = {column.name: names[column.places] for column in columns_of(preparation)}
    assert found == {
        "height": ["height"],
        "weight": ["weight"],
        "city": ["city=north", "city=south", "city=west", "city is missing"],
    }


def test_every_column_has_its_own_score():
    preparation, prepared = prepared_table()
    truth = truth_of(preparation, prepared, prepared[[0, 2, 4]])  # all of the attacker's are in the north
    guesses = prepared.copy()
    names = preparation.feature_names
    guesses[:, names.index("weight")] = truth.blind[names.index("weight")]
    guesses[1, names.index("city=south")] = 0.1
    guesses[1, names.index("city=west")] = 0.2
    found = {row["column"]: row for row in column_scores(truth, guesses)}
    assert found["height"]["skill"] == 1
    assert found["weight"]["skill"] == 0
    assert found["city"]["hits"] == 5 / 6
    assert found["city"]["majority"] == 3 / 6
    assert math.isnan(found["city"]["skill"])
    assert math.isnan(found["weight"]["hits"])


def test_a_category_that_training_never_saw_counts_for_nothing():
    preparation, _ = prepared_table()
    new = pd.DataFrame({"city": ["east", "south"], "height": [1.0, 2.0], "weight": [1.0, 2.0]})
    prepared = preparation.transform(Records.from_frame(new)).astype(float)
    truth = truth_of(preparation, prepared, prepared)
    found = {row["column"]: row for row in column_scores(truth, np.zeros_like(prepared) + prepared[[1, 1]])}
    assert found["city"]["hits"] == 1


def test_strips_make_whole_pictures_and_nothing_else_does():
    strips = {name: Truth(RNG.random((4, 1, 6, 3)), RNG.random((1, 6, 3)), image=True) for name in ("left", "right")}
    whole = joined(strips)
    assert whole.records.shape == (4, 1, 6, 6)
    assert np.array_equal(whole.records[..., :3], strips["left"].records)
    assert np.array_equal(whole.blind[..., 3:], strips["right"].blind)
    assert joined({"left": strips["left"]}) is None
    taller = Truth(RNG.random((4, 1, 7, 3)), RNG.random((1, 7, 3)), image=True)
    assert joined({"left": strips["left"], "right": taller}) is None
    columns = Truth(RNG.random((4, 3)), RNG.random(3), image=False)
    assert joined({"left": strips["left"], "right": columns}) is None


@pytest.mark.parametrize(
    ("guesses", "complaint"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\), not \(4, 2\)"),
        (np.full((4, 2), np.nan), "no numbers"),
        (np.full((4, 2), "a"), "type"),
        (np.zeros((4, 2), complex), "type"),
        (np.full((4, 2), 1e200), "beyond"),
        (np.full((4, 2), -1e30), "beyond"),
        (np.full((4, 2), np.finfo(np.longdouble).max), "beyond|infinite"),
    ],
)
def test_guesses_that_can_not_be_scored_are_refused(guesses, complaint):
    with pytest.raises(DataError, match=complaint):
        check_guesses(guesses, (4, 2), "attack 'x'")


def test_the_perceptual_distance_is_measured_where_its_weights_are(monkeypatch):
    from colonnade.measure import perceptual

    _, preparation, prepared = prepared_images()
    truth = truth_of(preparation, prepared[:12], prepared[12:])

    def absent():
        raise ConfigError("the network's weights are not installed", where="lpips", remedy="install them")

    monkeypatch.setattr(perceptual, "weights", absent)
    assert math.isnan(scores(truth, truth.records)["lpips"])
    assert why_no_lpips() == "lpips was not measured: lpips: the network's weights are not installed (install them)"
    monkeypatch.setattr(perceptual, "weights", lambda: None)
    monkeypatch.setattr(perceptual, "lpips", lambda guesses, images: np.arange(len(images)) / 10)
    assert why_no_lpips() is None
    assert scores(truth, truth.records)["lpips"] == pytest.approx(0.55)


def test_trivial_scores_are_those_of_the_records_at_hand_and_nobody_can_change_them():
    """They are remembered: others of the same numbers, or whoever adds a word to them, would change a table."""
    whole = RNG.random((12, 3, 8, 8)).astype(np.float32)
    shapes = whole, whole.reshape(12, 3, 4, 16)
    for records in shapes:
        truth = Truth(records, records.mean(0), image=True)
        found = trivial_scores(truth, 0)
        expected = {name: scores(truth, guess) for name, guess in trivial_guesses(truth, 0).items()}
        assert found.keys() == expected.keys()
        for name, numbers in expected.items():
            assert found[name] == pytest.approx(numbers, nan_ok=True)
        found["mean record"]["mse"] = -1.0
        assert trivial_scores(truth, 0)["mean record"]["mse"] == expected["mean record"]["mse"]
