"""A worker process of `bfv_pool`: public key in, masks out, until nobody reads them."""

from __future__ import annotations

import sys

from colonnade.secure.bfv_masks import make_masks
from colonnade.secure.bfv_public import read_public
from colonnade.secure.bfv_words import library


def main() -> None:
    """Read a public key from standard input; write masks to standard output."""
    public, here = read_public(sys.stdin.buffer.read()), library()
    try:
        while True:
            for mask in make_masks(public):
                parts = here.words(mask.zero), here.words(mask.noise), mask.share
                sys.stdout.buffer.write(b"".join(part.tobytes() for part in parts))
                sys.stdout.buffer.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()


if __name__ == "__main__":
    main()
