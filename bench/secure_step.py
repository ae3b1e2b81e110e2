"""CPU time of one encrypted training step and of one validator round: three parties in one process, all six pairs.

    python bench/secure_step.py [--records 16 320 800] [--repeats 20]

A step is forward (shares of X·W for every ordered pair, given to the target under masks that cancel) and backward
(shares of Xᵀ·G). Times are CPU time of the whole process, the best mean of four steps in a row. "Bare" is what the
encryption library alone takes for the ciphertexts that the step needs: encrypt, multiply_plain, add, decrypt, measured
in the same run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import seal  # noqa: E402

from colonnade.secure import backend, bfv, bfv_masks, bfv_pool, dispatch, ring, shares  # noqa: E402
from colonnade.secure.aggregate import ZeroMasks  # noqa: E402
from colonnade.secure.backend import Product  # noqa: E402
from colonnade.secure.bfv_words import library  # noqa: E402
from colonnade.secure.norms import norms_as_holder, norms_as_owner  # noqa: E402
from colonnade.secure.rescale import encode_factors, rescale_as_holder, rescale_as_owner  # noqa: E402
from colonnade.secure.standing import BlockShape, KeptColumns, SentColumns  # noqa: E402
from colonnade.wire.together import run_together  # noqa: E402

NAMES = ("a", "b", "c")
VARIABLES, HIDDEN = 5, 5
WIDTH = VARIABLES * HIDDEN


class Profile:
    """Adds up the CPU time of named functions, each without what it calls among them."""

    def __init__(self):
        self.seconds, self.calls, self._stack = defaultdict(float), defaultdict(int), []

    def watch(self, owner, name, label=None):
        inner, label = getattr(owner, name), label or name

        def timed(*arguments, **options):
            started = time.process_time()
            self._stack.append(0.0)
            try:
                return inner(*arguments, **options)
            finally:
                whole = time.process_time() - started
                self.seconds[label] += whole - self._stack.pop()
                self.calls[label] += 1
                if self._stack:
                    self._stack[-1] += whole

        setattr(owner, name, timed)

    def show(self, title, make, repeats):
        self.seconds.clear()
        self.calls.clear()
        best, _, mean = measure(make, repeats)
        print(f"profile of {title}, ms each: mean {mean:.1f}, best {best:.1f} (set-up counts here)")
        for label, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            print(f"    {label:20} {1e3 * seconds / repeats:8.2f}   {self.calls[label] / repeats:6.1f} calls")


def connect(channel):
    encryption = backend("bfv")()
    key = encryption.generate()
    lines = {peer: dispatch.Line(channel, peer, encryption, key) for peer in channel.peers}
    for line in lines.values():
        line.send_key()
    for line in lines.values():
        line.receive_key()
    masks = ZeroMasks(channel, NAMES)
    masks.exchange()
    return lines, masks


def direct_party(records, repeats, times):
    """Return a role: the target encrypts its fragment and its gradient at every step, sources answer."""

    def live(channel):
        lines, masks = connect(channel)
        rng = np.random.default_rng(1)
        plain = ring.encode_plain(rng.normal(size=(records, VARIABLES)))
        prepared = next(iter(lines.values())).evaluator.prepare(plain)
        own, theirs = ({peer: ring.random_ring((VARIABLES, WIDTH)) for peer in lines} for _ in range(2))
        gradient = ring.encode(rng.normal(size=(records, WIDTH)) * 0.01, ring.GRADIENT_SCALE)
        forward, backward = Product(records, VARIABLES, WIDTH), Product(VARIABLES, records, WIDTH)
        for step in range(repeats):
            times[channel.name].append(time.process_time())
            for peer, line in lines.items():
                line.send_secret(own[peer], forward)
            for peer, line in lines.items():
                share = shares.add(line.answer(prepared, WIDTH), ring.matmul(plain, theirs[peer]))
                line.send_share(shares.add(share, masks.mask(peer, step, share.shape)))
            parts = [line.receive_share(forward) for line in lines.values()]
            shares.add(*parts, *(line.take_share((records, WIDTH)) for line in lines.values()))
            for line in lines.values():
                line.send_secret(gradient, backward)
            for peer, line in lines.items():
                theirs[peer] = shares.add(theirs[peer], line.answer(prepared, WIDTH, transposed=True))
            for peer, line in lines.items():
                own[peer] = shares.add(own[peer], line.receive_share(backward))
        times[channel.name].append(time.process_time())
        return {peer: (line.products, line.statistical_bits, line.total_bits) for peer, line in lines.items()}

    return live


def standing_party(records, repeats, times):
    """Return a role: sources have sent their columns encrypted, targets multiply them at every step."""

    def live(channel):
        lines, masks = connect(channel)
        rng = np.random.default_rng(1)
        plain = ring.encode_plain(rng.normal(size=(records, VARIABLES)))
        sent = SentColumns(next(iter(lines.values()))._key_pair, plain)
        shape = BlockShape(records, VARIABLES, WIDTH)
        kept = {peer: KeptColumns(line, shape) for peer, line in lines.items()}
        for line in lines.values():
            sent.send(line, WIDTH)
        for block in kept.values():
            block.receive()
        own, theirs = ({peer: ring.random_ring((VARIABLES, WIDTH)) for peer in lines} for _ in range(2))
        gradient = ring.encode_gradient(rng.normal(size=(records, WIDTH)) * 0.01)
        for step in range(repeats):
            times[channel.name].append(time.process_time())
            parts = [block.forward(own[peer]) for peer, block in kept.items()]
            for peer, line in lines.items():
                share = shares.add(sent.receive_forward(line, WIDTH), ring.matmul(plain, theirs[peer]))
                line.send_share(shares.add(share, masks.mask(peer, step, share.shape)))
            shares.add(*parts, *(line.take_share((records, WIDTH)) for line in lines.values()))
            prepared = next(iter(lines.values())).evaluator.prepare(gradient)
            for peer, block in kept.items():
                own[peer] = shares.add(own[peer], block.backward(prepared))
            for peer, line in lines.items():
                theirs[peer] = shares.add(theirs[peer], sent.receive_backward(line, WIDTH))
        times[channel.name].append(time.process_time())
        return {peer: (line.products, line.statistical_bits, line.total_bits) for peer, line in lines.items()}

    return live


def validator_party(repeats, times):
    """Return a role that computes norms of all 25 edges of every pair, and scales all of them."""

    def live(channel):
        lines, _ = connect(channel)
        own, theirs = ({peer: ring.random_ring((VARIABLES * VARIABLES, HIDDEN)) for peer in lines} for _ in range(2))
        factors = encode_factors(np.full((VARIABLES * VARIABLES, 1), 0.9))
        for _ in range(repeats):
            times[channel.name].append(time.process_time())
            for first, second in ((a, b) for a in NAMES for b in NAMES if a != b):
                if channel.name == first:
                    norms_as_holder(lines[second], theirs[second])
                    rescale_as_holder(lines[second], theirs[second], factors)
                elif channel.name == second:
                    norms_as_owner(lines[first], own[first])
                    rescale_as_owner(lines[first], own[first], factors)
        times[channel.name].append(time.process_time())

    return live


def bare_operations(repeats=20):
    """Return milliseconds of the library's own operations."""
    here = library()
    keys = seal.KeyGenerator(here.context)
    encryptor = seal.Encryptor(here.context, keys.create_public_key(), keys.secret_key())
    decryptor, evaluator = seal.Decryptor(here.context, keys.secret_key()), here.evaluator
    plain = here.plaintext(ring.random_ring((8192,)))
    fresh = encryptor.encrypt_symmetric(plain)
    moved, switched = evaluator.transform_to_ntt(fresh), evaluator.mod_switch_to_next(fresh)
    factor = evaluator.transform_to_ntt(here.plaintext(np.arange(8192, dtype=np.uint64)), here.context.first_parms_id())
    operations = {
        "encrypt": lambda: encryptor.encrypt_symmetric(plain),
        "encrypt_zero": encryptor.encrypt_zero,
        "multiply_plain": lambda: evaluator.multiply_plain(moved, factor),
        "add": lambda: evaluator.add(moved, moved),
        "decrypt": lambda: decryptor.decrypt(switched),
    }
    found = {}
    for name, operation in operations.items():
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            for _ in range(repeats):
                operation()
            best = min(best, (time.process_time() - started) / repeats)
        found[name] = 1e3 * best
    return found


