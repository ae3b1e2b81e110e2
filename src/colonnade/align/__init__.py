"""Private set intersection: the same records in the same order at every party, and nobody sees the others.

`align` is what each party calls over its channel; `align_together` runs all parties in one process.
"""

from colonnade.align.alignment import Alignment, Policy, align
from colonnade.align.courier import ALIGN_KINDS
from colonnade.align.together import align_together

__all__ = ["ALIGN_KINDS", "Alignment", "Policy", "align", "align_together"]
