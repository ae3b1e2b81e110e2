"""What parties say to each other: one message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Message:
    """One message: who says what kind of thing at which step of which run.

    Attributes:
        run: name of the run that the message belongs to.
        sender: the party that speaks.
        kind: what the message is, one of the kinds that the sender's role allows.
        step: the step it belongs to; grows within a kind.
        tensors: named arrays. They are handed over: neither side changes them afterwards.
        meta: small JSON values.
    """

    run: str
    sender: str
    kind: str
    step: int
    tensors: Mapping[str, Array] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The tensors but for those on a device, which parties of one process may hand to each other."""
        return {name: held for name, held in self.tensors.items() if not getattr(held, "is_cuda", False)}

    @property
    def payload_bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(tensor.nbytes for tensor in self.tensors.values())