def needed(products, bare):
    """Return the library's milliseconds for the ciphertexts of these products: (product, times encrypted)."""
    total = 0.0
    for product, encrypted in products:
        tile = bfv.tile_for(product)
        down, deep, across = tile.grid
        total += encrypted * tile.inputs * bare["encrypt"]
        total += down * deep * across * (bare["multiply_plain"] + bare["add"])
        total += tile.outputs * (bare["encrypt_zero"] + bare["add"] + bare["decrypt"])
    return total


def measure(make, repeats):
    """Return the milliseconds of the best steps, what the roles returned, and the mean over all steps.

    Masks are made four at a time, so what counts is the mean of four steps in a row.
    """
    times = defaultdict(list)
    results = run_together({name: make(times) for name in NAMES})
    marks = 1e3 * np.array(times["a"])
    return ((marks[5:] - marks[1:-4]) / 4).min(), results, (marks[-1] - marks[0]) / repeats


def watched():
    profile = Profile()
    profile.watch(bfv.BfvKeyPair, "encrypt", "owner: encrypt")
    profile.watch(bfv.BfvKeyPair, "receive_shares", "owner: decrypt")
    profile.watch(bfv.BfvEvaluator, "load", "holder: load")
    profile.watch(bfv.BfvEvaluator, "_premultiply", "holder: product")
    profile.watch(bfv.BfvPrepared, "encoded", "holder: encode")
    profile.watch(bfv.BfvEvaluator, "to_shares", "holder: hide")
    profile.watch(bfv_pool, "make_masks", "holder: 4 masks")
    profile.watch(bfv_masks, "flooding", "holder: flooding")
    profile.watch(dispatch.Line, "_send", "send")
    profile.watch(ZeroMasks, "mask", "zero masks")
    return profile


