"""The public key of the backend `bfv`: a few encryptions of zero, which holders make fresh ones from."""

from __future__ import annotations

import numpy as np
import seal

from colonnade.errors import FrameError
from colonnade.secure.bfv_words import PRIMES, ciphertext_bytes, from_wire, library, to_wire

ZEROS = 4
"""Encryptions of zero in a public key: as many masks share what takes longest to make."""
PUBLIC_BYTES = ZEROS * ciphertext_bytes(PRIMES)


def make_public(encryptor: seal.Encryptor) -> bytes:
    """Return a public key that belongs to the secret key of `encryptor`, as bytes that travel."""
    here, zero = library(), seal.Plaintext("0")
    zeros = [here.evaluator.transform_to_ntt(encryptor.encrypt_symmetric(zero)) for _ in range(ZEROS)]
    return b"".join(to_wire(here.words(each)).tobytes() for each in zeros)


def read_public(octets: bytes) -> list[seal.Ciphertext]:
    """Return the transformed encryptions of zero in a public key; a `FrameError` for anything else."""
    if len(octets) != PUBLIC_BYTES:
        raise FrameError(f"{len(octets)} bytes are no public key of the backend 'bfv'")
    parts = np.split(np.frombuffer(octets, np.uint8), ZEROS)
    return [library().ciphertext(from_wire(part, PRIMES), transformed=True) for part in parts]
