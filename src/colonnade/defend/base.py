"""What a defense is: it turns a representation into an upload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.data.preparation import FeaturePreparation
from colonnade.data.secrets import Secret
from colonnade.stream import stream


@dataclass(frozen=True)
class PrivacySpend:
    """What one defense has spent so far, for the accountant to add up.

    Attributes:
        mechanism: name of the noise ("gaussian", "laplace").
        noise_multiplier: noise scale divided by sensitivity.
        releases: how often one record was released.
    """

    mechanism: str
    noise_multiplier: float
    releases: int


class Defense:
    """Turns a representation into an upload. The base class sends the representation as it is.

    A defense writes the two or three methods it needs; every method has a default.
    It draws randomness from `self.generator` alone, so that a resumed run repeats the undisturbed one.
    """

    name: ClassVar[str] = "none"
    needs_labels: ClassVar[bool] = False
    """What a passive party may not have, a defense may not need."""
    needs_secrets: ClassVar[bool] = False
    """Whether it hides sensitive columns, which the party must then name."""
    files: ClassVar[tuple[str, ...]] = ()
    """The arguments that may name a file; in a party file it is relative to the folder of that file."""
    memoise: bool = False
    """Whether a record gets the same noise each time it is uploaded; it must then come unchanged each time."""
    imitated_by_bottom: ClassVar[bool] = False
    """Whether who has a bottom of their own can do as it does, though a representation alone is too little for that."""
    imitated_by_records: ClassVar[bool] = False
    """Whether an imitator with a bottom of their own needs records too."""
    knob: ClassVar[str | None] = None
    """The argument that sets its strength, the one that a table varies."""
    published_strengths: ClassVar[tuple[float, ...]] = ()
    """The values of the knob that the literature reports."""
    cost: ClassVar[str] = "nil"
    """What a training step costs beyond the undefended one, in a few words.

    A ratio was measured: a party's own step beside an undefended one, on an H200, in batches of 128, ResNet-18 cut at 6
    (docs/results/causshield-fig14.json).
    """

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def seed(self, seed: int, device: torch.device | str = "cpu") -> None:
        """Give the defense its own random stream on `device`."""
        self.generator = stream(seed, device)

    @property
    def names(self) -> list[str]:
        """By which names a federation may ask for what is at work here: its own, and of what it is made of."""
        return [self.name]

    def meet(self, preparation: FeaturePreparation) -> None:
        """See how the party's records become the numbers that `prepare` and `protect` get: colours, columns, scales."""

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Return the bottom model that is trained: as it is, or with layers of the defense behind it.

        Such layers are trained with the bottom; the top model is built for the shape that they upload.
        First weights come from `self.generator`, so that every party draws its own.
        """
        return bottom

    def confide(self, secrets: Sequence[Secret]) -> None:
        """See the party's sensitive columns, one value for each of its records; only where `needs_secrets`."""

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Do once, before the first upload, what must be done: surrogates, pre-training."""

    def resume(self, bottom: nn.Module, data: Tensor) -> None:
        """Get ready for `load_state_dict` in a run that goes on: as in a new one, or without what is loaded anyway."""
        self.prepare(bottom, data)

    def turn_to(self, rows: Tensor) -> None:
        """Learn which of the party's records, by row, the next training upload is about."""

    def announce(self, x: Tensor) -> None:
        """See the records of the next training upload as they were prepared, before anything moves or disguises them.

        Whoever must know a record again does it here: where pictures are moved, `protect` gets another each time.
        """

    def disguise(self, x: Tensor) -> Tensor:
        """Return what the network is to see of records `x`; every other method is given records in this form."""
        return x

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the upload for records `x` with representation `h`."""
        return h

    def rehearse(self, x: Tensor, h: Tensor) -> Tensor:
        """Return an upload that stays at home: local updates between two exchanges work on it."""
        return self.protect(x, h, train=True)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Carry the gradient that came back for `upload` into the bottom model; local losses join here."""
        upload.backward(grad)  # type: ignore[no-untyped-call]

    def finish(self, bottom: nn.Module, data: Tensor) -> None:
        """Do once, after the last training step and before the first test upload, what must be done.

        From here on `protect` is called with `train=False` alone, in this process or in another that loads the model.
        """

    def operator(self) -> Callable[[Tensor], Tensor] | None:
        """Return what anybody who knows this defense, but none of its secrets, can do to a representation.

        An adaptive attack is given it: fresh noise of the same kind, the same pruning; the representation itself where
        that is uploaded as it is. None where what is done to it can't be said without secrets.
        """
        return _as_it_is if type(self).protect is Defense.protect else None

    def behind(self, shadow: nn.Module, known: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what this defense makes of records and of what `shadow`, an imitator's own bottom, makes of them.

        It is called on a defense of the imitator's own, and only where `imitated_by_bottom`.

        Args:
            shadow: which may go on learning.
            known: the imitator's records, prepared; None where it has none.
        """
        self.extend(shadow, () if known is None else tuple(known.shape[1:]))
        return lambda x, h: self.protect(x, h, train=True)

    def imitators_stream(self) -> torch.Generator:
        """Return a stream for the draws of whoever does as this defense does, and spend none of its own.

        Parties whose streams differ have imitations that differ: noise that was the same for all of them could be
        learned, and taken off, where theirs can't be.
        """
        twin = torch.Generator(self.generator.device)
        twin.set_state(self.generator.get_state())
        return torch.Generator().manual_seed(int(torch.randint(2**62, (), generator=twin, device=twin.device)))

    def imitated_disguise(self, known: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Return what anybody who knows this defense and such records can do to records in the manner of `disguise`.

        None where records are seen as they are. Draws and whatever is fitted are the imitator's own.
        """
        return None

    def fitted(self) -> dict[str, float]:
        """Return the numbers that its operator needs beside name and strength: read from the data, yet no secrets."""
        return {}

    def load_fitted(self, fitted: Mapping[str, float]) -> None:
        """Take over what another's `fitted` returned, so that both have the same operator."""

    def meters(self) -> dict[str, float]:
        """Return numbers worth a line in the party's own log, each the mean since the last call."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything a checkpoint needs, as tensors; the random stream included."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.generator.set_state(state["generator"].cpu())

    def spend(self) -> PrivacySpend | None:
        """Return what has been spent, or None where no differential privacy is claimed."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return the name and strength, as written to the run folder."""
        return {"name": self.name}


def _as_it_is(representation: Tensor) -> Tensor:
    return representation
