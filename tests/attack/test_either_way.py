"""If these fail, a coin looks like protection from readers who know of it, though it is one from those who do not."""

import numpy as np
import pytest
import torch

from colonnade.attack.either_way import EitherWay, identified_up_to_sign, skill_up_to_sign
from colonnade.attack.evidence import Evidence
from colonnade.errors import ConfigError

KNOWN = 1200


@pytest.fixture(scope="module")
def records():
    """Twelve directions of falling size, as likely one way as the other: nothing else tells which way a record came."""
    rng = np.random.default_rng(0)
    sizes, directions = np.linspace(4, 1, 12), np.linalg.qr(rng.normal(size=(64, 12)))[0]
    made = rng.normal(size=(1600, 12)) * sizes @ directions.T
    return torch.from_numpy(made.astype(np.float32)).view(-1, 1, 8, 8)


def coined(records):
    """Uploads that tell a record or its negative about the mean, by a coin."""
    coins = torch.randint(2, (len(records), 1), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    flat = records.flatten(1) - records[:KNOWN].flatten(1).mean(0)
    return (coins * flat)[:, :32]


def read(records, uploads, **options):
    reader = EitherWay(4, 8, **{"epochs": 30, **options})
    reader.seed(0)
    held = {"auxiliary_uploads": uploads[:KNOWN], "auxiliary_records": records[:KNOWN], "uploads": uploads[KNOWN:]}
    reader.fit(Evidence(tuple(records.shape[1:]), held))
    return reader.guess(uploads[KNOWN:]), reader.of(records[KNOWN:])


def test_who_knows_of_the_coin_reads_what_nobody_else_does(records):
    uploads = coined(records)
    plain, knowing = (read(records, uploads, knows=knows) for knows in (False, True))
    assert skill_up_to_sign(*plain) < 0.15
    assert skill_up_to_sign(*knowing) > 0.7
    assert identified_up_to_sign(*knowing) > identified_up_to_sign(*plain) + 0.5


def test_what_tells_nothing_is_not_read(records):
    noise = torch.randn(len(records), 16, generator=torch.Generator().manual_seed(0))
    guessed, truths = read(records, noise)
    assert skill_up_to_sign(guessed, truths) < skill_up_to_sign(guessed.roll(1, 0), truths) + 0.02
    assert identified_up_to_sign(guessed, truths) < 0.02


def test_what_the_veil_takes_is_not_asked_for(records):
    """Light and shade are guessed from the mean: a reader of them would look good at what needs no upload."""
    _, truths = read(records, coined(records), epochs=1)
    centre = records[:KNOWN].flatten(1).mean(0)
    first = torch.linalg.svd(records[:KNOWN].flatten(1) - centre, full_matrices=False).Vh[:4]
    veiled = (records[KNOWN:].flatten(1) - centre) @ first.mT
    explained = veiled @ torch.linalg.lstsq(veiled, truths).solution
    assert explained.square().sum() < 0.1 * truths.square().sum()


def test_same_seed_same_guesses(records):
    uploads = coined(records)
    assert torch.equal(read(records, uploads, epochs=1)[0], read(records, uploads, epochs=1)[0])


def test_mistakes_are_told():
    with pytest.raises(ConfigError, match="learned nothing yet"):
        EitherWay().guess(torch.zeros(2, 3))
    records = torch.rand(100, 1, 8, 8)
    held = {"auxiliary_uploads": records.flatten(1), "auxiliary_records": records, "uploads": records.flatten(1)}
    with pytest.raises(ConfigError, match=r"either_way.components: .* have no 80 components"):
        EitherWay(4, 80).fit(Evidence((1, 8, 8), held))
