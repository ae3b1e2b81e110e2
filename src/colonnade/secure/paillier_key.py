"""Paillier keys (g = n + 1, the scheme of python-paillier) and what can be done with one half or both.

The public half adds and re-randomises; the private half encrypts and decrypts modulo p² and q², several times quicker.
Exponents that are secret go through GMP's constant-time exponentiation.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import NoReturn

import gmpy2
import numpy as np
from gmpy2 import mpz, powmod, powmod_sec

from colonnade.errors import FrameError
from colonnade.secure.backend import Ciphertexts
from colonnade.secure.paillier_residues import Residues
from colonnade.secure.paillier_threads import cores, in_threads

KEY_BITS = (3072, 2048)
_PRIME_ROUNDS = 40
_SMALL_FACTORS = gmpy2.primorial(1 << 12)


class PublicKey:
    """The modulus n, known to everybody.

    Attributes:
        n: the modulus.
        square: n².
        bits: its length.
    """

    def __init__(self, n: mpz) -> None:
        self.n, self.square = n, n * n
        self.bits = int(n.bit_length())
        self._residues = Residues(self.square, self.bits, self._draw)

    @classmethod
    def from_bytes(cls, content: bytes, bits: int) -> PublicKey:
        """Read what `to_bytes` gave; a `FrameError` if that can be no modulus of `bits` bits."""
        n = mpz(int.from_bytes(content, "big"))
        if len(content) != bits // 8 or n.bit_length() != bits or gmpy2.gcd(n, _SMALL_FACTORS) != 1:
            raise FrameError(f"this is no Paillier public key of {bits} bits")
        if gmpy2.is_power(n) or gmpy2.is_prime(n):
            raise FrameError(f"this is no Paillier public key of {bits} bits")
        return cls(n)

    def to_bytes(self) -> bytes:
        """Return n, the highest byte first."""
        return bytes(self.n.to_bytes(self.bits // 8, "big"))

    @property
    def ciphertext_bytes(self) -> int:
        """The length of one ciphertext."""
        return self.bits // 4

    def fresh_residues(self, count: int, threads: int) -> list[mpz]:
        """Return `count` fresh encryptions of zero."""
        return self._residues.take(count, threads)

    def add_plain(self, ciphertext: mpz, plaintext: int, residue: mpz) -> mpz:
        """Return an encryption of the ciphertext's number plus `plaintext`, re-randomised by `residue`."""
        return (1 + plaintext % self.n * self.n) * ciphertext % self.square * residue % self.square

    def serialize(self, ciphertexts: Sequence[mpz]) -> Ciphertexts:
        """Return ciphertexts as they travel."""
        size = self.ciphertext_bytes
        text = b"".join(ciphertext.to_bytes(size, "big") for ciphertext in ciphertexts)
        return np.frombuffer(text, np.uint8).reshape(len(ciphertexts), size)

    def parse(self, ciphertexts: Ciphertexts, count: int) -> list[mpz]:
        """Return the numbers of `count` ciphertexts; a `FrameError` unless each is a unit modulo n²."""
        if (
            not isinstance(ciphertexts, np.ndarray)
            or ciphertexts.dtype != np.uint8
            or ciphertexts.shape != (count, self.ciphertext_bytes)
        ):
            raise FrameError(f"these are not {count} ciphertexts of {self.ciphertext_bytes} bytes")
        numbers = [mpz(int.from_bytes(row.tobytes(), "big")) for row in ciphertexts]
        together = mpz(1)
        for number in numbers:
            together = together * number % self.n
        if max(numbers) >= self.square or gmpy2.gcd(together, self.n) != 1:  # one gcd for all; zero is no unit
            raise FrameError("a ciphertext is out of range")
        return numbers

    def _draw(self) -> mpz:
        while gmpy2.gcd(unit := mpz(secrets.randbelow(int(self.n))), self.n) != 1:
            pass
        return powmod(unit, self.n, self.square)


