"""One party as several processes: if these fail, more GPUs give another model than one, or a run that never ends."""

import multiprocessing
import os
import signal
import socket
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.data.preparation import prepare_features
from colonnade.data.records import Records
from colonnade.defend import Defense, make_defense
from colonnade.errors import ConfigError
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom
from colonnade.learn.join import TrainingPlace, join
from colonnade.learn.part import BottomPart
from colonnade.learn.spread import Spread, help_out
from colonnade.learn.team import HelperLostError, gathered
from colonnade.nets import build_bottom, upload_shape
from colonnade.progress import Progress

CPU = torch.device("cpu")
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["colonnade.learn.spread", "torch._dynamo"])  # the second is what a first network imports


def helper(environment):
    """A helper's process."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    help_out()


def environments(size):
    """What torchrun tells each process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [{**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]


@pytest.fixture(scope="module")
def team():
    """This process as a party, with two helpers."""
    mine, *others = environments(3)
    helpers = [FORK.Process(target=helper, args=(own,), daemon=True) for own in others]
    for process in helpers:
        process.start()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in mine.items():
            environment.setenv(name, value)
        company = gathered(CPU)
        gathered_team = company.__enter__()
    yield gathered_team
    company.__exit__(None, None, None)
    for process in helpers:
        process.join(20)
    assert {process.exitcode for process in helpers} == {0}


def part(family="mlp", defense="none", **strength):
    """A party's network, and how it came about."""
    random = np.random.default_rng(0)
    if family == "mlp":
        frame = pd.DataFrame(random.normal(size=(40, 6)), columns=list("abcdef"))
        records = Records.from_frame(frame.assign(g=random.choice(["x", "y"], 40)))
    else:
        records = Records(pd.RangeIndex(40), images=random.random((40, 3, 8, 8), np.float32))
    preparation, protection = prepare_features(records), make_defense(defense, **strength)
    recipe = {"family": family, "input_shape": tuple(preparation.shape), "cut": 4, "hidden": (16, 8, 8)}
    protection.seed(3)
    protection.meet(preparation)
    network = protection.extend(build_bottom(**recipe, seed=7), recipe["input_shape"])
    return BottomPart(network, preparation, protection, recipe, "lab"), torch.from_numpy(preparation.transform(records))


def results(network, inner, x, train):
    """Representations, gradients of the weights and what the norms remember, after one pass there and back."""
    network.train(train)
    inner.zero_grad()
    with torch.set_grad_enabled(train):
        h = network(x)
    if train:
        h.backward(torch.sin(torch.arange(h.numel(), dtype=h.dtype)).view_as(h))
    slopes = {name: weight.grad for name, weight in inner.named_parameters()} if train else {}
    return {"h": h.detach(), **slopes, **{f"{name} stays": value for name, value in inner.named_buffers()}}


def assert_same(ours, theirs, tolerance=1e-6):
    """Each tensor is the same as a whole: single entries of a gradient are what is left of far larger terms."""
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        away, length = (float(torch.linalg.vector_norm(t.double())) for t in (ours[name] - value, value))
        assert away <= tolerance * (length + 1), f"{name}: {away:.1e} of {length:.1e} away"


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 31])
def test_a_batch_of_any_size_gives_the_numbers_of_one_process(team, count, train):
    (alone, x), (shared, _) = part(), part()
    spread = Spread(shared, team, CPU)
    expected = results(alone.network, alone.network, x[:count], train)
    assert_same(results(spread, shared.network, x[:count], train), expected)


@pytest.mark.parametrize(
    ("family", "defense", "strength"),
    [
        ("resnet18", "none", {}),
        ("mlp", "nashcoder", {"sigma": 0.5}),
        ("mlp", "prifu", {}),
        ("resnet18", "fedpass", {}),
    ],
)
def test_batch_norms_see_the_whole_batch(team, family, defense, strength):
    """The statistics of shares would be others, and the model too; the layers of a defense have such norms as well."""
    (alone, x), (shared, _) = part(family, defense, **strength), part(family, defense, **strength)
    spread = Spread(shared, team, CPU)
    for count, train in ((20, True), (7, True), (11, False), (2, True)):
        expected = results(alone.network, alone.network, x[:count], train)
        assert_same(results(spread, shared.network, x[:count], train), expected, 1e-5)


class Nosy(Defense):
    """Has a local loss of its own, on a pass of the network that no helper hears of."""

    def prepare(self, bottom, data):
        self.bottom = bottom

    def backward(self, x, h, upload, grad):
        self.bottom(-x).square().mean().backward()
        upload.backward(grad)


