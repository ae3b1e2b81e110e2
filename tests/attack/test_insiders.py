"""Every insider lives through a real run on strips of images, whatever the bottoms upload."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import colonnade as co
from colonnade.attack import Evidence
from colonnade.attack.fsha import Fsha
from colonnade.attack.pcat import Pcat
from colonnade.attack.sdar import Sdar
from colonnade.attack.shadow import SideBySide
from colonnade.attack.urvfl import Urvfl
from colonnade.data.preparation import prepare_features
from colonnade.nets import build_bottom

PRIVATE, AUXILIARY, TARGETS = 100, 40, 25
INSIDERS = {
    "urvfl": lambda **more: Urvfl("smoke", pretrain_epochs=1, **more),
    "sync": lambda **more: Urvfl("smoke", sync=True, **more),
    "sdar": lambda **more: Sdar("smoke", discriminator_width=8, batch_size=16, **more),
    "conditional": lambda **more: Sdar("smoke", discriminator_width=8, batch_size=16, conditional=True, **more),
    "fsha": lambda **more: Fsha("smoke", critic_width=4, **more),
    "pcat": lambda **more: Pcat("smoke", late_start=1, **more),
}
VECTORS = {"family": "mlp", "cut": 2, "hidden": (16, 8)}
MAPS = {"family": "resnet18", "cut": 3}


def attacked(attack, parties, network, device="cpu"):
    """Train two batches under the attack's eyes; return its guesses and each party's shape."""
    found, count = load_digits(), PRIVATE + AUXILIARY + TARGETS
    images, labels = (found.images[:count, None] / 16).astype(np.float32), torch.from_numpy(found.target[:count])
    split = np.array(["train"] * PRIVATE + ["test"] * (AUXILIARY + TARGETS))
    federation = co.Federation.from_images(images, labels.numpy(), parties, split=split)
    evidence, shapes = {}, {}
    for party in parties:
        records = federation.records[party]
        prepared = torch.from_numpy(prepare_features(records.take(np.arange(PRIVATE))).transform(records))
        shapes[party] = tuple(prepared.shape[1:])
        known = slice(PRIVATE, PRIVATE + AUXILIARY)
        held = {
            "auxiliary_records": prepared[known],
            "auxiliary_labels": labels[known],
            "architecture": lambda seed, shape=shapes[party]: build_bottom(input_shape=shape, seed=seed, **network),
            "defense_operator": torch.tanh,
        }
        evidence[party] = Evidence(shapes[party], held)
    attack.seed(0, device)
    attack.meet(evidence)
    model = co.train(
        federation, network=network, epochs=1, batch_size=50, progress=False, curious=attack, device=device
    )
    attack.finish()
    targets = np.arange(PRIVATE + AUXILIARY, len(images))
    uploads = {party: model.parts[party].bottom.upload(federation.records[party].take(targets)) for party in parties}
    return attack.reconstruct_all(uploads, labels[PRIVATE + AUXILIARY :]), shapes


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("name", INSIDERS)
def test_vectors_of_three_strips_are_guessed_as_strips(name, adaptive):
    """Guesses of the wrong party, or of a record that was cut elsewhere, would be scored as protection."""
    guesses, shapes = attacked(INSIDERS[name](adaptive=adaptive), ["left", "middle", "right"], VECTORS)
    assert shapes == {"left": (1, 8, 2), "middle": (1, 8, 2), "right": (1, 8, 4)}
    for party, shape in shapes.items():
        assert guesses[party].shape == (TARGETS, *shape)
        assert guesses[party].isfinite().all()


@pytest.mark.parametrize("name", ["urvfl", "sdar", "fsha", "pcat"])
def test_maps_of_a_single_victim_are_guessed(name):
    guesses, _ = attacked(INSIDERS[name](), ["all"], MAPS)
    assert guesses["all"].shape == (TARGETS, 1, 8, 8)
    assert guesses["all"].isfinite().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", INSIDERS)
def test_insiders_work_on_the_gpu_too(name, mixed):
    guesses, _ = attacked(INSIDERS[name](mixed=mixed), ["left", "right"], MAPS, device="cuda")
    assert guesses["left"].device.type == "cpu"
    assert guesses["left"].isfinite().all()


@pytest.mark.parametrize("shapes", [[(3, 4, 2), (3, 4, 5)], [(3, 4, 2), (2, 4, 2)], [(5,), (2,)], [(5,), (1, 2, 2)]])
def test_what_is_laid_side_by_side_can_be_cut_apart(shapes):
    """A party's guess would hold another party's columns."""
    layout = SideBySide(shapes)
    parts = [torch.rand(3, *shape) for shape in shapes]
    whole = layout.join(parts)
    assert whole.shape[1:] == layout.shape
    assert all(torch.equal(part, again) for part, again in zip(parts, layout.cut(whole), strict=True))


def test_strips_lie_where_they_lay_in_the_image():
    image = torch.arange(24.0).reshape(1, 1, 4, 6)
    assert torch.equal(SideBySide([(1, 4, 2), (1, 4, 4)]).join([image[..., :2], image[..., 2:]]), image)
