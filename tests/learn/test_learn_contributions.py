"""If these fail, parties are paid for chance: a useful one is charged, or one that knows nothing gets its money."""

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co
from colonnade.federation.task import OptimizerSettings
from colonnade.learn import contributions as module
from colonnade.learn.contributions import FEWEST_RECORDS, MOST_RECORDS, Jury, contributions, effort
from colonnade.learn.top import Top
from colonnade.measure.shapley import shapley
from colonnade.nets import build_top

SPLIT = {"train": 0.5, "validation": 0.1, "test": 0.4}
PARTIES = {"bank": ["savings"], "employer": ["wage"], "gym": ["steps"], "club": ["shoe"]}


def train(table, parties, label, seed=0, **settings):
    owner = next(iter(parties))
    federation = co.Federation.from_frame(table, parties, label=(owner, label))
    return co.train(federation, seed=seed, epochs=20, split=SPLIT, progress=False, **settings)


def people(seed=0, count=6000):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(count, 4)), columns=[name for names in PARTIES.values() for name in names])
    table["wealth"] = table.savings + table.wage + 0.5 * table.steps
    table["rich"] = np.where(table.wealth > 0, "yes", "no")
    table["class"] = pd.cut(table.wealth, [-99, -1, 0, 1, 99], labels=["a", "b", "c", "d"]).astype(str)
    return table


# -- games with a known answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_party_that_the_model_needs_is_paid_and_one_that_knows_nothing_is_not(seed):
    """Without the gym a model gets .89 instead of .99.

    Over eight seeds the gym got .13 to .17, the equal parties differed by .04 at most, the club was .0005 from zero.
    """
    model = train(people(seed), PARTIES, "rich", seed)
    shares = model.contributions
    assert sum(shares.values()) == pytest.approx(1)
    assert 0.09 < shares["gym"] < 0.21
    assert abs(shares["bank"] - shares["employer"]) < 0.12
    assert abs(shares["club"]) < 0.02


def test_equal_parties_among_many_get_about_the_same():
    """Ten parties are sampled. Over five seeds the five that matter got .15 to .24."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(6000, 10)), columns=[f"x{number}" for number in range(10)])
    table["rich"] = np.where(table[[f"x{number}" for number in range(5)]].sum(axis=1) > 0, "yes", "no")
    shares = train(table, {f"p{number}": [f"x{number}"] for number in range(10)}, "rich").contributions
    assert sum(shares.values()) == pytest.approx(1)
    assert all(0.1 < shares[f"p{number}"] < 0.3 for number in range(5))
    assert all(abs(shares[f"p{number}"]) < 0.02 for number in range(5, 10))


def test_a_regression_shares_out_the_variance_that_is_explained():
    """Four parts to four parts to one: what each adds to the sum, squared."""
    shares = train(people(), PARTIES, "wealth").contributions
    assert shares == pytest.approx({"bank": 4 / 9, "employer": 4 / 9, "gym": 1 / 9, "club": 0}, abs=0.05)


def test_many_classes_share_out_as_two_do():
    shares = train(people(), PARTIES, "class").contributions
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["gym"] > 0.05 and abs(shares["club"]) < 0.02
    assert abs(shares["bank"] - shares["employer"]) < 0.12


@pytest.fixture(scope="module")
def by_records_held():
    """The gym's share where it holds all test records, every other one, and none; the model is the same."""
    table = people()
    table["part"] = np.repeat(["train", "test"], 3000)
    made = co.Federation.from_frame(table, PARTIES, label=("bank", "rich"), split="part")
    places, shares = np.arange(len(table)), {}
    lacking = {"none": places < 0, "half": (places >= 3000) & (places % 2 == 0), "all": places >= 3000}
    for name, lacks in lacking.items():
        held = made.aligned({**made.rows, "gym": np.where(lacks, -1, places)})
        half = {"train": 0.5, "validation": 0.0, "test": 0.5}
        model = co.train(held, seed=0, epochs=20, progress=False, missing="impute", split=half)
        shares[name] = model.contributions
    return shares


def test_records_that_a_party_lacks_bring_it_nothing(by_records_held):
    for shares in by_records_held.values():
        assert sum(shares.values()) == pytest.approx(1)
    assert by_records_held["all"]["gym"] == pytest.approx(0, abs=1e-6)
    assert 0.02 < by_records_held["half"]["gym"] < by_records_held["none"]["gym"] - 0.02


# -- the equation ------------------------------------------------------------------------------------------------------


def made(family, shapes, join, outputs, regression):
    return Top(
        build_top(family, shapes, outputs, hidden=(6, 5, 4), join=join, seed=0),
        regression=regression,
        settings=OptimizerSettings(),
        upload_shapes=shapes,
        device=torch.device("cpu"),
    )


