"""Networks: families that can be cut at any layer, their bottoms and tops, and the same network undivided."""

from colonnade.nets.families import FAMILIES, module_count, modules
from colonnade.nets.joint import Joint
from colonnade.nets.split import Top, build_bottom, build_top, default_cut, upload_shape
from colonnade.nets.weights import initialised, mixed_seed

__all__ = [
    "FAMILIES",
    "Joint",
    "Top",
    "build_bottom",
    "build_top",
    "default_cut",
    "initialised",
    "mixed_seed",
    "module_count",
    "modules",
    "upload_shape",
]