def show(title, make, repeats, bare):
    best, results, _ = measure(make, repeats)
    line = f"{title:32} {best:8.1f} ms"
    print(line + (f"   {best / bare:5.2f} of bare ({bare:.1f} ms)" if bare else ""))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, nargs="+", default=[16, 320, 800])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="also print where the time goes (a run of its own)")
    options = parser.parse_args()
    bare = bare_operations()
    print("bare operations, ms:", {name: round(value, 3) for name, value in bare.items()})
    for records in options.records:
        direct = [(Product(records, VARIABLES, WIDTH), 1), (Product(VARIABLES, records, WIDTH), 1)]
        block = BlockShape(records, VARIABLES, WIDTH)
        for name, party, products in (
            ("anew", direct_party, direct),
            ("standing", standing_party, [(block.forward, 0), (block.backward, 0)]),
        ):

            def make(times, records=records, party=party):
                return party(records, options.repeats, times)

            results = show(f"step, {name}, {records} records", make, options.repeats, 6 * needed(products, bare))
            count, least, total = next(iter(results["a"].values()))
            print(f"{'':32} least {least:.1f} statistical bits, {total:.1f} over {count} products")
    show("validator round", lambda times: validator_party(options.repeats, times), options.repeats, 0)
    if options.profile:
        profile = watched()
        for records in options.records:
            profile.show(
                f"standing, {records} records",
                lambda times, n=records: standing_party(n, options.repeats, times),
                options.repeats,
            )
        profile.show("validator", lambda times: validator_party(options.repeats, times), options.repeats)


if __name__ == "__main__":
    main()
