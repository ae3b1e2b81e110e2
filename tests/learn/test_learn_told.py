"""If these fail, a message of a few bytes makes a party take all the memory that there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from colonnade.errors import RefusedError
from colonnade.federation.task import NetworkSettings
from colonnade.learn.told import LARGEST, told_recipe, told_shape

NETWORK = NetworkSettings(hidden=(8, 4))
RECIPE = {
    "family": "mlp", "cut": None, "hidden": [8, 4], "join": NETWORK.join, "upload_shapes": [[8], [3]], "outputs": 2,
}  # fmt: skip


@given(some.lists(some.integers(1, 200), min_size=1, max_size=3).filter(lambda sides: len(sides) != 2))
def test_shapes_of_uploads_pass(sides):
    assert told_shape(sides, "lab") == tuple(sides)


@pytest.mark.parametrize(
    "told", [None, [], [4, 4], [0], [-3], [True], [2.0], ["8"], "8", [LARGEST + 1], [4096, 4096, 2], [[8]], {"0": 8}]
)
def test_what_is_no_shape_is_refused_with_its_party(told):
    with pytest.raises(RefusedError, match=r"^lab: announced uploads of a shape that cannot be"):
        told_shape(told, "lab")


def test_the_recipe_that_was_agreed_on_passes():
    assert told_recipe(RECIPE, NETWORK, "clinic") == {**RECIPE, "upload_shapes": [(8,), (3,)]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hidden": [10**9]}, "another top model"),
        ({"family": "resnet34"}, "another top model"),
        ({"cut": 3}, "another top model"),
        ({"outputs": 10**9}, "a size that cannot be"),
        ({"outputs": 0}, "a size that cannot be"),
        ({"upload_shapes": [[10**9]]}, "a shape that cannot be"),
        ({"upload_shapes": None}, "another top model"),
        ({"seed": 3}, "no top model"),
    ],
)
def test_another_recipe_is_refused(changed, said):
    with pytest.raises(RefusedError, match=f"^clinic: .*{said}"):
        told_recipe({**RECIPE, **changed}, NETWORK, "clinic")


@pytest.mark.parametrize("told", [None, "mlp", {}, []])
def test_what_describes_nothing_is_refused(told):
    with pytest.raises(RefusedError, match="describes no top model"):
        told_recipe(told, NETWORK, "clinic")
