"""If these fail, an audit says that nobody is recognised by an upload that names them, or that chance names them."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from colonnade.attack import Decoder, Evidence, run_attack
from colonnade.attack.matcher import Matcher, identified
from colonnade.errors import ConfigError
from colonnade.measure.reconstruct import identification_rate

KNOWN = 1200


def digits():
    found = load_digits().images
    order = np.random.default_rng(0).permutation(len(found))
    return torch.from_numpy(found[order].astype(np.float32)).flatten(1) / 16


def evidence(uploads, records):
    held = {"auxiliary_uploads": uploads[:KNOWN], "auxiliary_records": records[:KNOWN], "uploads": uploads[KNOWN:]}
    return Evidence(tuple(records.shape[1:]), held)


def match(uploads, records, seed=0, **options):
    matcher = Matcher(**options)
    matcher.seed(seed)
    matcher.fit(evidence(uploads, records))
    return matcher.scores(uploads[KNOWN:], records[KNOWN:])


def few_numbers(records):
    """Six numbers of small directions: what tells records apart, and next to nothing of how they look."""
    centred = records - records.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[25:31]
    told = centred @ directions.mT
    return (told / told.std(0)).tanh()


def test_a_narrow_upload_names_more_than_a_reconstruction_does():
    """A defense that narrows uploads would be said to hide whom they are about."""
    records = digits()
    uploads = few_numbers(records)
    guesses = run_attack(Decoder("weak", epochs=30), evidence(uploads, records))
    by_guess = identification_rate(guesses, records[KNOWN:])
    by_code = identified(match(uploads, records))
    assert by_code > by_guess + 0.05
    assert by_code > 0.15


def test_uploads_about_nobody_name_nobody():
    """An identification above chance would be luck, or a leak from the attacker's own labels."""
    records = digits()
    uploads = torch.randn(len(records), 8, generator=torch.Generator().manual_seed(0))
    assert identified(match(uploads, records)) < 5 / len(records[KNOWN:])


def test_two_parties_scores_may_be_added():
    records = digits()
    noise = torch.randn(2, len(records), 32, generator=torch.Generator().manual_seed(0))
    halves = [part + 0.5 * own for part, own in zip((records[:, :32], records[:, 32:]), noise, strict=True)]
    alone = [match(*pair) for pair in zip(halves, (records[:, :32], records[:, 32:]), strict=True)]
    assert identified(sum(alone)) > max(map(identified, alone)) + 0.1


def test_maps_and_pictures_are_matched_too():
    pictures = digits().reshape(-1, 1, 8, 8)
    pictures = pictures.repeat_interleave(2, 2).repeat_interleave(2, 3)[:400]
    kernel = torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    uploads = torch.nn.functional.conv2d(pictures, kernel, stride=1, padding=1)
    matcher = Matcher(epochs=3, batch_size=64)
    held = {"auxiliary_uploads": uploads[:300], "auxiliary_records": pictures[:300], "uploads": uploads[300:]}
    matcher.fit(Evidence((1, 16, 16), held))
    assert identified(matcher.scores(uploads[300:], pictures[300:])) > 0.5


def test_same_seed_same_scores():
    records = digits()
    first, again, other = (match(few_numbers(records), records, seed, epochs=1) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_ties_share_the_credit():
    assert identified(torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [5.0, 0.0, 0.0]])) == pytest.approx(0.5)


def test_a_matcher_that_has_learned_nothing_says_so():
    with pytest.raises(ConfigError, match="learned nothing"):
        Matcher().scores(torch.zeros(2, 3), torch.zeros(2, 4))


def test_what_is_neither_yes_nor_no_is_refused():
    with pytest.raises(ConfigError, match=r"matcher\.mixed: 'nope' is not allowed"):
        Matcher(mixed="nope")
