"""CausShield that can be deployed again and again, each time as if training had just ended."""

from __future__ import annotations

from torch import Tensor, nn

from colonnade.defend.causshield import CausShield


class Undecided(CausShield):
    """CausShield whose generator that stays is made when `decide` says so; until then the bottom itself uploads."""

    _end: dict[str, Tensor] | None = None

    def finish(self, bottom: nn.Module, data: Tensor) -> None:
        """Remember what a generator is made from; make none."""
        self._made_from = bottom, data

    def decide(self, steps: int) -> None:
        """Make the generator of so many steps, from where training ended."""
        if self._end is None:
            self._end = {name: tensor.clone() for name, tensor in self.state_dict().items()}
        self.load_state_dict(self._end)
        self.deploy_rounds, surrogates = steps, self._surrogates
        super().finish(*self._made_from)
        self._surrogates = surrogates  # the next generator is made from the same ones

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the upload; of records that nothing is learned from the bottom's own, where nothing is decided."""
        return h if not train and self._end is None else super().protect(x, h, train)
