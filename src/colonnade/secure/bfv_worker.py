"""A worker process of `bfv_pool`: public key in, masks out, until nobody reads them."""

from __future__ import annotations

import sys

import numpy as np
import seal

from colonnade.secure.bfv_masks import make_mask
from colonnade.secure.bfv_words import KEY_PRIMES, from_wire, library


def main() -> None:
    """Read a public key from standard input; write masks to standard output."""
    octets = np.frombuffer(sys.stdin.buffer.read(), np.uint8)
    here = library()
    encryptor = seal.Encryptor(here.context, here.public_key(from_wire(octets, KEY_PRIMES)))
    try:
        while True:
            mask = make_mask(encryptor)
            sys.stdout.buffer.write(mask.words.tobytes() + mask.share.tobytes())
            sys.stdout.buffer.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()


if __name__ == "__main__":
    main()
