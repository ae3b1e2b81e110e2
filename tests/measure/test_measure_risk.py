"""If these fail, an audit would tell a party that its uploads are safe when they are not, or the other way round."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from colonnade.errors import DataError
from colonnade.measure.risk import DRAWS, FLOOR, common_directions, inversion_risk, spectrum


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def network(*layers):
    """A network at rest, its weights and running statistics anything but trivial."""
    made = nn.Sequential(*layers)
    generator = seeded(5)
    with torch.no_grad():
        for tensor in made.state_dict().values():
            if tensor.dtype == torch.float32:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
                if tensor.dim() > 1:
                    tensor.copy_(torch.randn(tensor.shape, generator=generator) / tensor[0].numel() ** 0.5)
    return made.eval().requires_grad_(False)


@pytest.fixture
def small():
    """A network of images and its records, few enough for a whole Jacobian."""
    layers = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3, stride=2, padding=1)
    return network(*layers), torch.randn(4, 2, 6, 5, generator=seeded())


def jacobians(function, records):
    """The slow, obvious way: one whole Jacobian a record, in float64."""
    for record in records:
        whole = torch.func.jacrev(lambda x: function(x[None])[0].flatten())(record)
        yield whole.reshape(len(whole), -1).double()


def test_the_spectrum_of_small_records_is_that_of_the_whole_jacobian(small):
    function, records = small
    found = spectrum(function, records, 20, seeded())
    for index, jacobian in enumerate(jacobians(function, records)):
        values = torch.linalg.svdvals(jacobian)[:20]
        torch.testing.assert_close(found.values[index].double(), values, rtol=1e-4, atol=1e-5)
        right, left = found.right[index].double(), found.left[index].double()
        torch.testing.assert_close(right @ right.T, torch.eye(20).double(), rtol=0, atol=1e-5)
        torch.testing.assert_close(right @ jacobian.T, values[:, None] * left, rtol=0, atol=1e-4)


def test_long_records_get_the_same_spectrum_by_iteration():
    """Images are long: the way that never forms a Jacobian is the one that is used."""
    generator = seeded(1)
    left = torch.linalg.qr(torch.randn(40, 40, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(600, 40, generator=generator)).Q
    values = 0.8 ** torch.arange(40)
    matrix = left @ torch.diag(values) @ right.T
    records = torch.randn(3, 600, generator=generator)
    # The slope at a record scales its Jacobian, so that each record has a spectrum of its own.
    found = spectrum(lambda x: torch.sin(x[:, :1]) + x @ matrix.T, records, 6, generator)
    for index, record in enumerate(records):
        whole = matrix.clone()
        whole[:, 0] += torch.cos(record[0])
        expected = torch.linalg.svdvals(whole.double())[:6]
        torch.testing.assert_close(found.values[index].double(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_inversion_loss_equals_its_definition(small, noise):
    function, records = small
    centre = records.mean(0)
    result = inversion_risk(function, records, noise=noise, rank=10)
    for index, jacobian in enumerate(jacobians(function, records)):
        _, values, right = torch.linalg.svd(jacobian, full_matrices=False)
        centred = (records[index] - centre).flatten().double()
        floor = (FLOOR**2) * function(records[index : index + 1]).square().mean().item()
        loss, seen = 0.0, 0.0
        for value, direction in zip(values[:10], right[:10], strict=True):
            energy = (direction @ centred).item() ** 2
            seen += energy
            loss += min(energy, (noise**2 + floor) / value.item() ** 2) if value > 1e-3 * values[0] else energy
        loss += (centred @ centred).item() - seen
        assert result.loss[index] == pytest.approx(loss, rel=1e-4)
        assert result.risk[index] == pytest.approx(1 - loss / (centred @ centred).item(), abs=1e-4)


def test_noise_that_is_drawn_counts_along_each_direction():
    """Noise that only lies where nothing is read would count as protection."""
    records = torch.randn(8, 4, generator=seeded()) * 3
    generator = seeded(1)

    def on_last_two(batch):
        drawn = torch.randn(batch.shape, generator=generator) * 1000
        return drawn * torch.tensor([0.0, 0.0, 1.0, 1.0])

    risk = inversion_risk(lambda x: x * torch.tensor([4.0, 3.0, 2.0, 1.0]), records, noise=on_last_two).risk
    centred = (records - records.mean(0)).square()
    # The chance that a draw of such scale is small enough to be read, DRAWS times over, is nil.
    assert DRAWS >= 8
    assert risk == pytest.approx((centred[:, :2].sum(1) / centred.sum(1)).numpy(), abs=0.01)


def test_the_trivial_cases():
    """0 must mean that nothing can be read, 1 that everything can."""
    records = torch.randn(6, 10, generator=seeded())
    assert inversion_risk(lambda x: x, records).risk.min() > 0.99
    assert inversion_risk(lambda x: 0 * x, records).risk == pytest.approx(np.zeros(6), abs=1e-6)
    assert inversion_risk(lambda x: x, records, noise=1e4).risk == pytest.approx(np.zeros(6), abs=1e-6)
    assert np.isnan(inversion_risk(lambda x: x, records[:1]).risk).all()
    with pytest.raises(DataError, match="no records"):
        inversion_risk(lambda x: x, records[:0])


def test_common_directions_are_the_first_eigenvectors_of_the_mean():
    generator = seeded(2)
    matrices = torch.randn(5, 30, 60, generator=generator) * 0.7 ** torch.arange(60)

    def each_its_own(x):
        return torch.einsum("brd,bd->br", matrices, x)

    found = common_directions(each_its_own, torch.zeros(5, 60), 4, generator)
    gram = (matrices.mT.double() @ matrices.double()).mean(0)
    expected = torch.linalg.eigh(gram).eigenvectors[:, -4:]
    overlap = torch.linalg.svdvals(found.double() @ expected)
    assert overlap.min().item() > 0.999


def test_importing_the_measure_does_not_load_torch():
    """`import colonnade` would take seconds."""
    command = "import sys, colonnade.measure.risk; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
