"""If these fail, whoever names a device that is not there is told that something else is broken."""

import pytest
import torch
from torch import nn

import colonnade as co
from colonnade.errors import ConfigError
from colonnade.nets.device import gains_from_half, half_precision, precision, require_device


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


def test_a_device_that_is_here_is_returned(one_gpu):
    assert [str(require_device(name)) for name in ("cpu", "cuda", "cuda:0")] == ["cpu", "cuda", "cuda:0"]


def test_a_second_gpu_where_there_is_one_is_not_here(one_gpu):
    with pytest.raises(ConfigError, match=r"lab.yaml: device: no device 'cuda:1' here .use cuda:0"):
        require_device("cuda:1", where="lab.yaml: device", remedy="use cuda:0")


def test_a_word_that_names_no_device_is_told():
    with pytest.raises(ConfigError, match=r"device: 'gpu' is no device .write cpu, cuda or cuda:0"):
        require_device("gpu")


def test_models_are_neither_trained_nor_loaded_without_their_gpu(monkeypatch, tmp_path):
    """A whole model would be called damaged; a training would end in torch's own words."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = co.load_dataset("breast_cancer")
    parties = {"clinic": list(data.table.columns[:10]), "lab": list(data.table.columns[10:])}
    frame = data.table.assign(benign=data.label)
    federation = co.Federation.from_frame(frame, parties, label=("clinic", "benign"))
    complaint = r"device: no device 'cuda' here .use cpu"
    with pytest.raises(ConfigError, match=complaint):
        co.train(federation, device="cuda", progress=False)
    model = co.train(federation, epochs=1, progress=False)
    with pytest.raises(ConfigError, match=complaint):
        co.load(model.save(tmp_path), device="cuda")
    with pytest.raises(ConfigError, match=complaint):
        co.audit(model, device="cuda", progress=False)
    with pytest.raises(ConfigError, match=complaint):
        co.audit_attributes(model, device="cuda", progress=False)


@pytest.mark.parametrize(
    ("known", "half"),
    [({"avx512_bf16": True}, True), ({"amx_bf16": True, "avx512_bf16": False}, True), ({"avx512_f": True}, False)],
)
def test_a_processor_computes_in_half_precision_where_it_gains_and_was_asked_to(monkeypatch, known, half):
    """Any other would take longer and be less exact; whoever did not ask would get other numbers."""
    gains_from_half.cache_clear()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    product = {}
    for mixed in (True, False):
        with precision(torch.device("cpu"), mixed):
            product[mixed] = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    gains_from_half.cache_clear()
    assert product == {True: torch.bfloat16 if half else torch.float32, False: torch.float32}


def test_a_torch_that_can_not_tell_stays_at_full_precision(monkeypatch):
    gains_from_half.cache_clear()
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not gains_from_half("cpu") and gains_from_half("cuda")
    gains_from_half.cache_clear()


PROCESSOR = torch.device("cpu")


def numbers_left_in_memory():
    """Free memory of many sizes that holds no numbers; whoever reads what nobody wrote finds them."""
    for size in (64, 256, 1000, 4000, 16_000, 64_000, 256_000):
        torch.full((size,), torch.nan)


@pytest.mark.parametrize("size", [(5, 1), (3, 1), (1, 1), (4, 2), (3, 2), (16, 8)])
@pytest.mark.parametrize("layer", [nn.Conv2d, nn.ConvTranspose2d])
def test_strides_in_half_precision_give_what_they_give_in_full(layer, size):
    """On processors with AMX weights of attackers on narrow maps were no numbers after a step, now and then."""
    torch.manual_seed(0)
    network, maps = layer(32, 64, 3, stride=2, padding=1), torch.randn(8, 32, *size)
    expected = network(maps)
    expected.square().sum().backward()
    whole = network.weight.grad.clone()
    for _ in range(5):
        numbers_left_in_memory()
        network.zero_grad()
        with half_precision(PROCESSOR):
            found = network(maps).float()
        found.square().sum().backward()
        torch.testing.assert_close(found, expected, atol=0.05, rtol=0.05)
        torch.testing.assert_close(network.weight.grad, whole, atol=0.02 * float(whole.abs().max()), rtol=0.05)


def test_strides_are_computed_in_full_where_half_precision_is_on():
    """Uploads must be as short as those of a party with a GPU, which rounds what strides give."""
    maps, strided = torch.randn(2, 3, 8, 8), nn.Conv2d(3, 4, 3, stride=(1, 2))
    whole = strided(maps)
    with half_precision(PROCESSOR):
        found = strided(maps)
        assert torch.equal(found, whole.bfloat16())
        assert torch.equal(nn.functional.conv2d(maps, strided.weight, strided.bias, stride=(1, 2)), found)
        with torch.autocast("cpu", enabled=False):
            assert torch.equal(strided(maps), whole)
            assert strided.double()(maps.double()).dtype == torch.float64
