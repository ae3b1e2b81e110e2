"""A veil over records: if these fail, light, shade and colour, which it takes away, are uploaded after all."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import ConfigError
from colonnade.nets import build_top, initialised, upload_shape, veil
from colonnade.nets.blocks import BasicBlock
from colonnade.nets.veil import FLOOR, LEAST, Veil, keystone

PICTURE, VECTOR = (3, 4, 3), (36,)
KINDS = pytest.mark.parametrize("shape", [PICTURE, VECTOR], ids=["pictures", "vectors"])
COUNTS = pytest.mark.parametrize("count", [24, 150], ids=["fewer records than numbers", "more"])


def records(shape=PICTURE, count=150, seed=0):
    """Records of which a few components have most of the variance."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(count, 36)) * np.logspace(0.5, -0.7, 36) @ np.linalg.qr(rng.normal(size=(36, 36)))[0]
    return torch.from_numpy((mixed + rng.normal(size=36)).astype(np.float32)).view(count, *shape)


def fitted(data, components=5):
    made = Veil(tuple(data.shape[1:]), components)
    made.fit(data)
    return made


def components_of(data, components):
    """The slow way: all singular vectors in double precision."""
    flat = data.flatten(1).double().numpy()
    return flat.mean(0), np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:components]


def slowly(data, x, components):
    mean, first = components_of(data, components)
    left = [record - first.T @ (first @ record) for record in x.flatten(1).double().numpy() - mean]
    if len(x.shape) == 4:
        known = data.flatten(1).double().numpy() - mean
        usual = (known - known @ first.T @ first).std(ddof=1)
        left = [record / (record.std(ddof=1) + 0.2 * usual) for record in left]
    return torch.from_numpy(np.stack(left)).float().view_as(x)


# -- what is left ------------------------------------------------------------------------------------------------------


@KINDS
@COUNTS
@pytest.mark.parametrize("components", [0, 1, 5])
def test_what_is_left_is_what_numpy_leaves(shape, count, components):
    data, x = records(shape, count), records(shape, 7, seed=1)
    torch.testing.assert_close(fitted(data, components)(x), slowly(data, x, components), rtol=1e-4, atol=1e-4)


@KINDS
@COUNTS
@given(amounts=st.lists(st.floats(-50, 50, width=32), min_size=5, max_size=5))
def test_nothing_along_a_component_is_left(shape, count, amounts):
    """A record could be as dark or as red as it likes: nobody would see it, nor that its contrast is another."""
    data, x = records(shape, count), records(shape, 7, seed=1)
    made = fitted(data)
    along = torch.tensor(amounts) @ torch.from_numpy(components_of(data, 5)[1]).float()
    torch.testing.assert_close(made(x + along.view(shape)), made(x), rtol=0, atol=5e-4)


def test_a_change_along_anything_else_is_seen():
    """The test above would pass with a veil that leaves nothing."""
    made, x = fitted(records()), records(count=7, seed=1)
    sixth = torch.from_numpy(components_of(records(), 6)[1][5]).float().view(PICTURE)
    assert ((made(x + sixth) - made(x)).flatten(1).norm(dim=1) > 0.3).all()


@COUNTS
def test_directions_are_at_right_angles_and_what_is_gone_can_not_go_again(count):
    made = fitted(records(VECTOR, count))
    torch.testing.assert_close(made.directions.T @ made.directions, torch.eye(5), rtol=0, atol=2e-6)
    once = made(records(VECTOR, 7, seed=1))
    torch.testing.assert_close(made(once + made.mean), once, rtol=0, atol=1e-5)


