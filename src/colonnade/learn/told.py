"""Sizes of networks that others tell: checked before memory is taken for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colonnade.errors import RefusedError
from colonnade.federation.task import NetworkSettings
from colonnade.nets.shapes import Shape

LARGEST = 2**24
"""Numbers in one upload: 64 MB, four times those of a picture of 256 x 256 behind the first module of a ResNet."""
MOST_OUTPUTS = 100_000
_REMEDY = "run the same version of Colonnade at every party"


def told_shape(told: Any, party: str) -> Shape:
    """Return the shape of uploads that `party` announces; RefusedError if it can't be one.

    >>> told_shape([64, 8, 4], "lab")
    (64, 8, 4)
    """
    sides = told if isinstance(told, list | tuple) and len(told) in (1, 3) else [0]
    if not all(type(side) is int and side > 0 for side in sides) or math.prod(sides) > LARGEST:
        raise RefusedError("announced uploads of a shape that cannot be", where=party, remedy=_REMEDY)
    return tuple(sides)


def told_recipe(told: Any, network: NetworkSettings, party: str) -> dict[str, Any]:
    """Return how `party` builds the top model; RefusedError where that is not what the federation agreed on."""
    agreed = {"family": network.family, "cut": network.cut, "join": network.join}
    if not isinstance(told, Mapping) or {*told} != {*agreed, "hidden", "upload_shapes", "outputs"}:
        raise RefusedError("describes no top model", where=party, remedy=_REMEDY)
    shapes, outputs, hidden = told["upload_shapes"], told["outputs"], told["hidden"]
    lists = isinstance(shapes, list | tuple) and isinstance(hidden, list | tuple)
    # Within one process nothing has been through JSON, which knows no tuples.
    if not lists or tuple(hidden) != network.hidden or any(told[name] != value for name, value in agreed.items()):
        raise RefusedError("describes another top model than was agreed on", where=party, remedy=_REMEDY)
    if type(outputs) is not int or not 0 < outputs <= MOST_OUTPUTS:
        raise RefusedError("describes a top model of a size that cannot be", where=party, remedy=_REMEDY)
    return {**told, "upload_shapes": [told_shape(shape, party) for shape in shapes]}
