"""Random streams that nobody can guess: on a processor torch takes 32 bits of a seed, however long it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

SHORT = 64
"""A seed of at most so many bits is no secret, and fills a stream as torch does."""
_WORDS = 624
_FIRST = 24
"""Where the words of a Mersenne Twister begin in torch's state: behind the seed, and how many words are left."""
_KEY = 32


def stream(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a stream of random numbers, every bit of whose seed counts.

    Thirty-two bits can be tried out: whoever sees one batch of uploads would find the noise and the coins of all
    others. So a long seed is stretched with SHAKE-256 to all the words of a processor's stream. A GPU's has a key of 64
    bits.

    Args:
        seed: of any length, 0 or more; a secret has more than 64 bits.
        device: where numbers are drawn.

    >>> torch.randn(1, generator=stream(7)) == torch.randn(1, generator=torch.Generator().manual_seed(7))
    tensor([True])
    """
    return restart(torch.Generator(device), seed)


def restart(generator: torch.Generator, seed: int) -> torch.Generator:
    """Let a generator begin the stream of another seed, and return it."""
    if seed.bit_length() <= SHORT:
        return generator.manual_seed(seed)
    drawn = hashlib.shake_256(seed.to_bytes((seed.bit_length() + 7) // 8)).digest(4 * _WORDS)
    generator.manual_seed(int.from_bytes(drawn[:8]) >> 1)
    if generator.device.type == "cpu":
        state = generator.get_state()
        words = np.frombuffer(drawn, "<u4").astype(np.uint64)
        state[_FIRST : _FIRST + 8 * _WORDS] = torch.from_numpy(words.view(np.uint8))
        generator.set_state(state)
    return generator


class Chain:
    """Lets a stream begin anew after each answer from outside; the secret and all answers so far decide how it goes on.

    Whoever learns one stretch of a stream exactly learns nothing of the next. And whoever lets a run be resumed, to
    answer otherwise than the first time, gets other noise from there on; a run that is answered alike goes on alike.

    Args:
        seed: a secret of more than 64 bits.
    """

    def __init__(self, seed: int) -> None:
        self._key = hashlib.sha256(seed.to_bytes((seed.bit_length() + 7) // 8)).digest()

    def turn(self, generator: torch.Generator, answer: Tensor) -> None:
        """Take in an answer, and let the generator begin its next stretch."""
        told = hashlib.sha256(answer.detach().cpu().contiguous().numpy().data).digest()
        drawn = hashlib.shake_256(self._key + told).digest(2 * _KEY)
        self._key = drawn[:_KEY]
        # A leading one: a seed that begins with zeros would be a shorter one.
        restart(generator, int.from_bytes(b"\x01" + drawn[_KEY:]))

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs; whoever reads it knows all that will be drawn."""
        return {"key": torch.frombuffer(bytearray(self._key), dtype=torch.uint8)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self._key = bytes(state["key"].cpu().numpy())
