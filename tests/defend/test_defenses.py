"""The interface of a defense, proven by its first inhabitants."""

import pytest
import torch
from torch import nn

from colonnade.defend import DEFENSES, Defense, Gaussian, NoDefense, make_defense
from colonnade.errors import ConfigError


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(64, 5, generator=generator), nn.Linear(5, 100)


def test_none_uploads_the_representation_itself(batch):
    x, bottom = batch
    h = bottom(x)
    assert make_defense("none").protect(x, h, train=True) is h


@pytest.mark.parametrize("train", [True, False])
def test_gaussian_adds_noise_of_its_scale_in_training_and_prediction(batch, train):
    """Predictions would go out unprotected."""
    x, bottom = batch
    defense = make_defense("gaussian", sigma=0.5)
    defense.seed(0)
    h = bottom(x)
    noise = (defense.protect(x, h, train) - h).detach()
    assert noise.std().item() == pytest.approx(0.5, rel=0.05)
    assert noise.mean().item() == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("name", ["none", "gaussian"])
def test_the_gradient_reaches_the_bottom_unchanged(batch, name):
    """Noise in the gradient's way would train another network."""
    x, bottom = batch
    defense = make_defense(name)
    grad = torch.randn(64, 100, generator=torch.Generator().manual_seed(1))
    bottom(x).backward(grad)
    expected = bottom.weight.grad.clone()
    bottom.zero_grad()
    h = bottom(x)
    upload = defense.protect(x, h, train=True)
    defense.backward(x, h, upload, grad)
    assert torch.equal(bottom.weight.grad, expected)


def test_noise_comes_from_the_seed_alone_and_is_fresh_each_time(batch):
    """A run would not repeat; or the same noise twice would cancel out."""
    x, _ = batch
    first, second = Gaussian(), Gaussian()
    first.seed(7)
    second.seed(7)
    torch.manual_seed(0)
    upload = first.protect(x, x, train=True)
    torch.manual_seed(1)
    assert torch.equal(second.protect(x, x, train=True), upload)
    assert not torch.equal(second.protect(x, x, train=True), upload)
    second.seed(8)
    assert not torch.equal(second.protect(x, x, train=True), upload)


def test_a_resumed_defense_continues_its_stream(batch):
    """After a crash the resumed run would end with other weights."""
    x, _ = batch
    defense = make_defense("gaussian", sigma=1.0)
    defense.seed(0)
    defense.protect(x, x, train=True)
    state = {name: tensor.clone() for name, tensor in defense.state_dict().items()}
    expected = defense.protect(x, x, train=True)
    resumed = make_defense("gaussian", sigma=1.0)
    resumed.seed(99)
    resumed.load_state_dict(state)
    assert torch.equal(resumed.protect(x, x, train=True), expected)


def test_the_upload_keeps_type_and_shape():
    """Mixed precision would send float32 and double the bytes."""
    h = torch.zeros(2, 3, 4, dtype=torch.float16)
    upload = Gaussian(sigma=0.1).protect(h, h, train=False)
    assert upload.dtype == torch.float16 and upload.shape == h.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_noise_on_the_gpu_repeats_after_a_resume():
    h = torch.zeros(4, 8, device="cuda")
    defense = make_defense("gaussian", sigma=1.0)
    defense.seed(0, "cuda")
    state = defense.state_dict()
    upload = defense.protect(h, h, train=True)
    assert upload.device == h.device
    defense.load_state_dict(state)
    assert torch.equal(defense.protect(h, h, train=True), upload)


def test_plain_noise_claims_no_privacy():
    """A report would promise differential privacy that nobody proved."""
    assert make_defense("gaussian", sigma=5.0).spend() is None


def test_strength_is_checked_and_described():
    assert make_defense("gaussian", sigma=2).describe() == {"name": "gaussian", "sigma": 2}
    assert make_defense("none").describe() == {"name": "none"}
    with pytest.raises(ConfigError, match=r"gaussian\.sigma: -1 is not allowed"):
        make_defense("gaussian", sigma=-1)
    with pytest.raises(ConfigError, match=r"unknown parameter 'epsilon'.*it takes sigma"):
        make_defense("gaussian", epsilon=1)
    with pytest.raises(ConfigError, match=r"unknown defense 'gausian'.*did you mean 'gaussian'"):
        make_defense("gausian")


def test_every_registered_defense_is_one_and_tells_itself():
    """`co.defenses()` would print an empty line."""
    assert {"none", "gaussian"} <= set(DEFENSES)
    for name in DEFENSES:
        assert issubclass(DEFENSES[name], Defense) and DEFENSES[name].name == name
        assert (DEFENSES[name].__doc__ or "").strip()
    assert isinstance(make_defense(NoDefense()), NoDefense)


def test_the_public_operator_of_plain_noise_is_noise_of_that_scale(batch):
    """An adaptive attack would be stronger against no defense than against this one."""
    x, bottom = batch
    h = bottom(x)
    defense = make_defense("gaussian", sigma=0.5)
    operator = defense.operator()
    drawn = torch.stack([operator(h) - h for _ in range(200)]).detach()
    assert float(drawn.std()) == pytest.approx(0.5, rel=0.05) and not torch.equal(drawn[0], drawn[1])


def test_where_the_upload_is_the_representation_its_operator_is_nothing(batch):
    """Adaptive rows would be missing for defenses that change the training alone."""
    x, bottom = batch
    h = bottom(x)
    for name in ("none", "nopeek", "ressfl"):
        assert torch.equal(make_defense(name).operator()(h), h)
    assert make_defense("soteria").operator() is None
