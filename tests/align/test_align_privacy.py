"""What one curious party can learn from all it received: each attack here succeeds once its obstacle is taken away."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict

import numpy as np
import pytest

from colonnade.align import alignment as alignment_module
from colonnade.align import circle as circle_module
from colonnade.align.alignment import align
from colonnade.align.cipher import Cipher, as_bytes
from colonnade.wire.channel import Channel
from colonnade.wire.local import local_channels

PARTIES = ("clinic", "lab", "registry")
ALL, PAIRS, ALONE = range(10), range(100, 300), range(1000, 1020)


def spelt(ids):
    return [f"integer:{number}".encode() for number in ids]


class Recording(Channel):
    """A party's channel that keeps what it received."""

    def __init__(self, inner):
        super().__init__(inner.name, inner.peers, inner.run, inner.deadline)
        self._inner, self.received = inner, []

    def _deliver(self, to, message):
        self._inner.send(to, message.kind, message.step, message.tensors, message.meta)

    def _receive(self, frm, kind, step):
        self.received.append(self._inner.recv(frm, kind, step))
        return self.received[-1]

    def abort(self, reason, culprit=None):
        self._inner.abort(reason, culprit)

    def close(self):
        self._inner.close()


class View:
    """Everything that one party knows after an alignment: its ids, its key, its shuffles, what it received."""

    def __init__(self, channel, cipher, ids):
        self.channel, self.cipher, self.ids = channel, cipher, ids

    def lists(self):
        """Return the encrypted lists that this party received, in order."""
        return [m.tensors["piece"] for m in self.channel.received if m.kind == "align.list"]

    def lists_under_own_key_too(self):
        return [self.cipher.encrypt_again(points, "peer") for points in self.lists()]


