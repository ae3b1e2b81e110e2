"""Small runs to watch: halves of digits as feature maps, and a table through `co.train`."""

import functools

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

import colonnade as co
from colonnade.attack import Evidence
from colonnade.data.preparation import prepare_features
from colonnade.defend import make_defense
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom
from colonnade.learn.top import Top
from colonnade.measure.reconstruct import skill, squared_error
from colonnade.nets import Top as TopNetwork
from colonnade.nets import build_bottom, initialised
from colonnade.nets.blocks import BasicBlock, Dense

PRIVATE, AUXILIARY, BATCH = 1097, 500, 64
CLASSES = 10
SHAPES = {"left": (16, 8, 4), "right": (16, 8, 4)}
ADAM = OptimizerSettings()


@functools.cache
def digits():
    """Return standardised digits in a random order, and their classes."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = torch.from_numpy(found.images[order, None].astype(np.float32))
    images = (images - images[:PRIVATE].mean()) / images[:PRIVATE].std()
    return images, torch.from_numpy(found.target[order]).long()


def halves():
    images, _ = digits()
    return {"left": images[..., :4], "right": images[..., 4:]}


def conv_bottom(seed):
    """Return a bottom like URVFL's: sixteen maps as large as the record, behind batch normalisation."""

    def build():
        stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        return nn.Sequential(stem, nn.BatchNorm2d(16), nn.ReLU(), BasicBlock(16, 16, 1))

    return initialised(build, seed)


def conv_top(seed):
    def build():
        conv = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        return nn.Sequential(conv, nn.BatchNorm2d(32), nn.ReLU(), Dense(32 * 4 * 4, CLASSES))

    return TopNetwork(initialised(build, seed), by_width=True)


def evidence_of_halves(more=None):
    _, labels = digits()
    known = slice(PRIVATE, PRIVATE + AUXILIARY)
    return {
        party: Evidence(
            (1, 8, 4),
            {
                "auxiliary_records": strip[known],
                "auxiliary_labels": labels[known],
                "architecture": conv_bottom,
                **(more or {}),
            },
        )
        for party, strip in halves().items()
    }


class Halves:
    """Two halves of each digit at two parties, and the labels at the third, who may be curious."""

    def __init__(self, attack=None, seed=0):
        self.attack, self.seed = attack, seed
        self.bottoms = {
            party: Bottom(
                conv_bottom(100 + 2 * seed + number),
                strip,
                make_defense("none"),
                settings=ADAM,
                device=torch.device("cpu"),
            )
            for number, (party, strip) in enumerate(halves().items())
        }
        self.top = Top(
            conv_top(seed),
            regression=False,
            settings=ADAM,
            upload_shapes=list(SHAPES.values()),
            device=torch.device("cpu"),
        )
        if attack:
            attack.seed(seed)
            attack.meet(evidence_of_halves())
            attack.begin(self.top.network, SHAPES, CLASSES)

    def train(self, steps):
        """Train for so many batches and return the last gradients: honest ones and those that were sent."""
        _, labels = digits()
        order = torch.Generator().manual_seed(self.seed)
        for step in range(steps):
            rows = torch.randint(PRIVATE, (BATCH,), generator=order)
            uploads = {party: bottom.upload(rows, True) for party, bottom in self.bottoms.items()}
            answered = self.top.learn(list(uploads.values()), [None, None], labels[rows], ADAM.learning_rate)
            honest = sent = dict(zip(uploads, answered.gradients, strict=True))
            if self.attack:
                sent = self.attack.watch(step, uploads, labels[rows], honest)
            for party, bottom in self.bottoms.items():
                bottom.learn(sent[party], ADAM.learning_rate)
        if self.attack:
            self.attack.finish()
        return honest, sent

    def uploads(self):
        """Return the uploads of records that nobody has trained on."""
        rows = torch.arange(PRIVATE + AUXILIARY, len(digits()[0]))
        return {party: bottom.upload(rows, False) for party, bottom in self.bottoms.items()}

    def skill(self, labels=None):
        """Return the skill of the attack's guesses at both halves against the mean of the auxiliary records."""
        guesses = self.attack.reconstruct_all(self.uploads(), labels)
        return {party: skill_of(guesses[party], strip) for party, strip in halves().items()}

    def weights(self):
        """Return every number that the parties have learned, running statistics included."""
        networks = [self.top.network, *(bottom.network for bottom in self.bottoms.values())]
        return torch.cat([value.flatten().double() for net in networks for value in net.state_dict().values()])


def skill_of(guesses, records, private=PRIVATE, auxiliary=AUXILIARY):
    truths = records[private + auxiliary :]
    mean = records[private : private + auxiliary].mean(0)
    return skill(squared_error(guesses, truths).mean(), squared_error(mean, truths).mean())


NETWORK = {"family": "mlp", "cut": 2, "hidden": (16, 8)}


class Table:
    """Two passive parties with two skewed columns each, trained through `co.train`."""

    private, auxiliary, records = 1600, 400, 2300
    columns: dict[str, list[str]] = {"left": ["a", "b"], "right": ["c", "d"]}  # noqa: RUF012

    def __init__(self):
        rng = np.random.default_rng(1)
        left, right = (self._two_columns(rng) for _ in range(2))
        frame = pd.DataFrame(np.hstack([left, right]), columns=list("abcd"))
        frame["label"] = (frame["a"] + frame["c"] > 1.7).astype(int)
        test = self.records - self.private
        frame["split"] = ["train"] * self.private + ["test"] * test
        self.labels = torch.tensor(frame["label"].to_list())
        self.federation = co.Federation.from_frame(
            frame, {**self.columns, "active": []}, label=("active", "label"), split="split"
        )
        held = self.federation.records
        self.features = {
            party: torch.from_numpy(prepare_features(held[party].take(np.arange(self.private))).transform(held[party]))
            for party in self.columns
        }

    def _two_columns(self, rng):
        first = rng.exponential(1, self.records)
        return np.stack([first, 1.5 * np.sqrt(first) + rng.normal(0, 0.2, self.records)], axis=1)

    def evidence(self):
        known = slice(self.private, self.private + self.auxiliary)
        held = {
            "auxiliary_labels": self.labels[known],
            "architecture": lambda seed: build_bottom(input_shape=(2,), seed=seed, **NETWORK),
        }
        return {
            party: Evidence((2,), {**held, "auxiliary_records": records[known]})
            for party, records in self.features.items()
        }

    def train(self, attack=None, epochs=1, seed=0):
        """Return the trained model; `attack` has watched it."""
        if attack:
            attack.seed(seed)
            attack.meet(self.evidence())
        model = co.train(
            self.federation, network=NETWORK, epochs=epochs, batch_size=64, seed=seed, progress=False, curious=attack
        )
        if attack:
            attack.finish()
        return model

    def skill(self, attack, model):
        first = self.private + self.auxiliary
        targets = {
            party: model.parts[party].bottom.upload(self.federation.records[party].take(np.arange(first, self.records)))
            for party in self.columns
        }
        guesses = attack.reconstruct_all(targets)
        return {
            party: skill_of(guesses[party], records, self.private, self.auxiliary)
            for party, records in self.features.items()
        }


def model_weights(model):
    networks = [held.network for part in model.parts.values() for held in (part.bottom, part.top) if held]
    return torch.cat([value.flatten().double() for network in networks for value in network.state_dict().values()])
