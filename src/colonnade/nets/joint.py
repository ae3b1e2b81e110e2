"""The same network undivided: every bottom and the top in one module, trained in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from colonnade.nets.split import Top


class Joint(nn.Module):
    """The bottoms and the top as one network on pooled data: what a split run must equal, step by step.

    >>> from colonnade.nets import build_bottom, build_top
    >>> bottoms = [build_bottom("mlp", (3,), hidden=(4, 4), seed=1), build_bottom("mlp", (5,), hidden=(4, 4), seed=2)]
    >>> network = Joint(bottoms, build_top("mlp", [(4,), (4,)], 1, hidden=(4, 4), seed=0))
    """

    def __init__(self, bottoms: Iterable[nn.Module], top: Top) -> None:
        super().__init__()
        self.bottoms = nn.ModuleList(bottoms)
        self.top = top

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the outputs for one tensor of columns per party, in the order of the bottoms."""
        output: Tensor = self.top([bottom(x) for bottom, x in zip(self.bottoms, inputs, strict=True)])
        return output
