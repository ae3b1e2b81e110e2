"""If these fail, training on encrypted columns that stay with the peer computes something else, or shows something."""

import numpy as np
import pytest
from bfv_parts import key_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import DataError, FrameError
from colonnade.secure import backend, ring, shares
from colonnade.secure.bfv import BfvBackend
from colonnade.secure.dispatch import Line
from colonnade.secure.standing import BlockShape, KeptColumns, SentColumns
from colonnade.wire.together import run_together


def train(plain, fragments, gradients, encryption=BfvBackend(), key=None, seen=None):  # noqa: B008
    """Return for each step the shares of both parties, (forward, backward) of each."""
    key = key or key_pair()
    width = fragments[0].shape[1]

    def source(channel):
        line = Line(channel, "target", encryption, key)
        line.send_key()
        block = SentColumns(key, plain)
        block.send(line, width)
        block.forget()
        if seen is not None:
            channel.observe(lambda to, message: seen.append(message))
        return [(block.receive_forward(line, width), block.receive_backward(line, width)) for _ in fragments]

    def target(channel):
        line = Line(channel, "source", encryption, key)
        line.receive_key()
        block = KeptColumns(line, BlockShape(*plain.shape, width))
        block.receive()
        if seen is not None:
            channel.observe(lambda to, message: seen.append(message))
        steps = [
            (block.forward(fragment), block.backward(line.evaluator.prepare(gradient)))
            for fragment, gradient in zip(fragments, gradients, strict=True)
        ]
        assert line.products == 2 * len(fragments)
        assert 40 <= line.total_bits <= line.statistical_bits
        return steps

    return run_together({"source": source, "target": target})


def assert_steps(plain, fragments, gradients, results):
    for fragment, gradient, one, two in zip(fragments, gradients, results["source"], results["target"], strict=True):
        assert (shares.add(one[0], two[0]) == ring.matmul(plain, fragment)).all()
        assert (shares.add(one[1], two[1]) == ring.matmul(np.ascontiguousarray(plain.T), ring.wrap(gradient))).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 400), st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**32))
def test_shares_add_up_to_both_products_exactly(records, columns, width, seed):
    rng = np.random.default_rng(seed)
    plain = rng.integers(-(2**20) + 1, 2**20, (records, columns))
    fragments = [ring.random_ring((columns, width)) for _ in range(2)]
    gradients = [rng.integers(-(2**20) + 1, 2**20, (records, width)) for _ in range(2)]
    assert_steps(plain, fragments, gradients, train(plain, fragments, gradients))


@pytest.mark.parametrize("fragment", [0, 1, 2**19 - 1, 2**19, 2**39, 2**58 - 1, 2**58, 2**59 - 2**19, 2**59 - 1])
@pytest.mark.parametrize("number", [0, 1 - 2**20, 2**20 - 1])
def test_no_fragment_is_cut_into_digits_wrongly(fragment, number):
    plain, gradient = np.full((3, 2), number), np.full((3, 4), number)
    fragments = [np.full((2, 4), fragment, np.uint64)]
    assert_steps(plain, fragments, [gradient], train(plain, fragments, [gradient]))


def test_it_is_the_same_with_the_other_backend():
    other = backend("paillier-2048")()
    rng = np.random.default_rng(0)
    plain, gradient = rng.integers(-(2**17), 2**17, (4, 2)), rng.integers(-(2**19), 2**19, (4, 3))
    fragments = [ring.random_ring((2, 3))]
    assert_steps(plain, fragments, [gradient], train(plain, fragments, [gradient], other, other.generate()))


def test_a_step_sends_two_messages_of_fixed_size_and_the_source_sends_none():
    sizes = set()
    for value in (0, 12345):
        seen = []
        plain = np.full((20, 3), value)
        train(plain, [np.full((3, 5), value, np.uint64)], [np.full((20, 5), value)], seen=seen)
        assert [message.kind for message in seen] == ["secure.masked"] * 2
        assert {message.sender for message in seen} == {"target"}
        sizes.add(tuple(message.payload_bytes for message in seen))
    assert len(sizes) == 1


def test_shares_of_one_step_are_fresh_every_time():
    """The same fragment over the same columns: equal shares would show that nothing changed."""
    plain, fragment, gradient = np.ones((5, 2), np.int64), ring.random_ring((2, 3)), np.ones((5, 3), np.int64)
    results = train(plain, [fragment] * 4, [gradient] * 4)
    for party in ("source", "target"):
        for which in (0, 1):
            assert len({step[which].tobytes() for step in results[party]}) == 4


def test_one_encryption_goes_to_all_targets_and_serves_each():
    rng = np.random.default_rng(2)
    plain, names = rng.integers(-100, 100, (30, 3)), ("x", "y")
    fragments = {name: ring.random_ring((3, 4)) for name in names}
    sent = []

    def source(channel):
        channel.observe(lambda to, message: sent.append(message))
        lines = {name: Line(channel, name, BfvBackend(), key_pair()) for name in names}
        block = SentColumns(key_pair(), plain)
        for line in lines.values():
            line.send_key()
            block.send(line, 4)
        return {name: block.receive_forward(line, 4) for name, line in lines.items()}

    def target(channel):
        line = Line(channel, "source", BfvBackend(), key_pair())
        line.receive_key()
        block = KeptColumns(line, BlockShape(30, 3, 4))
        block.receive()
        return block.forward(fragments[channel.name])

    results = run_together({"source": source, "x": target, "y": target})
    for name in names:
        assert (shares.add(results["source"][name], results[name]) == ring.matmul(plain, fragments[name])).all()
    first, _, second, _ = (message.tensors["ciphertexts"] for message in sent if message.kind == "secure.secret")
    assert (first == second).all()


def test_what_does_not_fit_is_refused():
    def source(channel):
        line = Line(channel, "target", BfvBackend(), key_pair())
        line.send_key()
        SentColumns(key_pair(), np.ones((4, 2), np.int64)).send(line, 3)

    def target(shape, fragment, early=False):
        def live(channel):
            line = Line(channel, "source", BfvBackend(), key_pair())
            line.receive_key()
            block = KeptColumns(line, shape)
            if not early:
                block.receive()
            block.forward(fragment)

        return live

    good = np.zeros((2, 3), np.uint64)
    with pytest.raises(DataError, match="was due"):
        run_together({"source": source, "target": target(BlockShape(4, 2, 3), good.T.copy())})
    with pytest.raises(DataError, match="receive first"):
        run_together({"source": source, "target": target(BlockShape(4, 2, 3), good, early=True)})
    with pytest.raises(FrameError) as caught:
        run_together({"source": source, "target": target(BlockShape(4000, 2, 3), good)})
    assert caught.value.where == "source"
    with pytest.raises(DataError, match=r"0\.25"):
        ring.encode_gradient([[0.25]])
    assert ring.encode_gradient([[-0.125]]).tolist() == [[-(2**19)]]
