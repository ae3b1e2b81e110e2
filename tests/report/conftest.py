"""A small study with everything that a report can show."""

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.run import write_atomically

PARTIES = ["left", "right"]


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """Pictures of digits in two strips: trained, audited, with a secret at the right one, and a graph of its own."""
    folder = tmp_path_factory.mktemp("reports") / "digits"
    digits = co.load_dataset("digits")
    images = digits.images[:400].repeat(4, axis=2).repeat(4, axis=3)  # 8 pixels are too few for the network
    labels = np.asarray(digits.label)[:400]
    secret = pd.DataFrame({"odd": np.where(labels % 2, "odd", "even")})
    federation = co.Federation.from_images(images, labels, PARTIES, secrets={"right": secret})
    settings = {"epochs": 2, "network": {"family": "mnist_net"}, "weights": {"strategy": "uniform"}}
    split = {"train": 0.5, "validation": 0.1, "test": 0.4}
    model = co.train(federation, split=split, run=folder / "train", progress=False, **settings)
    co.audit(model, [{"name": "decoder", "epochs": 1}], seeds=[0], progress=False).save(folder / "audit")
    co.audit_attributes(model, seeds=[0], attackers=["linear"], progress=False).save(folder / "audit")
    graph().save(folder / "graph.json")
    write_atomically(folder / "summary.json", b'{"sentences": ["All is <well>."], "command": "colonnade demo"}')
    return folder


def graph():
    names = ["age", "glucose", "a name that is far too long to fit", "outcome"]
    strength = np.zeros((4, 4))
    strength[0, 1], strength[1, 3], strength[0, 3], strength[2, 3] = 0.9, 0.5, 0.2, 0.1
    frame = pd.DataFrame(strength, names, names)
    sure = pd.DataFrame((strength > 0) * 0.75, names, names)
    parties = dict(zip(names, ["clinic", "lab", "lab", "clinic"], strict=True))
    return co.CausalGraph(frame, parties, confidence=sure, contributions={"clinic": 0.25, "lab": 0.75})