class PrivateKey:
    """The primes p and q, which stay with the owner; they are never shown, and the object cannot be pickled.

    Attributes:
        public: the public half.
    """

    def __init__(self, p: mpz, q: mpz) -> None:
        self._p, self._q = p, q
        self._p_square, self._q_square = p * p, q * q
        self.public = PublicKey(p * q)
        self._p_inverse = gmpy2.invert(q, p)
        self._square_inverse = gmpy2.invert(self._q_square, self._p_square)
        self._p_scale, self._q_scale = self._scale(p), self._scale(q)
        half = p.bit_length()
        self._p_residues = Residues(self._p_square, half, lambda: _draw_modulo(p))
        self._q_residues = Residues(self._q_square, half, lambda: _draw_modulo(q))

    @classmethod
    def generate(cls, bits: int) -> PrivateKey:
        """Make a key with a modulus of exactly `bits` bits, from the system's secure source."""
        while True:
            p, q = _random_prime(bits // 2), _random_prime(bits // 2)
            if suits(p, q, bits):
                return cls(p, q)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public.bits} bits)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key is not to be copied out of the process")

    def to_bytes(self) -> bytes:
        """Return p and q, for the key file and nothing else."""
        size = self.public.bits // 16
        return bytes(self._p.to_bytes(size, "big") + self._q.to_bytes(size, "big"))

    def encrypt(self, plaintexts: Sequence[int]) -> list[mpz]:
        """Return fresh encryptions of whole numbers modulo n."""
        n, square = self.public.n, self.public.square
        residues = self._fresh_residues(len(plaintexts))
        return [(1 + number % n * n) * residue % square for number, residue in zip(plaintexts, residues, strict=True)]

    def decrypt(self, ciphertexts: Sequence[mpz]) -> list[mpz]:
        """Return the numbers below n that ciphertexts hold."""
        return in_threads(lambda part: [self._decrypt(ciphertext) for ciphertext in part], ciphertexts, cores())

    def _decrypt(self, ciphertext: mpz) -> mpz:
        modulo_p = _logarithm(ciphertext, self._p, self._p_square) * self._p_scale
        modulo_q = _logarithm(ciphertext, self._q, self._q_square) * self._q_scale % self._q
        return modulo_q + self._q * ((modulo_p - modulo_q) * self._p_inverse % self._p)

    def _scale(self, prime: mpz) -> mpz:
        return gmpy2.invert(_logarithm(self.public.n + 1, prime, prime * prime), prime)

    def _fresh_residues(self, count: int) -> list[mpz]:
        """Return uniform residues modulo n²: r^n modulo p² is the p-th power of a uniform unit modulo p."""
        pairs = zip(self._p_residues.take(count, cores()), self._q_residues.take(count, cores()), strict=True)
        return [low + self._q_square * ((high - low) * self._square_inverse % self._p_square) for high, low in pairs]


def suits(p: mpz, q: mpz, bits: int) -> bool:
    """Whether two numbers are primes for a key of `bits` bits: long, far apart, and decryption is unique."""
    return bool(
        p.bit_length() == q.bit_length() == bits // 2
        and (p * q).bit_length() == bits
        and abs(p - q).bit_length() > bits // 2 - 100
        and gmpy2.gcd(p * q, (p - 1) * (q - 1)) == 1
        and gmpy2.is_prime(p, _PRIME_ROUNDS)
        and gmpy2.is_prime(q, _PRIME_ROUNDS)
    )


def _random_prime(bits: int) -> mpz:
    start = mpz(int.from_bytes(os.urandom(bits // 8), "big")) | 3 << bits - 2  # so that p · q has all its bits
    return gmpy2.next_prime(start)


def _draw_modulo(prime: mpz) -> mpz:
    unit = mpz(1 + secrets.randbelow(int(prime) - 1))
    return powmod_sec(unit, prime, prime * prime)


def _logarithm(ciphertext: mpz, prime: mpz, square: mpz) -> mpz:
    return (powmod_sec(ciphertext % square, prime - 1, square) - 1) // prime
