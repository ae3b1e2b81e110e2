"""What every defense owes to the training loop, whatever it does to a representation.

To enter a defense, append it to `DEFENSES_UNDER_TEST`: its name, which is also the name of its module in
`colonnade.defend`, and arguments that keep it quick. What it can't do by nature is said there, with the reason.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from colonnade.checkpoint import under
from colonnade.data.preparation import prepare_features
from colonnade.data.records import Records
from colonnade.data.secrets import Secret
from colonnade.defend.registry import DEFENSES, make_defense
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom
from colonnade.learn.checkpoint import read_tensors, write_tensors
from colonnade.nets import initialised, upload_shape

RECORDS = 40
BATCH = 10
STEPS = 3


@dataclass(frozen=True)
class Case:
    """A defense and the arguments it is tested with.

    Attributes:
        name: as registered.
        arguments: of its `__init__`; small ones.
        kinds: on which representations it works.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("vectors", "maps")

    def __str__(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.name}({given})"


DEFENSES_UNDER_TEST = [
    Case("none"),
    Case("gaussian"),
    Case("dp_laplace", {"epsilon": 500.0}),
    Case("dp_laplace", {"mode": "paper", "memoise": True}),
    Case("dp_gaussian", {"epsilon": 500.0}),
    Case("dp_gaussian", {"mode": "paper", "memoise": True}),
    Case("prune", {"rate": 0.5}),
    Case("soteria", {"rate": 0.5, "probes": 4}),
    Case("nopeek"),
    Case("top_k", {"kept": 0.5}),
    Case("top_k", {"kept": 0.2, "feedback": True}),
    Case("quantise", {"levels": 4}),
    Case("quantise", {"levels": 4, "feedback": True}),
    Case("nashcoder"),
    Case("hashvfl", {"bits": 5}),
    Case("fedpass"),
    Case("prifu"),
    Case("disco"),
    Case("ressfl", {"warm_up": 2}),
    Case("inf2guard"),
    Case("d3sfl"),
    Case("invl_dnp", {"rank": 4, "refresh": 1}),
    Case("invl_dnp", {"rank": 4, "refresh": 2}),
    Case("invl_enp", {"rank": 4, "refresh": 1}),
    Case("invl_enp", {"rank": 4, "refresh": 2}),
    Case("bottleneck"),
    Case("bottleneck", {"adversary": 0.0, "memoise": True}),
    Case("layered", {"layers": [make_defense("quantise", levels=4).describe(), make_defense("nashcoder").describe()]}),
    Case("layered", {"layers": [make_defense("nopeek").describe(), make_defense("prune", rate=0.5).describe()]}),
    Case("keystone", {"veil": 4}),
    Case("keystone", {"veil": 0, "channels": 3, "grid": 1, "sigma": 0.5, "levels": 4, "negatives": False}),
    Case("causshield", {"rounds": 2, "surrogate_epochs": 1}),
    Case("causshield", {"rounds": 2, "route": "persistent", "mask_source": "none", "surrogate_epochs": 1}),
]

SHAPES = {"vectors": (7,), "maps": (3, 8, 8)}


def pairs():
    return [
        pytest.param(case, kind, id=f"{case}-{kind}")
        for case in DEFENSES_UNDER_TEST
        for kind in SHAPES
        if kind in case.kinds
    ]


every_defense = pytest.mark.parametrize(("case", "kind"), pairs())


@cache
def records(kind):
    random = np.random.default_rng(0)
    ids = pd.Index(range(RECORDS))
    if kind == "maps":
        return Records(ids, images=random.integers(0, 256, (RECORDS, *SHAPES[kind]), dtype=np.uint8))
    columns = [f"column {number}" for number in range(SHAPES[kind][0])]
    return Records(ids, table=pd.DataFrame(random.normal(size=(RECORDS, len(columns))), ids, columns))


def plain_bottom(kind, seed=0):
    if kind == "maps":
        return initialised(lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()), seed)
    return initialised(lambda: nn.Sequential(nn.Linear(7, 12), nn.BatchNorm1d(12), nn.ReLU()), seed)


def made(case, kind, seed=0):
    """A defense that has met its records, and the network it asks for; as when a model is loaded."""
    importlib.import_module(f"colonnade.defend.{case.name}")
    defense = make_defense(case.name, **case.arguments)
    preparation = prepare_features(records(kind))
    defense.seed(seed)
    defense.meet(preparation)
    return defense, defense.extend(plain_bottom(kind, seed), SHAPES[kind]), preparation


def at_work(case, kind, seed=0, resumes=False):
    """The same, prepared for the first step; as when a run begins, or before a checkpoint is loaded."""
    defense, network, preparation = made(case, kind, seed)
    features = torch.from_numpy(preparation.transform(records(kind)))
    bottom = Bottom(network, features, defense, settings=OptimizerSettings(), device=torch.device("cpu"))
    if defense.needs_secrets:
        defense.confide([Secret("sex", np.arange(len(features)) % 2, 2)])
    (defense.resume if resumes else defense.prepare)(bottom.network, bottom.features)
    return bottom


