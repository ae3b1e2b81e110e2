"""Distance correlation, held against the package that statisticians use."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from colonnade.errors import DataError
from colonnade.measure.dependence import distance_correlation


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs():
    """What is compared with the package: no dependence, a line, a curve, the same up to scale, maps, equal rows."""
    x = normal(0, 40, 3)
    twice = normal(4, 6, 3), normal(5, 6, 2)
    for rows in twice:
        rows[1] = rows[0]
    return {
        "none": (x, normal(1, 40, 2)),
        "line": (x, x @ normal(2, 3, 2)),
        "curve": (x, x[:, :1] ** 2 + 0.1 * normal(3, 40, 1)),
        "same": (x, 5 * x + 1),
        "maps": (normal(6, 30, 3, 4, 4) + 100, normal(7, 30, 5, 2, 2)),
        "equal rows": twice,
    }


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package's numbers. It lives in a process of its own, because importing it here would slow torch down."""
    path = tmp_path_factory.mktemp("dependence") / "pairs.npz"
    arrays = {
        f"{name}/{side}": rows.flatten(1).numpy() for name, pair in pairs().items() for side, rows in enumerate(pair)
    }
    np.savez(path, **arrays)
    code = (
        "import dcor, json, numpy, sys\n"
        "pairs = numpy.load(sys.argv[1])\n"
        "names = [key.removesuffix('/0') for key in pairs if key.endswith('/0')]\n"
        "value = lambda name: float(dcor.distance_correlation(pairs[name + '/0'], pairs[name + '/1']))\n"
        "json.dump({name: value(name) for name in names}, sys.stdout)\n"
    )
    return json.loads(subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True).stdout)


def by_hand(x, y):
    """The definition, entry by entry."""

    def centred(rows):
        rows = rows.reshape(len(rows), -1)
        distances = np.array([[np.linalg.norm(a - b) for b in rows] for a in rows])
        return distances - distances.mean(0) - distances.mean(1)[:, None] + distances.mean()

    a, b = centred(x.numpy()), centred(y.numpy())
    return float(np.sqrt((a * b).mean()) / ((a * a).mean() * (b * b).mean()) ** 0.25)


@pytest.mark.parametrize("name", list(pairs()))
def test_it_is_the_packages_number_and_the_definitions(package, name):
    """A defense would lower another number than the one that papers report."""
    x, y = pairs()[name]
    ours = distance_correlation(x, y).item()
    assert ours == pytest.approx(package[name], rel=1e-9)
    assert ours == pytest.approx(by_hand(x, y), rel=1e-9)
    if name == "same":
        assert ours == pytest.approx(1, rel=1e-9)


def test_single_precision_is_near_enough():
    """Far from zero, float32 would drown in rounding."""
    x, y = pairs()["maps"]
    assert distance_correlation(x.float(), y.float()).item() == pytest.approx(by_hand(x, y), rel=1e-4)


def test_its_gradient_is_that_of_finite_differences():
    """Training would walk in a wrong direction."""
    x, y = normal(0, 8, 3), normal(1, 8, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: distance_correlation(x, y), [y], eps=1e-6, atol=1e-6)


def test_equal_rows_leave_the_gradient_finite():
    """One record that comes twice in a batch would turn all weights into NaN."""
    x, y = pairs()["equal rows"]
    y.requires_grad_()
    distance_correlation(x, y).backward()
    assert torch.isfinite(y.grad).all()


def test_rows_that_are_all_alike_depend_on_nothing():
    constant = torch.ones(5, 2, requires_grad=True)
    value = distance_correlation(normal(0, 5, 3).float(), constant)
    value.backward()
    assert value.item() == 0
    assert torch.isfinite(constant.grad).all()


def test_few_rows_with_many_entries_look_dependent_though_they_are_not():
    """The docstring's warning would be wrong: a reader would take 0.99 for a leak."""
    x, y = normal(0, 64, 1000), normal(1, 64, 1000)
    assert distance_correlation(x, y).item() == pytest.approx(0.99, abs=0.005)
    assert distance_correlation(x, x.roll(1, 0)).item() == pytest.approx(0.99, abs=0.005)


@pytest.mark.parametrize("rows", [(3, 4), (1, 1)])
def test_rows_that_do_not_pair_are_refused(rows):
    with pytest.raises(DataError, match="do not pair"):
        distance_correlation(torch.zeros(rows[0], 2), torch.zeros(rows[1], 2))


def test_importing_it_stays_light():
    """Every command would wait for torch, though it only wants a score."""
    code = "import sys, colonnade.measure.dependence; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
