"""If these fail, parties cannot compute encrypted products over a channel, or a channel carries what it must not."""

import logging

import numpy as np
import pytest
from bfv_parts import key_pair

from colonnade.errors import ConfigError, FrameError, RefusedError
from colonnade.secure import backend, ring, shares
from colonnade.secure.backend import Product
from colonnade.secure.bfv import BfvBackend
from colonnade.secure.bfv_words import to_wire
from colonnade.secure.dispatch import SECURE_KINDS, SEED, Line
from colonnade.wire.local import local_channels
from colonnade.wire.together import run_together

HIDDEN = 4


def iteration(me, columns, weights, gradients, name):
    """Return a role that does all its part of one iteration with every other party, forward and backward."""

    def live(channel):
        encryption = backend(name)()
        key = encryption.generate()
        lines = {peer: Line(channel, peer, encryption, key) for peer in channel.peers}
        for line in lines.values():
            line.send_key()
        assert all(line.receive_key() for line in lines.values())
        plain = ring.encode_plain(columns[me])
        prepared = {peer: line.evaluator.prepare(plain) for peer, line in lines.items()}
        result = {}
        for secrets, scale, transposed in ((weights, ring.WEIGHT_SCALE, False), (gradients, ring.GRADIENT_SCALE, True)):
            products = {}
            for peer, line in lines.items():
                secret = ring.encode(secrets[peer, me], scale)
                rows = columns[peer].shape[::-1] if transposed else columns[peer].shape
                products[peer] = Product(*rows, secret.shape[1])
                line.send_secret(secret, products[peer])
            width = {peer: secrets[me, peer].shape[1] for peer in lines}
            held = {
                peer: line.answer(prepared[peer], width[peer], transposed=transposed) for peer, line in lines.items()
            }
            owned = {peer: line.receive_share(products[peer]) for peer, line in lines.items()}
            result[transposed] = held, owned
        for line in lines.values():
            assert line.products == 2
            assert 40 <= line.statistical_bits - 1 <= line.total_bits < line.statistical_bits
        return result

    return live


@pytest.mark.parametrize(("name", "parties"), [("bfv", 2), ("bfv", 3), ("bfv", 5), ("paillier-2048", 2)])
def test_all_pairs_of_parties_get_shares_of_products_in_both_directions(name, parties):
    rng = np.random.default_rng(parties)
    names = [f"party{i}" for i in range(parties)]
    sizes = dict(zip(names, (3, 1, 2, 5, 4), strict=False))
    columns = {each: rng.normal(size=(20, sizes[each])) for each in names}
    pairs = [(holder, owner) for holder in names for owner in names if holder != owner]
    weights = {pair: rng.normal(size=(sizes[pair[0]], HIDDEN * sizes[pair[1]])) for pair in pairs}
    gradients = {pair: rng.normal(size=(20, HIDDEN * sizes[pair[1]])) for pair in pairs}
    result = run_together({each: iteration(each, columns, weights, gradients, name) for each in names})
    for holder, owner in pairs:
        forward = shares.reveal(result[holder][False][0][owner], result[owner][False][1][holder])
        backward = shares.reveal(result[holder][True][0][owner], result[owner][True][1][holder])
        exact = columns[holder] @ weights[holder, owner]
        assert np.abs(ring.decode(forward, ring.PRODUCT_SCALE) - exact).max() < 1e-2
        exact = columns[holder].T @ gradients[holder, owner]
        assert np.abs(ring.decode(backward, ring.WEIGHT_SCALE) - exact).max() < 1e-2


def owner(channel, own_key=None, secret=None):
    line = Line(channel, "holder", BfvBackend(), own_key or key_pair())
    line.send_key()
    product = Product(3, 2, 2)
    line.send_secret(ring.encode(np.ones((2, 2)) if secret is None else secret, ring.WEIGHT_SCALE), product)
    share = line.receive_share(product)
    return shares.reveal(share, line.take_share((3, 2)))


def holder(channel):
    line = Line(channel, "owner", BfvBackend(), key_pair())
    line.receive_key()
    share = line.answer(line.evaluator.prepare(ring.encode_plain([[1.0, 2.0]] * 3)), columns=2)
    line.send_share(share)
    return share


def test_a_share_that_is_given_away_reveals_the_product_to_the_owner_alone():
    results = run_together({"owner": owner, "holder": holder})
    assert (ring.decode(results["owner"], ring.PRODUCT_SCALE) == 3.0).all()