def train(bottom, first, last):
    """Steps `first` to `last`: the same rows and the same gradients at the same step."""
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        rows = torch.randperm(RECORDS, generator=generator)[:BATCH]
        upload = bottom.upload(rows, train=True)
        bottom.learn(torch.randn(upload.shape, generator=generator) / BATCH, rate=1e-2)


def differing(first, second):
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


def copied(state):
    return {name: tensor.detach().clone() for name, tensor in state.items()}


@every_defense
@pytest.mark.parametrize("train", [True, False])
def test_uploads_have_the_shape_that_the_top_model_is_built_for(case, kind, train):
    """The first batch would not fit the top model."""
    bottom = at_work(case, kind)
    upload = bottom.upload(torch.arange(BATCH), train)
    assert upload.shape == (BATCH, *upload_shape(bottom.network, SHAPES[kind]))
    assert upload.dtype == torch.float32 and torch.isfinite(upload).all() and not upload.requires_grad


@every_defense
def test_gradients_reach_every_weight(case, kind):
    """A part of the bottom model would never learn. A bias before a normalisation moves nothing and may stay."""
    bottom = at_work(case, kind)
    before = copied(bottom.network.state_dict())
    train(bottom, 0, STEPS)
    still = differing_not(before, bottom.network)
    assert not [name for name in still if name.endswith("weight")]


def differing_not(before, network):
    return [name for name, parameter in network.named_parameters() if torch.equal(before[name], parameter)]


@every_defense
def test_a_resumed_run_repeats_the_undisturbed_one(case, kind, tmp_path):
    """After a crash the run would end with other weights. The state travels through a file, without pickle."""
    undisturbed = at_work(case, kind)
    train(undisturbed, 0, STEPS)
    write_tensors(tmp_path / "state.safetensors", undisturbed.state_dict(), {})
    train(undisturbed, STEPS, 2 * STEPS)
    resumed = at_work(case, kind, resumes=True)
    resumed.load_state_dict(read_tensors(tmp_path / "state.safetensors")[0])
    train(resumed, STEPS, 2 * STEPS)
    assert differing(undisturbed.state_dict(), resumed.state_dict()) == []
    assert resumed.defense.meters() == undisturbed.defense.meters(), "what was measured before the crash counts too"


@pytest.mark.parametrize("name", ["disco", "inf2guard", "causshield"])
def test_a_state_of_an_older_version_without_meters_is_loaded(name):
    """Runs that were begun with it could not be resumed, and models that it saved not be read."""
    case = next(case for case in DEFENSES_UNDER_TEST if case.name == name)
    trained = at_work(case, "vectors")
    train(trained, 0, STEPS)
    state = trained.defense.state_dict()
    kept = {key: value for key, value in state.items() if key.split("/")[-1] not in ("meter", "meters", "metered")}
    assert len(kept) < len(state)
    resumed = at_work(case, "vectors", resumes=True)
    resumed.defense.load_state_dict(kept)
    assert resumed.defense.meters() == {}


@every_defense
def test_a_loaded_model_uploads_what_the_trained_one_did(case, kind, tmp_path):
    """Predictions in another process would go out under another protection."""
    trained = at_work(case, kind)
    train(trained, 0, STEPS)
    trained.defense.finish(trained.network, trained.features)
    write_tensors(tmp_path / "state.safetensors", trained.state_dict(), {})
    expected = trained.upload(torch.arange(BATCH), train=False)
    state = read_tensors(tmp_path / "state.safetensors")[0]
    # As learn/part.py does it: nothing is prepared, and the first weights come from another seed.
    defense, network, _ = made(Case(**remade(trained.defense)), kind, seed=1)
    network.load_state_dict(under("network", state))
    defense.load_state_dict(under("defense", state))
    network.eval()
    with torch.no_grad():
        x = defense.disguise(trained.features[:BATCH])
        assert torch.equal(defense.protect(x, network(x), train=False), expected)


def remade(defense):
    described = json.loads(json.dumps(defense.describe()))
    return {"name": described.pop("name"), "arguments": described}


@every_defense
def test_uploads_outside_training_teach_nothing(case, kind):
    """Evaluating between epochs would change the model."""
    steady, looked_at = at_work(case, kind), at_work(case, kind)
    train(steady, 0, 2 * STEPS)
    train(looked_at, 0, STEPS)
    stream = looked_at.defense.generator.get_state()
    looked_at.upload(torch.arange(RECORDS), train=False)
    looked_at.defense.generator.set_state(stream)
    train(looked_at, STEPS, 2 * STEPS)
    assert differing(steady.network.state_dict(), looked_at.network.state_dict()) == []


