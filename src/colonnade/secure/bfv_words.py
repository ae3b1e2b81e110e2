"""The BFV parameters, and how numpy words become objects of the encryption library and back.

The library only ever reads headers that this module wrote around words that were checked: bytes from a peer carry
words alone. A word has 54 bits and travels as seven bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import seal

from colonnade.errors import FrameError
from colonnade.secure.backend import Ciphertexts
from colonnade.secure.modular import Words
from colonnade.secure.ring import RING_BITS, RingMatrix
from colonnade.secure.tiles import DEGREE

PRIMES: Final = (18014398507794433, 18014398507892737, 18014398508138497)
"""Ciphertexts live modulo these: 162 bits. The library asks for a fourth prime, for keys that nothing here uses; with
it there are 216 bits. At 8192 coefficients the homomorphic encryption standard asks for at most 218 for 128-bit
security with ternary secrets."""
KEY_PRIMES: Final = (*PRIMES, 18014398508400641)
SENT_PRIMES: Final = PRIMES[:2]
"""A masked product is switched down to these before it is sent."""

_WORD_BYTES = 7
_WORD = np.dtype({"names": ["low"], "formats": [f"V{_WORD_BYTES}"], "offsets": [0], "itemsize": 8})
_CIPHERTEXT_HEADER, _PLAINTEXT_HEADER = 113, 88


class Library:
    """One context of the encryption library, with the headers that belong to it."""

    def __init__(self) -> None:
        parameters = seal.EncryptionParameters(seal.scheme_type.bfv)
        parameters.set_poly_modulus_degree(DEGREE)
        parameters.set_coeff_modulus([seal.Modulus(prime) for prime in KEY_PRIMES])
        parameters.set_plain_modulus(1 << RING_BITS)
        self.context = seal.SEALContext(parameters)  # checks the 128-bit bound of the standard
        if not self.context.parameters_set():
            raise RuntimeError(self.context.parameter_error_message())
        self.evaluator = seal.Evaluator(self.context)
        self._read_headers()
        self.roots = self._read_roots()

    def _read_headers(self) -> None:
        keys = seal.KeyGenerator(self.context)  # thrown away: only the shape of what it makes is of use
        fresh = seal.Encryptor(self.context, keys.secret_key()).encrypt_symmetric(seal.Plaintext("0"))
        switched = self.evaluator.mod_switch_to_next(fresh)
        transformed = self.evaluator.transform_to_ntt(fresh)
        self._headers = {
            (len(PRIMES), False): fresh.to_string()[:_CIPHERTEXT_HEADER],
            (len(PRIMES), True): transformed.to_string()[:_CIPHERTEXT_HEADER],
            (len(SENT_PRIMES), False): switched.to_string()[:_CIPHERTEXT_HEADER],
        }
        self._plain_header = seal.Plaintext(f"1x^{DEGREE - 1}").to_bytes()[:_PLAINTEXT_HEADER]

    def _read_roots(self) -> tuple[int, ...]:
        """Return for each prime the root of unity that the library's transform evaluates at first."""
        return tuple(int(values[0]) for values in self.values(self.transformed(seal.Plaintext("1x^1"))))

    def plaintext(self, coefficients: RingMatrix) -> seal.Plaintext:
        """Return a polynomial with these DEGREE coefficients below 2^59."""
        plain = seal.Plaintext()
        plain.load_bytes(self.context, _joined(self._plain_header, coefficients))
        return plain

    def transformed(self, plain: seal.Plaintext) -> seal.Plaintext:
        """Return a polynomial's values at the points of the transform."""
        return self.evaluator.transform_to_ntt(plain, self.context.first_parms_id())

    def values(self, transformed: seal.Plaintext) -> Words:
        """Return a transformed polynomial's values at all points: (number of primes, DEGREE)."""
        flat = np.frombuffer(transformed.to_bytes(), np.uint64, offset=_PLAINTEXT_HEADER)
        return flat.reshape(len(PRIMES), DEGREE)

    def coefficients(self, plain: seal.Plaintext) -> RingMatrix:
        """Return the DEGREE coefficients of a polynomial."""
        found = np.frombuffer(plain.to_bytes(), np.uint64, offset=_PLAINTEXT_HEADER)
        return np.pad(found, (0, DEGREE - found.size))  # the library drops leading zeros

    def ciphertext(self, words: Words, *, transformed: bool = False) -> seal.Ciphertext:
        """Return the ciphertext with these words: (2, number of primes, DEGREE)."""
        encrypted = seal.Ciphertext()
        encrypted.load_bytes(self.context, _joined(self._headers[words.shape[1], transformed], words))
        return encrypted

    def words(self, encrypted: seal.Ciphertext) -> Words:
        """Return the words of a ciphertext: (2, number of primes, DEGREE)."""
        flat = np.frombuffer(encrypted.to_string(), np.uint64, offset=_CIPHERTEXT_HEADER)
        return flat.reshape(2, -1, DEGREE)


def _joined(header: bytes, words: Words) -> bytes:
    return b"".join((header, np.ascontiguousarray(words).data))


@cache
def library() -> Library:
    """Return the one context of this process."""
    return Library()


def ciphertext_bytes(primes: tuple[int, ...]) -> int:
    """Return how many bytes a ciphertext modulo these primes is when it travels."""
    return 2 * len(primes) * DEGREE * _WORD_BYTES


def to_wire(words: Words) -> npt.NDArray[np.uint8]:
    """Return words as the bytes that travel."""
    return np.ascontiguousarray(np.ascontiguousarray(words, "<u8").view(_WORD)["low"]).reshape(-1).view(np.uint8)


def from_wire(octets: npt.NDArray[np.uint8], primes: tuple[int, ...]) -> Words:
    """Return the words of one ciphertext from a peer, all below their primes.

    Raises:
        FrameError: the bytes are no ciphertext modulo these primes.
    """
    count = 2 * len(primes) * DEGREE
    overlapping = np.ndarray((count,), "<u8", np.append(octets, np.uint8(0)), strides=(_WORD_BYTES,))
    whole = overlapping & np.uint64((1 << 8 * _WORD_BYTES) - 1)
    words = whole.astype(np.uint64, copy=False).reshape(2, len(primes), DEGREE)
    if (words >= np.array(primes, np.uint64)[:, None]).any():
        raise FrameError("a ciphertext has a word outside its range")
    if not words[1].any():  # would hide nothing from anybody
        raise FrameError("a ciphertext is not encrypted")
    return words


def check_wire(octets: Ciphertexts, count: int, primes: tuple[int, ...]) -> Ciphertexts:
    """Return `octets` if they are `count` rows of ciphertext bytes; a `FrameError` otherwise."""
    due = (count, ciphertext_bytes(primes))
    if octets.dtype != np.uint8 or octets.shape != due:
        raise FrameError(f"ciphertexts of shape {octets.shape} ({octets.dtype}) came where {due} bytes were due")
    return octets
