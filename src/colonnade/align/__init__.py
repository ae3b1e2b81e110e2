"""Private set intersection: the same records in the same order at every party, and nobody sees the others.

`align` is what each party calls over its channel; `align_together` runs all parties in one process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.align.alignment import Alignment, Policy, align
    from colonnade.align.courier import ALIGN_KINDS
    from colonnade.align.together import align_together

__all__ = ["ALIGN_KINDS", "Alignment", "Policy", "align", "align_together"]

_HOMES = {
    "ALIGN_KINDS": "courier",
    "Alignment": "alignment",
    "Policy": "alignment",
    "align": "alignment",
    "align_together": "together",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for: `import colonnade` opens this room, and shall not wait for pandas."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Name also what is not loaded yet."""
    return sorted({*globals(), *__all__})
