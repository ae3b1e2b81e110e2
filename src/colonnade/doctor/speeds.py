"""How fast the libraries beneath are here: each measured within about a second, on numbers of no meaning."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from colonnade.doctor.finding import Finding

_IDS = 1000
_BLOCK = 1 << 23
_SIDE = 1024
_TIMES = 3


def examine_speeds() -> Iterator[Finding]:
    """Yield one speed for each library that a federation waits for; one that does not work is broken."""
    for name, (measure, unit, package) in SPEEDS.items():
        if measure is gpu_product and not _has_gpu():
            continue
        try:
            yield Finding("speeds", name, measure(), unit)
        except Exception as error:  # whatever a broken library raises, the doctor must go on and tell it
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            yield Finding("speeds", name, what, state="broken", remedy=f"pip install --force-reinstall {package}")


def encrypted_product() -> float:
    """Return multiplications a second of one small product under BFV, from encryption to both shares."""
    import numpy as np

    from colonnade.errors import RunError
    from colonnade.secure import Product, backend
    from colonnade.secure.ring import encode_plain, matmul, random_ring, wrap

    product = Product(rows=256, inner=4, columns=40)
    plain = encode_plain(np.random.default_rng(0).standard_normal((product.rows, product.inner)))
    secret = random_ring(product.secret_shape)
    engine = backend("bfv")()
    owner = engine.generate()
    holder = engine.evaluator(owner.public_bytes(), workers=0)
    prepared = holder.prepare(plain)

    def multiply() -> None:
        encrypted = holder.load(owner.encrypt(secret, product), product)
        masked = holder.to_shares(holder.premultiply(prepared, encrypted))
        share = owner.receive_shares(masked.ciphertexts, product)
        if not np.array_equal(wrap(share + masked.share), matmul(plain, secret)):
            raise RunError("the shares do not add up to the product")

    try:
        return product.multiplications / _best_time(multiply)
    finally:
        holder.close()


def intersection() -> float:
    """Return ids a second in an alignment of two parties with 1,000 ids each, half of them in common."""
    from colonnade.align.together import align_together
    from colonnade.errors import RunError

    ids = {"clinic": range(_IDS), "lab": range(_IDS // 2, _IDS + _IDS // 2)}

    def align() -> None:
        found = align_together({party: [f"id{number}" for number in own] for party, own in ids.items()}, "clinic")
        if len(found["clinic"].rows) != _IDS // 2:
            raise RunError("the wrong ids were found in common")

    return _IDS / _best_time(align, times=1)


def channel_encryption() -> float:
    """Return the megabytes a second that AES-256-GCM seals on one core: what TLS does to everything sent."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher, block = AESGCM(AESGCM.generate_key(256)), bytes(_BLOCK)
    return _BLOCK / 1e6 / _best_time(lambda: cipher.encrypt(bytes(12), block, None))


def matrix_product(device: str = "cpu") -> float:
    """Return billions of operations a second in a product of two float32 matrices with torch."""
    import torch

    left, right = torch.ones(_SIDE, _SIDE, device=device), torch.ones(_SIDE, _SIDE, device=device)
    # Asking for one entry waits until a GPU is done.
    return 2 * _SIDE**3 / 1e9 / _best_time(lambda: float((left @ right)[0, 0]))


def gpu_product() -> float:
    """Return the same on the first GPU."""
    return matrix_product("cuda")


SPEEDS: dict[str, tuple[Callable[[], float], str, str]] = {
    "encrypted product (BFV)": (encrypted_product, "multiplications/s", "seal-python"),
    "alignment of 1,000 ids (PSI)": (intersection, "ids/s", "openmined-psi"),
    "AES-256-GCM": (channel_encryption, "MB/s", "cryptography"),
    "matrix product (torch)": (matrix_product, "GFLOP/s", "torch"),
    "matrix product (torch, GPU)": (gpu_product, "GFLOP/s", "torch"),
}
"""What is measured, how, in which unit, and the package that does the work."""


def _has_gpu() -> bool:
    torch = sys.modules.get("torch")  # loaded before, unless it is broken
    return torch is not None and bool(torch.cuda.is_available())


def _best_time(work: Callable[[], object], times: int = _TIMES) -> float:
    """Return the seconds of the quickest of several times: others use this machine too."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)