def test_only_named_kinds_cross_the_channel_and_none_carries_key_material_or_values(caplog):
    """Also not a log, at any level."""
    caplog.set_level(logging.DEBUG)
    seen = []

    def watched(role):
        def live(channel):
            channel.observe(lambda to, message: seen.append(message))
            return role(channel)

        return live

    run_together({"owner": watched(owner), "holder": watched(holder)})
    assert {message.kind for message in seen} == set(SECURE_KINDS) - {SEED}
    secret = np.frombuffer(key_pair()._secret.to_string()[-8 * 8192 :], np.uint64)
    needles = [secret[:2].tobytes(), to_wire(secret[:2]).tobytes(), to_wire(secret[4000:4002]).tobytes()]
    for message in seen:
        content = repr(message.meta).encode() + b"".join(tensor.tobytes() for tensor in message.tensors.values())
        assert not any(needle in content for needle in needles)
    assert not any(secret[:1].tobytes().hex() in record.getMessage() for record in caplog.records)
    assert [message.meta for message in seen if message.meta] == [{"backend": "bfv"}]


def test_the_search_for_key_material_finds_it_where_it_is(tmp_path):
    key_pair().save(tmp_path / "key")
    assert key_pair()._secret.to_string()[-8 * 8192 :][:16] in (tmp_path / "key").read_bytes()


@pytest.mark.parametrize(
    ("tensors", "meta"),
    [
        ({}, {"backend": "bfv"}),
        ({"key": np.zeros(5, np.uint8)}, {"backend": "bfv"}),
        ({"key": np.zeros(5)}, {"backend": "bfv"}),
        ({"key": np.zeros((1, 5), np.uint8)}, {"backend": "bfv"}),
        ({"key": np.zeros(5, np.uint8), "more": np.zeros(5, np.uint8)}, {"backend": "bfv"}),
    ],
)
def test_keys_that_are_none_are_refused_and_their_sender_named(tensors, meta):
    def impostor(channel):
        channel.send("holder", "secure.key", 0, tensors, meta)

    with pytest.raises(FrameError) as caught:
        run_together({"owner": impostor, "holder": holder})
    assert caught.value.where == "owner"


def test_parties_with_different_backends_are_told_so():
    def other(channel):
        channel.send("holder", "secure.key", 0, {"key": np.zeros(5, np.uint8)}, {"backend": "paillier"})

    with pytest.raises(ConfigError, match="another secure backend"):
        run_together({"owner": other, "holder": holder})


@pytest.mark.parametrize("octets", [np.zeros((1, 10), np.uint8), np.zeros((0, 10), np.uint8), np.zeros(10, np.uint8)])
def test_ciphertexts_that_are_none_are_refused_and_their_sender_named(octets):
    def impostor(channel):
        Line(channel, "holder", BfvBackend(), key_pair()).send_key()
        channel.send("holder", "secure.secret", 0, {"ciphertexts": octets})

    with pytest.raises(FrameError) as caught:
        run_together({"owner": impostor, "holder": holder})
    assert caught.value.where == "owner"


@pytest.mark.parametrize("share", [np.zeros((2, 3), np.uint64), np.full((3, 2), 2**59, np.uint64), np.zeros((3, 2))])
def test_shares_that_are_none_are_refused(share):
    def impostor(channel):
        line = Line(channel, "owner", BfvBackend(), key_pair())
        line.receive_key()
        line.answer(line.evaluator.prepare(ring.encode_plain([[1.0, 2.0]] * 3)), columns=2)
        channel.send("owner", "secure.share", 0, {"share": share})

    with pytest.raises(FrameError):
        run_together({"owner": owner, "holder": impostor})


def test_a_line_without_the_peers_key_says_so():
    channel = local_channels(["a", "b"])["a"]
    line = Line(channel, "b", BfvBackend(), key_pair())
    with pytest.raises(ConfigError, match="receive_key"):
        _ = line.evaluator
    assert "bfv" in repr(line)


def test_a_resumed_run_goes_on_at_later_steps():
    """Steps grow over a whole run; a second life that started at zero again would be refused as a replay."""
    channels = local_channels(["a", "b"])
    for first_step in (0, 7):
        Line(channels["a"], "b", BfvBackend(), key_pair(), first_step=first_step).send_key()
        line = Line(channels["b"], "a", BfvBackend(), key_pair(), first_step=first_step)
        assert line.receive_key() == key_pair().fingerprint()
    with pytest.raises(RefusedError):
        Line(channels["a"], "b", BfvBackend(), key_pair()).send_key()