def by_hand(top, rows, labels):
    """v(S), one record and one other record at a time."""
    count, network = len(labels), top.network.eval()

    def answer(present, record, other):
        one = [row[[record if place in present else other]] for place, row in enumerate(rows)]
        return network(one)[0]

    mean = torch.stack([answer({0, 1, 2}, record, record).softmax(0) for record in range(count)]).mean(0)

    def worth(coalition):
        present, total = {int(name) for name in coalition}, 0.0
        for record in range(count):
            answers = [answer(present, record, other) for other in range(count) if other != record]
            if top.regression:
                total -= float((torch.stack(answers).mean() - labels[record]) ** 2)
            else:
                voices = [one.softmax(0)[labels[record]] for one in answers] + [mean[labels[record]]]
                total += float(torch.stack(voices).mean().log())
        return total / count

    return worth


@pytest.mark.parametrize("regression", [False, True], ids=["classes", "regression"])
@pytest.mark.parametrize("at_once", [1, 20, 10**6])
@pytest.mark.parametrize(
    ("family", "shapes", "join"),
    [
        ("mlp", [(3,), (5,), (4,)], "auto"),
        ("mnist_net", [(16, 4, 1)] * 3, "width"),
        ("mnist_net", [(16, 4, 4)] * 3, "features"),
        ("resnet18", [(64, 4, 2)] * 3, "width"),
    ],
)
def test_shares_are_those_of_the_equation(family, shapes, join, at_once, regression, monkeypatch):
    """With so few records that all others stand in for each."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    generator, count = torch.Generator().manual_seed(0), 5
    top = made(family, shapes, join, 1 if regression else 3, regression)
    rows = [torch.randn(count, *shape, generator=generator) for shape in shapes]
    with top.at_rest():
        outputs = top.network(rows)
        surprises = outputs.log_softmax(1) - outputs.softmax(1).mean(0).log()
        labels = outputs[:, 0].clone() if regression else surprises.argmax(1)  # what the network knows best
        expected = shapley(by_hand(top, rows, labels), ["0", "1", "2"])
    assert expected.total > 0
    found = contributions(top, rows, labels, ["0", "1", "2"], seed=0)
    assert found == pytest.approx(expected.fractions(), abs=1e-3)


def test_where_all_uploads_do_harm_there_is_nothing_to_share_out():
    """Shares of a loss would have the wrong sign: who does most harm would be paid most."""
    top = made("mlp", [(3,), (5,)], "auto", 3, regression=False)
    rows = [torch.randn(40, size, generator=torch.Generator().manual_seed(size)) for size in (3, 5)]
    with top.at_rest():
        outputs = top.network(rows)
    unlike = (outputs.log_softmax(1) - outputs.softmax(1).mean(0).log()).argmin(1)
    assert contributions(top, rows, unlike, ["a", "b"], seed=0) == {}


def test_a_single_test_record_shares_out_nothing():
    top = made("mlp", [(3,), (5,)], "auto", 2, regression=False)
    assert contributions(top, [torch.zeros(1, 3), torch.zeros(1, 5)], torch.tensor([0]), ["a", "b"], seed=0) == {}


# -- which records judge -----------------------------------------------------------------------------------------------


def test_the_more_coalitions_the_fewer_records():
    dense, maps = (
        made(*how, 2, False).network for how in (("mlp", [(3,)], "auto"), ("resnet18", [(64, 4, 2)], "auto"))
    )
    assert [effort(dense, parties).records for parties in (2, 6, 7, 8, 19)] == [MOST_RECORDS, 2048, 1024, 512, 512]
    assert [effort(maps, parties).records for parties in (2, 3, 8, 19)] == [512, 256, FEWEST_RECORDS, FEWEST_RECORDS]


def test_the_seed_draws_the_records_that_judge(monkeypatch):
    monkeypatch.setattr(module, "MOST_RECORDS", 100)
    top = made("mlp", [(1,), (1,)], "auto", 2, regression=False)
    heard = []

    def listen(top, rows, labels, parties, seed):
        heard.append(rows[0].flatten().tolist())
        return {}

    monkeypatch.setattr(module, "contributions", listen)
    test = np.arange(50, 1050)
    for seed in (0, 0, 1):
        jury = Jury(top, ["a", "b"], test, seed)
        for part in np.split(test, 4):
            rows = torch.from_numpy(part).float()[:, None]
            jury.hear(part, [rows, rows], torch.zeros(len(part), dtype=torch.long))
        jury.contributions()
    assert len(heard[0]) == 100 and heard[0] == heard[1] != heard[2]
