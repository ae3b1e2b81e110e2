"""What one peer may say: the rules that every message is judged by, whatever carried it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from colonnade.errors import RefusedError
from colonnade.wire.message import Array, Message

_SAMPLE = 64


@dataclass(frozen=True)
class Window:
    """How far a sender may be ahead of its receiver.

    Attributes:
        steps: a step further than this beyond what the receiver has reached is refused.
        messages, bytes: messages that the receiver has not read yet; beyond this the sender waits.
        kinds: different kinds that one peer may use.
    """

    steps: int = 65_536
    messages: int = 1024
    bytes: int = 256 << 20
    kinds: int = 1024


WINDOW = Window()


class Progress:
    """The highest step that this party itself has sent or asked for."""

    def __init__(self) -> None:
        self.reached = -1

    def reach(self, step: int) -> None:
        """Take note of `step`."""
        self.reached = max(self.reached, step)


def refusal(peer: str, message: Message, reason: str) -> RefusedError:
    """Return the error for a peer's message that was refused."""
    what = f"'{message.kind}' for step {message.step} was refused: {reason}"
    return RefusedError(what, where=peer, remedy="run one version and one federation file everywhere")


class Rules:
    """Judges one peer's messages in the order in which they were sent.

    Steps grow strictly within a kind. The first message of a kind may be at any step, because a resumed run starts
    where the last one ended; whether that step was too far ahead shows when this party asks for an earlier one.
    """

    def __init__(
        self,
        peer: str,
        run: str,
        allowed: Collection[str] | None,
        progress: Progress,
        window: Window = WINDOW,
    ) -> None:
        self.peer, self.run, self.allowed, self.window = peer, run, allowed, window
        self._progress = progress
        self._latest: dict[str, tuple[int, int]] = {}

    def is_new(self, message: Message) -> bool:
        """Return False for the repetition of the latest message of its kind.

        Raises:
            RefusedError: the peer may not say this.
        """
        if message.sender != self.peer:
            raise refusal(self.peer, message, f"it names '{message.sender}' as its sender")
        if message.run != self.run:
            raise refusal(self.peer, message, f"it belongs to run '{message.run}', this is run '{self.run}'")
        if self.allowed is not None and message.kind not in self.allowed:
            raise refusal(self.peer, message, "its role may not send this kind")
        mark = content_mark(message)
        if message.kind in self._latest:
            step, earlier_mark = self._latest[message.kind]
            if message.step == step and mark == earlier_mark:
                return False
            if message.step <= step:
                raise refusal(self.peer, message, f"replayed step, it was at step {step} already")
            if message.step > self._progress.reached + self.window.steps:
                raise refusal(self.peer, message, f"future step, this party is at step {self._progress.reached}")
        elif len(self._latest) >= self.window.kinds:
            raise refusal(self.peer, message, f"more than {self.window.kinds} kinds")
        self._latest[message.kind] = message.step, mark
        return True

    def is_past(self, kind: str, step: int) -> bool:
        """Return whether no message of `kind` and `step` can be accepted any more."""
        return kind in self._latest and self._latest[kind][0] >= step


def content_mark(message: Message) -> int:
    """Return a number that is equal for equal content, quickly: of large tensors a sample is looked at.

    A forger who makes two messages look equal wins nothing but that his second one is dropped instead of refused.
    """
    parts = [(name, tensor.dtype.str, tensor.shape, _sample(tensor)) for name, tensor in message.arrays.items()]
    return hash((repr(message.meta), *parts))


def _sample(tensor: Array) -> bytes:
    if tensor.size <= _SAMPLE:
        return tensor.tobytes()
    # Not an even stride: rows of a table tend to be even, and a column could escape.
    flat = tensor.reshape(-1) if tensor.flags.c_contiguous else tensor.flat
    return flat[:: tensor.size // _SAMPLE | 1].tobytes()
