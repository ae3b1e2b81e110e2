"""Random streams that nobody can guess: on a processor torch takes 32 bits of a seed, however long it is."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

SHORT = 64
"""A seed of at most so many bits is no secret, and fills a stream as torch does."""
_WORDS = 624
_FIRST = 24
"""Where the words of a Mersenne Twister begin in torch's state: behind the seed, and how many words are left."""


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
    generator = torch.Generator(device)
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