@every_defense
def test_a_used_defense_begins_anew(case, kind):
    """A second run with the same seed would not repeat the first."""
    fresh, used = at_work(case, kind), at_work(case, kind, seed=5)
    train(used, 0, STEPS)
    defense = used.defense
    defense.seed(0)
    defense.meet(prepare_features(records(kind)))
    network = defense.extend(plain_bottom(kind), SHAPES[kind])
    again = Bottom(network, used.features, defense, settings=OptimizerSettings(), device=torch.device("cpu"))
    defense.prepare(again.network, again.features)
    train(fresh, 0, STEPS)
    train(again, 0, STEPS)
    assert differing(fresh.network.state_dict(), again.network.state_dict()) == []
    rows = torch.arange(BATCH)
    assert torch.equal(again.upload(rows, train=False), fresh.upload(rows, train=False))


@every_defense
def test_half_precision_representations_are_protected_too(case, kind):
    """Mixed precision on a GPU would stop at the first upload."""
    bottom = at_work(case, kind)
    bottom.network.eval()
    x = bottom.features[:BATCH]
    with torch.no_grad():
        upload = bottom.defense.protect(x, bottom.network(x).bfloat16(), train=False)
    assert torch.isfinite(upload.float()).all()


@pytest.mark.parametrize("case", DEFENSES_UNDER_TEST, ids=str)
def test_the_description_makes_the_same_defense_again(case):
    """A saved model would be loaded with another strength."""
    defense = made(case, case.kinds[0])[0]
    described = defense.describe()
    known = [name for name in inspect.signature(type(defense)).parameters if name != "self"]
    assert sorted(described) == sorted(["name", *known])
    assert {**case.arguments}.items() <= described.items()
    again = remade(defense)
    assert make_defense(again["name"], **again["arguments"]).describe() == described


@pytest.mark.parametrize("case", DEFENSES_UNDER_TEST, ids=str)
def test_a_table_can_vary_its_knob(case):
    """A benchmark over strengths would fail half way."""
    defense = DEFENSES[case.name]
    assert defense.name == case.name and defense.cost
    for strength in defense.published_strengths:
        assert defense.knob is not None
        assert (
            make_defense(case.name, **{**case.arguments, defense.knob: strength}).describe()[defense.knob] == strength
        )


def timed_ratios():
    """Return what a step under each defense took, as a ratio to an undefended one, in the published timing."""
    rows = json.loads((Path(__file__).parents[2] / "docs/results/causshield-fig14.json").read_text())["rows"]
    found = {}
    for row in rows:
        found.setdefault(row["defense"], []).append(row["step_ratio"])
    return found


@pytest.mark.parametrize(("name", "ratios"), timed_ratios().items())
def test_the_stated_cost_is_the_measured_one(name, ratios):
    """Who chose a defense for costing next to nothing would wait three times as long."""
    stated = [float(number) for number in re.findall(r"([\d.]+) x", DEFENSES[name].cost)]
    assert set(stated) <= {round(ratio, 1) for ratio in ratios}
    if DEFENSES[name].cost.startswith("nil"):
        assert max(ratios) < 1.1


@every_defense
def test_the_public_operator_maps_representations_to_uploads(case, kind):
    """An adaptive attack would train on something of another shape, or disturb the defense's own stream."""
    bottom = at_work(case, kind)
    operator = bottom.defense.operator()
    if operator is None:
        return
    state = copied(bottom.defense.state_dict())
    h = bottom.network(bottom.features[:BATCH]).detach().requires_grad_()
    upload = operator(h)
    assert upload.shape == h.shape
    upload.sum().backward()
    assert h.grad is not None and torch.isfinite(h.grad).all()
    assert differing(state, bottom.defense.state_dict()) == []


@every_defense
def test_whoever_is_told_what_was_fitted_has_the_same_operator(case, kind):
    """An adaptive attack on a challenge folder, where the defense itself is not, would fail or try another operator."""
    bottom = at_work(case, kind)
    bottom.defense.seed(5)
    operator = bottom.defense.operator()
    if operator is None:
        return
    told = json.loads(json.dumps([bottom.defense.describe(), bottom.defense.fitted()]))
    twin = make_defense(told[0].pop("name"), **told[0])
    twin.extend(plain_bottom(kind), SHAPES[kind])
    twin.load_fitted(told[1])
    twin.seed(5)
    h = bottom.network(bottom.features[:BATCH]).detach()
    assert torch.equal(twin.operator()(h), operator(h))


@every_defense
def test_meters_are_finite_numbers(case, kind):
    """The party's log would hold what nobody can plot."""
    bottom = at_work(case, kind)
    train(bottom, 0, STEPS)
    for name, value in bottom.defense.meters().items():
        assert isinstance(value, float) and math.isfinite(value), name
