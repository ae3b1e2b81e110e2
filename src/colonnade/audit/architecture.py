"""How a bottom model is built, as plain JSON that other programs can follow, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from colonnade.audit.evidence import BottomFactory, twin_of, veiled
from colonnade.learn.part import BottomPart
from colonnade.nets import build_bottom, default_cut


def describe_architecture(bottom: BottomPart) -> dict[str, Any]:
    """Return the recipe of a bottom model and the list of its layers; no weight is among it.

    The defense is named only where layers of its own stand in the network: otherwise it is no part of the building.
    """
    recipe = bottom.recipe
    cut = default_cut(recipe["family"], recipe["hidden"]) if recipe["cut"] is None else recipe["cut"]
    plain = {
        "family": recipe["family"],
        "input_shape": list(recipe["input_shape"]),
        "cut": cut,
        "hidden": list(recipe["hidden"]),
    }
    built = BottomFactory(bottom)(0)
    extended = str(built) != str(build_bottom(**recipe, seed=0))
    return {
        **plain,
        "defense": bottom.defense.describe() if extended else None,
        "layers": [_layer(path, module) for path, module in built.named_modules() if path],
    }


def factory_of(architecture: Mapping[str, Any], known: Tensor | None = None) -> Callable[[int], nn.Module]:
    """Return what makes an untrained bottom from a seed, as `describe_architecture` told it.

    Args:
        architecture: what was told.
        known: prepared records that a veil is fitted on; None leaves it open.
    """
    recipe = {name: architecture[name] for name in ("family", "input_shape", "cut", "hidden")}
    defense = architecture["defense"]

    def make(seed: int) -> nn.Module:
        network = build_bottom(**recipe, seed=seed)
        if defense is None:
            return network
        return veiled(twin_of(defense, seed).extend(network, tuple(recipe["input_shape"])), known)

    return make


def _layer(path: str, module: nn.Module) -> dict[str, Any]:
    own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    weights = {name: list(tensor.shape) for name, tensor in own}
    return {"path": path, "type": type(module).__name__, "settings": module.extra_repr(), "weights": weights}
