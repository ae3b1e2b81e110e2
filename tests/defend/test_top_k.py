"""Top-k compression: pruning by another name, and with feedback a delay of what is pruned."""

import pandas as pd
import pytest
import torch

import colonnade as co
import colonnade.defend.prune
import colonnade.defend.quantise
import colonnade.defend.top_k
from colonnade.defend.registry import make_defense


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kept", "entries"), [(0.5, 50), (0.07, 7), (0.051, 6), (0.0, 1), (1.0, 100)])
def test_the_largest_entries_are_kept(kept, entries):
    """The share that a table names would not be the share that was sent."""
    h = normal(0, 3, 100)
    upload = make_defense("top_k", kept=kept).protect(h, h, train=True)
    for row, sent in zip(h, upload, strict=True):
        largest = sorted(range(100), key=lambda j: -abs(row[j].item()))[:entries]
        assert sorted(sent.nonzero()[:, 0].tolist()) == sorted(largest)
        assert torch.equal(sent[largest], row[largest])


def test_it_equals_pruning_at_the_rest():
    h = normal(0, 3, 4, 5, 5)
    kept = make_defense("top_k", kept=0.1).protect(h, h, train=False)
    assert torch.equal(kept, make_defense("prune", rate=0.9).protect(h, h, train=False))
    assert torch.equal(make_defense("top_k", kept=0.1).operator()(h), kept)


def sent(defense, h, rows, train=True):
    defense.turn_to(torch.tensor(rows))
    return defense.protect(h, h, train=train)


def test_feedback_sends_later_what_was_left_out():
    """Without the memory, small entries would never arrive; with a memory of the batch, records would be mixed up."""
    defense, h = make_defense("top_k", kept=0.25, feedback=True), normal(0, 3, 8)
    order = h.abs().argsort(dim=1, descending=True)
    for turn in range(1, 5):
        for record in (2, 0, 1):  # records come one by one, in any order
            upload = sent(defense, h[[record]], [5 * record])
            expected = torch.zeros(8)
            expected[order[record, : 2 * turn]] = h[record, order[record, : 2 * turn]]
            torch.testing.assert_close(upload[0], expected)
    torch.testing.assert_close(upload, h[[1]], msg="after four messages of a quarter each, all has arrived")


def test_feedback_follows_a_moving_representation():
    """Against the published recursion, one record at a time, in plain numbers."""
    defense, generator = make_defense("top_k", kept=0.3, feedback=True), torch.Generator().manual_seed(1)
    received = [[0.0] * 10 for _ in range(6)]
    h = normal(0, 6, 10)
    for _ in range(7):
        h = h + 0.1 * torch.randn(6, 10, generator=generator)
        rows = torch.randperm(6, generator=generator)[:4].tolist()
        upload = sent(defense, h[rows], rows)
        for place, row in enumerate(rows):
            difference = [a - b for a, b in zip(h[row].tolist(), received[row], strict=True)]
            for entry in sorted(range(10), key=lambda j: -abs(difference[j]))[:3]:
                received[row][entry] += difference[entry]
            torch.testing.assert_close(upload[place], torch.tensor(received[row]))


def test_feedback_lets_the_whole_gradient_through():
    h = normal(0, 4, 20).requires_grad_()
    defense, grad = make_defense("top_k", feedback=True), normal(1, 4, 20)
    defense.backward(h, h, sent(defense, h, [0, 1, 2, 3]), grad)
    assert torch.equal(h.grad, grad)


@pytest.mark.parametrize("name", ["top_k", "quantise"])
def test_only_training_messages_are_remembered(name):
    """Predictions and local updates at home would change what the receiver is thought to know."""
    defense, h = make_defense(name, feedback=True), normal(0, 4, 20)
    sent(defense, h, [0, 1, 2, 3])
    before = {key: value.clone() for key, value in defense.state_dict().items()}
    assert torch.equal(sent(defense, h + 1, [0, 1, 2, 3], train=False), h + 1), "predictions are sent whole"
    assert torch.equal(defense.rehearse(h, h + 2), h + 2)
    assert torch.equal(defense.operator()(h), h)
    after = defense.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_without_feedback_nothing_is_remembered():
    defense, h = make_defense("top_k", kept=0.1), normal(0, 4, 20)
    assert torch.equal(sent(defense, h, [0, 1, 2, 3]), sent(defense, h, [0, 1, 2, 3]))
    assert set(defense.state_dict()) == {"generator"}


def test_a_finished_model_carries_no_memory():
    """A saved model would hold a representation of every training record."""
    defense, h = make_defense("top_k", feedback=True), normal(0, 4, 20)
    sent(defense, h, [0, 1, 2, 3])
    assert defense.state_dict()["sums"].shape == (4, 20)
    defense.finish(None, h)
    assert "sums" not in defense.state_dict()


@pytest.mark.parametrize("choice", [{"name": "top_k", "kept": 0.2}, {"name": "quantise", "levels": 4}])
def test_a_resumed_run_with_feedback_repeats_the_undisturbed_one(choice, tmp_path):
    """After a crash both ends would go on from different sums."""
    table = pd.DataFrame(normal(0, 120, 6).numpy(), columns=list("abcdef"))
    table["answer"] = (table.a + table.d > 0).astype(int)
    federation = co.Federation.from_frame(
        table, {"clinic": ["a", "b"], "lab": ["c", "d", "e", "f"]}, ("clinic", "answer")
    )
    settings = {"epochs": 4, "batch_size": 16, "progress": False, "checkpoint_every": 5, "local_updates": 2}
    defense = {**choice, "feedback": True}
    undisturbed = co.train(federation, defense, **settings)

    class Stumble:
        def begin(self, top, shapes, outputs):
            pass

        def watch(self, step, uploads, labels, honest):
            if step == 13:
                raise RuntimeError("stumbled")
            return honest

    with pytest.raises(RuntimeError, match="stumbled"):
        co.train(federation, defense, run=tmp_path, curious=Stumble(), **settings)
    resumed = co.train(federation, defense, run=tmp_path, resume=True, **settings)
    assert resumed.history.equals(undisturbed.history)
    for first, second in zip(
        undisturbed.parts["lab"].bottom.network.parameters(),
        resumed.parts["lab"].bottom.network.parameters(),
        strict=True,
    ):
        assert torch.equal(first, second)


@pytest.mark.parametrize(("kept", "entries"), [(0.1, 100), (0.5, 100), (0.01, 8192), (0.0, 1), (1.0, 7)])
def test_a_message_needs_its_values_and_their_places(kept, entries):
    """The bytes in a table would be fewer than anyone could send."""
    defense, h = make_defense("top_k", kept=kept), normal(0, 2, entries)
    count = int((sent(defense, h, [0, 1])[0] != 0).sum())
    listed, marked = count * len(format(entries - 1, "b")) * (entries > 1), entries
    assert defense.message_bytes(entries) == 4 * count + -(-min(listed, marked) // 8)
    assert defense.meters() == {"message_bytes": defense.message_bytes(entries)}