def run(monkeypatch, ids, policy="drop"):
    """Align `ids` and return each party's view."""
    ciphers = {}

    def keep_cipher():
        return ciphers.setdefault(threading.current_thread().name, Cipher())

    monkeypatch.setattr(alignment_module, "Cipher", keep_cipher)
    channels = {name: Recording(channel) for name, channel in local_channels(list(ids)).items()}

    def live(name):
        with channels[name]:
            align(channels[name], ids[name], active="clinic", order=list(ids), policy=policy)

    threads = [threading.Thread(target=live, args=(name,), name=name) for name in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return {name: View(channels[name], ciphers[name], ids[name]) for name in ids}


@pytest.fixture
def views(monkeypatch):
    """Three parties: ten common records, pairwise records of clinic and lab, and records nobody else has."""
    return run(
        monkeypatch,
        {
            "clinic": [*ALL, *PAIRS],
            "lab": [*ALL, *PAIRS, *ALONE],
            "registry": [*ALL, *range(5000, 5150)],
        },
    )


def test_no_message_spells_an_id(views):
    for view in views.values():
        for message in view.channel.received:
            assert not any(b"integer:" in np.asarray(tensor).tobytes() for tensor in message.tensors.values())
            assert set(message.meta) <= {"policy", "active", "order", "kind", "records", "digest"}


def test_a_party_cannot_find_candidate_ids_in_what_it_received(views):
    """The dictionary attack: encrypt every conceivable id with the own key and look it up."""
    candidates = spelt(itertools.chain(ALL, PAIRS, ALONE, range(5000, 5150)))
    for view in views.values():
        own = set(as_bytes(view.cipher.encrypt(candidates)))
        for points in view.lists() + view.lists_under_own_key_too():
            assert not own & set(as_bytes(points))


def test_the_dictionary_attack_succeeds_with_the_senders_key(views):
    """The control: only the key stands between a hop and the ids it carries."""
    stolen = set(as_bytes(views["clinic"].cipher.encrypt(spelt(PAIRS))))
    assert stolen <= set(as_bytes(views["lab"].lists()[0]))


@pytest.mark.parametrize("party", ["lab", "registry"])
def test_only_the_combiner_can_compare_lists(views, party):
    """A hop that sees two lists under the same keys would learn how many records two parties share."""
    view = views[party]
    own = view.cipher.encrypt(spelt(view.ids))
    lists = [own, *view.lists(), *view.lists_under_own_key_too()]
    for first, second in itertools.combinations(lists, 2):
        assert not set(as_bytes(first)) & set(as_bytes(second))


def full_lists(views):
    """Return the combiner's lists under all keys, by owner."""
    first, second, of_registry, of_clinic = views["clinic"].lists()
    assert len(first) == len(views["registry"].ids)
    of_lab = views["clinic"].cipher.encrypt_again(second, "registry")
    return {"clinic": as_bytes(of_clinic), "lab": as_bytes(of_lab), "registry": as_bytes(of_registry)}


def test_the_combiner_learns_the_sizes_of_partial_intersections_as_documented(views):
    lists = {name: set(points) for name, points in full_lists(views).items()}
    assert len(lists["clinic"] & lists["lab"]) == len(ALL) + len(PAIRS)
    assert len(lists["clinic"] & lists["registry"]) == len(ALL)


def links_by_order(views, order_sent):
    """Let the combiner guess that its own list came back in the order it was sent; count its right guesses."""
    keys = [view.cipher for view in views.values()]
    truth = keys[0].encrypt(spelt(order_sent))
    for key in keys[1:]:
        truth = key.encrypt_again(truth, "test")
    return sum(a == b for a, b in zip(as_bytes(truth), full_lists(views)["clinic"], strict=True))


def spy_on_shuffles(monkeypatch, shuffle):
    """Replace how parties shuffle, and keep each party's shuffles."""
    drawn = defaultdict(list)

    def draw(length):
        drawn[threading.current_thread().name].append(shuffle(length))
        return drawn[threading.current_thread().name][-1]

    monkeypatch.setattr(circle_module, "random_permutation", draw)
    return drawn


@pytest.mark.parametrize(("shuffle", "linked"), [(circle_module.random_permutation, False), (np.arange, True)])
def test_the_combiner_cannot_link_its_ids_to_the_lists_by_order(monkeypatch, shuffle, linked):
    """Linked entries would show the combiner which of its ids the lab holds too, though the registry lacks them."""
    drawn = spy_on_shuffles(monkeypatch, shuffle)
    ids = {"clinic": [*ALL, *PAIRS], "lab": [*ALL, *PAIRS, *ALONE], "registry": [*ALL, *range(5000, 5150)]}
    views = run(monkeypatch, ids)
    order_sent = np.array(ids["clinic"])[drawn["clinic"][0]]
    right = links_by_order(views, order_sent)
    # A random order has one fixed entry on average; twelve or more come up once in a billion runs.
    assert right == len(order_sent) if linked else right < 12


def test_masks_show_no_hop_more_than_the_number_of_common_records(views):
    for view in views.values():
        masks = [m.tensors["piece"] for m in view.channel.received if m.kind == "align.common"]
        assert {int(mask.sum()) for mask in masks} == {len(ALL)}


def test_a_permutation_is_complete_and_new_each_time():
    first, second = circle_module.random_permutation(1000), circle_module.random_permutation(1000)
    assert sorted(first) == list(range(1000))
    assert (first == second).sum() < 20


def test_undo_restores_what_a_shuffle_did():
    mask = np.arange(50) % 3 == 0
    shuffle = circle_module.random_permutation(50)
    np.testing.assert_array_equal(circle_module.undo(shuffle, mask[shuffle]), mask)


def test_impute_shows_passive_parties_only_what_they_share_with_the_active_one(monkeypatch):
    """Lab and registry share 100 records that the clinic lacks: neither may hear of it from the other."""
    shared = list(range(1000, 1100))
    views = run(
        monkeypatch,
        {"clinic": list(range(40)), "lab": [*range(20), *shared], "registry": [*range(10, 30), *shared]},
        policy="impute",
    )
    for name, other in (("lab", "registry"), ("registry", "lab")):
        heard = {(message.sender, message.kind) for message in views[name].channel.received}
        assert {kind for sender, kind in heard if sender == other} == {"align.hello"}


def test_impute_positions_do_not_follow_the_ids(monkeypatch):
    """In ascending order, position 5 for id 50 would tell the lab that five smaller ids exist at the clinic."""
    views = run(monkeypatch, {"clinic": list(range(400)), "lab": list(range(0, 400, 2))}, policy="impute")
    received = [m for m in views["lab"].channel.received if m.kind == "align.positions"]
    (positions,) = [m.tensors["piece"] for m in received if m.tensors]
    assert len(positions) == 200
    assert abs(np.corrcoef(positions, np.arange(200))[0, 1]) < 0.5  # seven standard deviations