@pytest.mark.parametrize("defense", ["none", "bottleneck", Nosy])
def test_a_training_with_a_defense_ends_with_the_same_weights(team, defense):
    """A defense uses the network on its own between the two halves of a step, and must not wait for helpers then."""
    ends = []
    for spread in (False, True):
        made, x = part("resnet18", defense if isinstance(defense, str) else "none")
        if not isinstance(defense, str):
            made = replace(made, defense=defense())
        network = Spread(made, team, CPU) if spread else made.network
        settings = OptimizerSettings(learning_rate=1e-3)
        bottom = Bottom(network, x, made.defense, settings=settings, device=CPU)
        made.defense.prepare(made.network, bottom.features)
        for step in range(3):
            upload = bottom.upload(torch.arange(step, step + 17), train=True)
            bottom.learn(torch.cos(torch.arange(upload.numel())).view_as(upload) / 100, 1e-3, updates=2)
        ends.append({**bottom.state_dict(), "upload": bottom.upload(torch.arange(9), train=False)})
    assert_same(ends[1], ends[0], 1e-5)


def test_it_looks_like_the_network_it_spreads(team):
    """Checkpoints and saved models are the same files, whoever wrote them."""
    made, x = part("resnet18")
    spread = Spread(made, team, CPU)
    assert list(spread.state_dict()) == list(made.network.state_dict())
    assert upload_shape(spread, x.shape[1:]) == upload_shape(made.network, x.shape[1:])
    other = build_bottom(**made.recipe, seed=8)
    spread.load_state_dict(other.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(spread.eval()(x), other.eval()(x), atol=1e-6, rtol=1e-6)


def test_only_the_last_pass_can_be_gone_back(team):
    """Helpers remember one pass: gradients of another would be wrong without a word."""
    made, x = part()
    spread = Spread(made, team, CPU)
    first, second = spread(x), spread(x)
    with pytest.raises(RuntimeError, match="last training pass"):
        first.sum().backward()
    second.sum().backward()


def losing(environment, moment, told):
    """A party's process that does as it is told, and tells how it ended."""
    os.environ.update(environment)
    try:
        with gathered(CPU) as team:
            made, x = part()
            spread = Spread(made, team, CPU)
            h = spread(x)
            told.send("ready")
            told.recv()
            if moment == "there":
                spread(x)
            elif moment == "back":
                h.sum().backward()
            else:
                signal.pause()
    except HelperLostError as error:
        signal.raise_signal(signal.SIGTERM)  # torchrun may be late: the error is to be printed all the same
        told.send(str(error))


@pytest.mark.parametrize("moment", ["there", "back", "told"])
def test_a_helper_that_dies_ends_the_party_with_one_error(moment):
    """Whether the party notices itself, on either way, or is told to end by torchrun, which may be quicker."""
    mine, its = FORK.Pipe()
    first, second = environments(2)
    party = FORK.Process(target=losing, args=(first, moment, its), daemon=True)
    other = FORK.Process(target=helper, args=(second,), daemon=True)
    party.start()
    other.start()
    assert mine.recv() == "ready"
    other.kill()
    mine.send("go on")
    if moment == "told":
        time.sleep(0.2)
        party.terminate()
    assert mine.poll(30), "it waits for a deadline, or for ever"
    assert mine.recv().startswith("one of this party's processes has ended")
    party.join(10)
    assert party.exitcode == 0


@pytest.mark.parametrize(
    ("environment", "device", "message"),
    [
        ({}, "cpu", "environment: WORLD_SIZE is 2, but RANK is not set"),
        ({"LOCAL_WORLD_SIZE": "1"}, "cpu", "processes are on several hosts"),
        ({}, "cuda:1", "device: 'cuda:1' is one GPU for 2 processes"),
        ({}, "cuda", "torchrun: 2 processes need a GPU each, and there is only 1"),
    ],
)
def test_a_start_that_can_not_work_is_refused(monkeypatch, environment, device, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    launched = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in {"WORLD_SIZE": "2", **environment, **({} if "RANK" in message else launched)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message), gathered(torch.device(device)):
        pass


def test_a_party_without_columns_has_nothing_to_share(tmp_path):
    """More GPUs than one would wait for the whole run, and nobody would be told."""
    parties = {party: {"address": f"127.0.0.1:{port}"} for party, port in (("clinic", 7101), ("lab", 7102))}
    federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties, "task": {}}
    own = {"party": "clinic", "data": {"path": "clinic.csv", "id_column": "id"}, "runs": "runs"}
    pd.DataFrame({"id": range(20), "outcome": [0, 1] * 10}).to_csv(tmp_path / "clinic.csv", index=False)
    for name, content in (("federation", federation), ("clinic", own)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    place = TrainingPlace.read(tmp_path / "federation.yaml", tmp_path / "clinic.yaml")
    with pytest.raises(ConfigError, match="clinic: has no columns that 4 processes could share"):
        join(place, Progress(), team=SimpleNamespace(size=4))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_simulation_is_not_started_several_times(monkeypatch, rank):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    result = CliRunner().invoke(app, ["train", "federation.yaml", "--party", "clinic.yaml"])
    assert result.exit_code == 3
    said = "error: 'colonnade train' is one process, not 2 (start it without torchrun; only 'colonnade join'"
    assert result.stderr.startswith(said) if rank == 0 else not result.stderr