@KINDS
def test_both_ways_to_find_components_find_the_same(shape):
    """Records that all come twice have the same components as once, but are more than their numbers."""
    data, x = records(shape, 24), records(shape, 7, seed=1)
    torch.testing.assert_close(fitted(data)(x), fitted(data.repeat(2, *[1] * len(shape)))(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("times", [3, 8], ids=["fewer records than numbers", "more"])
def test_records_that_repeat_themselves_are_veiled_too(times):
    """Ten pictures have nine components. Further ones are rounding errors, which must not bring the nine back."""
    data = records(VECTOR, 10).repeat(times, 1)
    left = fitted(data, 20)(data)
    assert left.norm() < 1e-4 * (data - data.mean(0)).norm()


@pytest.mark.parametrize("components", [0, 4])
def test_pictures_that_are_all_alike_leave_nothing_and_no_error(components):
    """A party whose strip is black would upload numbers that are none, and stop everybody."""
    alike = torch.full((9, *PICTURE), 0.25)
    made = fitted(alike, components)
    assert torch.equal(made(alike), torch.zeros_like(alike)) and made.usual == torch.tensor(LEAST)


def test_where_all_is_taken_away_rounding_errors_stay_small():
    """Divided by their own size they would be pictures again, made of what was taken away."""
    data = records(count=10)
    assert fitted(data, 9)(data).abs().max() < 0.05


# -- contrast ----------------------------------------------------------------------------------------------------------


def rest_of(made, x):
    """What is left before contrast is."""
    flat = (x.flatten(1) - made.mean).double()
    return flat - flat @ made.directions.double() @ made.directions.double().T


@given(factor=st.floats(0.01, 100))
def test_contrast_is_divided_by_itself_and_a_floor(factor):
    made, x = fitted(records()), records(count=7, seed=1)
    centred = x - made.mean.view(PICTURE)
    left = factor * rest_of(made, x)
    expected = left / (left.std(1, keepdim=True) + FLOOR * made.usual)
    found = made(made.mean.view(PICTURE) + factor * centred).flatten(1)
    torch.testing.assert_close(found, expected.float(), rtol=1e-3, atol=1e-3)


def test_strong_contrast_can_not_be_told_from_stronger_and_flat_pictures_stay_flat():
    made, x = fitted(records()), records(count=7, seed=1)
    mean, centred = made.mean.view(PICTURE), x - made.mean.view(PICTURE)
    usual, stronger, flat = (
        made(mean + factor * centred).flatten(1).norm(dim=1) / 35**0.5 for factor in (1.0, 4.0, 0.001)
    )
    assert (usual > 0.75).all() and (stronger > usual).all() and (stronger < 1).all()
    assert (flat < 0.02).all()


def test_vectors_keep_their_size():
    made, x = fitted(records(VECTOR)), records(VECTOR, 7, seed=1)
    torch.testing.assert_close(made(made.mean + 3 * (x - made.mean)), 3 * made(x), rtol=1e-4, atol=1e-5)


# -- how it is fitted and kept -----------------------------------------------------------------------------------------


def test_before_it_is_fitted_nothing_is_taken_away():
    x = records(VECTOR, 7)
    assert torch.equal(Veil(VECTOR, 5)(x), x)
    x = x.view(-1, *PICTURE)
    torch.testing.assert_close(Veil(PICTURE, 5)(x), x / (x.flatten(1).std(1) + 0.2).view(-1, 1, 1, 1))


def test_many_records_are_sampled_and_all_of_them_have_the_mean(monkeypatch):
    monkeypatch.setattr(veil, "FITTED_ON", 40)
    data = records(VECTOR, 101)
    made, some = fitted(data, 2), data[::3] - data.mean(0)
    torch.testing.assert_close(made.mean, data.mean(0))
    first = torch.from_numpy(np.linalg.svd(some.double().numpy(), full_matrices=False)[2][:2]).float()
    torch.testing.assert_close((first @ made.directions).det().abs(), torch.tensor(1.0), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "count", "components", "line"),
    [
        (PICTURE, 8, 8, "8 records of 36 numbers have no 8 components to take away (give at most 7)"),
        (VECTOR, 100, 36, "100 records of 36 numbers have no 36 components to take away (give at most 35)"),
        (PICTURE, 1, 1, "1 records of 36 numbers have no 1 components to take away (give at most 0)"),
    ],
)
def test_too_many_components_are_told(shape, count, components, line):
    with pytest.raises(ConfigError) as caught:
        fitted(records(shape, count), components)
    assert str(caught.value) == f"keystone.veil: {line}"
    fitted(records(shape, count), components - 1)


def test_a_sample_too_small_for_the_components_is_told_too(monkeypatch):
    """The run would end in an error about shapes that nobody gave."""
    monkeypatch.setattr(veil, "FITTED_ON", 20)
    with pytest.raises(ConfigError, match="16 records of 36 numbers have no 18 components"):
        fitted(records(count=31), 18)


def test_shapes_are_found_without_computing():
    made = fitted(records())
    assert upload_shape(made, PICTURE) == PICTURE and upload_shape(Veil(PICTURE, 0), PICTURE) == PICTURE
    with torch.autocast("cpu", torch.bfloat16):
        assert upload_shape(made, PICTURE) == PICTURE


def test_it_computes_in_full_precision_where_networks_do_not():
    """In bfloat16 a hundredth of what is taken away would come back."""
    made, x = fitted(records()), records(count=7, seed=1)
    expected = made(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x.flatten(1) @ made.directions).dtype == torch.bfloat16
        found = made(x)
        halved = made(x.bfloat16())
    assert found.dtype == halved.dtype == torch.float32 and torch.equal(found, expected)
    torch.testing.assert_close(halved, made(x.bfloat16().float()))


def test_what_it_found_travels_with_the_weights():
    made, again = fitted(records()), Veil(PICTURE, 5)
    again.load_state_dict(made.state_dict())
    x = records(count=7, seed=1)
    assert torch.equal(again(x), made(x)) and not list(made.parameters())


# -- the narrow layers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wide", "grid", "shape", "blocks"),
    [
        ((128, 16, 8), 2, (32, 2, 1), [256]),
        ((64, 32, 16), 2, (32, 2, 1), [128, 256]),
        ((64, 32, 32), 2, (32, 2, 2), [128, 256]),
        ((512, 16, 16), 1, (32, 1, 1), [512]),
        ((16, 5, 2), 2, (32, 2, 1), []),
        ((16, 4, 1), 9, (32, 4, 1), []),
        ((16, 3, 3), 9, (32, 3, 3), []),
        ((16, 17, 1), 9, (32, 5, 1), [32, 64]),
        ((16, 1, 1), 2, (32, 1, 1), []),
        ((120,), 2, (32,), []),
    ],
)
def test_maps_become_a_few_places(wide, grid, shape, blocks):
    made = initialised(lambda: keystone(wide, 32, grid), 0)
    narrow = made[:-1] if len(wide) == 3 else made  # before places become one vector
    assert upload_shape(narrow, wide) == shape and upload_shape(made, wide) == (math.prod(shape),)
    assert [module.conv1.out_channels for module in made if isinstance(module, BasicBlock)] == blocks
    x = torch.randn(6, *wide, generator=torch.Generator().manual_seed(1))
    before, uploads = (part(x).movedim(1, -1).reshape(-1, 32).detach().double() for part in (narrow[:-1], narrow))
    centred = before - before.mean(0)
    if len(wide) == 3:
        torch.testing.assert_close(uploads, centred / (centred.square().mean(0) + 1e-5).sqrt(), rtol=1e-3, atol=1e-3)
        assert uploads.square().mean() < 1.0001, "noise is chosen for numbers of deviation 1 at most"
    else:
        # One batch has been seen: a twentieth of what it was like, and the rest as it was before any.
        mean, variance = 0.05 * before.mean(0), 0.95 + 0.05 * before.var(0)
        torch.testing.assert_close(uploads, (before - mean) / (variance + 1e-5).sqrt(), rtol=1e-3, atol=1e-3)
    assert torch.isfinite(made(torch.randn(1, *wide))).all(), "a batch may overlap in one record"
    build_top("mnist_net", [(math.prod(shape),)] * 2, 3, cut=6, seed=0)


def test_where_something_is_within_its_place_is_not_told():
    """Pixels that change places within a quarter of the map change nothing."""
    made, maps = initialised(lambda: keystone((4, 8, 8), 3, 2), 0).eval()[:-1], torch.randn(5, 4, 8, 8)
    mixed = maps.view(5, 4, 2, 4, 2, 4).flip(3, 5).reshape(maps.shape)
    torch.testing.assert_close(made(mixed), made(maps), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made(maps.flip(2)), made(maps).flip(2), rtol=1e-4, atol=1e-5)
