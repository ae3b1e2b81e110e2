"""If these fail, a model that went through a pickle tells what its defense should hide."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = pd.DataFrame(rng.normal(size=(200, 4)), columns=["age", "bmi", "glucose", "insulin"])
    return columns.assign(outcome=np.where(columns["age"] + columns["glucose"] > 0, "ill", "well"))


def trained(table, defense):
    parties = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
    federation = co.Federation.from_frame(table, parties, label=("clinic", "outcome"))
    return co.train(federation, defense, epochs=1, batch_size=32, progress=False)


NOISE = {"name": "gaussian", "sigma": 5.0}


@pytest.mark.parametrize("defense", [NOISE, {"name": "layered", "layers": ["quantise", NOISE]}])
@pytest.mark.parametrize("again", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
def test_models_from_one_pickle_never_draw_the_same_noise(table, defense, again):
    """In every process a pickled model began the same stream: the difference of two uploads was free of noise."""
    model = trained(table, defense)
    first, second = again(model), again(model)
    uploads = [each.uploads(table)["lab"] for each in (first, second, model)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert float((uploads[one] - uploads[other]).std()) > NOISE["sigma"], "noise of its own on each"


def test_a_pickled_model_answers_as_before(table):
    """Whoever keeps an estimator with joblib would get back another model."""
    model = trained(table, "none")
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again.uploads(table)["lab"], model.uploads(table)["lab"])
    assert again.predict(table).labels.equals(model.predict(table).labels) and again.scores == model.scores
    assert again.federation is None, "records do not travel with a model"


def test_noise_that_a_record_keeps_is_kept(table):
    """A record asked about in many processes would have its noise averaged out."""
    model = trained(table, {"name": "dp_gaussian", "memoise": True})
    assert torch.equal(pickle.loads(pickle.dumps(model)).uploads(table)["lab"], model.uploads(table)["lab"])
