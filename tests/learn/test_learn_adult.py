"""Adult over three parties: if this fails, federating a real table costs accuracy that pooling would have kept."""

import pytest
from sklearn.linear_model import LogisticRegression

import colonnade as co
from colonnade.data.preparation import prepare_features
from colonnade.learn.joint import JointRun

PARTIES = {
    "bank": ["age", "workclass", "fnlwgt", "education", "education_num"],
    "employer": ["occupation", "hours_per_week", "capital_gain", "capital_loss"],
    "registry": ["marital_status", "relationship", "race", "sex", "native_country"],
}


@pytest.mark.slow
def test_adult_over_three_parties_is_as_good_as_pooled(shared_data):
    data = co.load_dataset("adult", shared_data / "tabular")
    frame = data.table.assign(income=data.label, part=data.split)
    federation = co.Federation.from_frame(frame, PARTIES, label=("bank", "income"), split="part")
    settings = {"epochs": 10, "optimizer": {"learning_rate": 2e-3, "schedule": "cosine"}}
    model = co.train(federation, seed=0, progress=False, **settings)
    joint = JointRun(federation, co.Task.model_validate(settings), seed=0)
    joint.run()
    assert abs(model.scores["accuracy"] - joint.test()["accuracy"]) <= 0.003
    assert model.scores["accuracy"] >= pooled_logistic_regression(frame)


def pooled_logistic_regression(frame) -> float:
    columns = [column for held in PARTIES.values() for column in held]
    parts = {}
    for part in ("train", "test"):
        rows = frame[frame["part"] == part]
        parts[part] = co.Records.from_frame(rows, columns=columns, label="income")
    preparation = prepare_features(parts["train"])
    regression = LogisticRegression(max_iter=2000).fit(preparation.transform(parts["train"]), parts["train"].label)
    return regression.score(preparation.transform(parts["test"]), parts["test"].label)
