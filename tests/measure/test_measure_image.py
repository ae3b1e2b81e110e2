"""Structural similarity and the ratio of signal to noise are the published ones."""

import numpy as np
import pytest

from colonnade.errors import DataError
from colonnade.measure.image import psnr, ssim
from colonnade.measure.structure import similarity_map


@pytest.fixture
def pictures():
    random = np.random.default_rng(0)
    images = random.random((3, 2, 16, 14))
    return np.clip(images + random.normal(0, 0.2, images.shape), 0, 1), images


def slow_similarity(left, right):
    """Structural similarity of one channel, window by window, on mirrored borders."""
    offsets = np.arange(-5, 6)
    window = np.exp(-(offsets[:, None] ** 2 + offsets[None, :] ** 2) / (2 * 1.5**2))
    window /= window.sum()
    padded = [np.pad(picture, 5, mode="reflect") for picture in (left, right)]
    values = []
    for y in range(left.shape[0]):
        for x in range(left.shape[1]):
            a, b = (picture[y : y + 11, x : x + 11] for picture in padded)
            mean_a, mean_b = (window * a).sum(), (window * b).sum()
            variance_a, variance_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
            covariance = (window * (a - mean_a) * (b - mean_b)).sum()
            brightness = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
            values.append(brightness * (2 * covariance + 9e-4) / (variance_a + variance_b + 9e-4))
    return np.mean(values)


def test_ssim_equals_a_search_window_by_window(pictures):
    """Tables would not compare with anybody's."""
    guesses, images = pictures
    slow = [
        np.mean([slow_similarity(*channels) for channels in zip(guess, image, strict=True)])
        for guess, image in zip(guesses, images, strict=True)
    ]
    assert ssim(guesses, images) == pytest.approx(slow, abs=1e-12)


def test_ssim_is_scikit_images_away_from_the_border(pictures):
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    left, right = pictures[0][0, 0], pictures[1][0, 0]
    _, theirs = metrics.structural_similarity(
        left, right, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1, full=True
    )
    inside = (slice(5, -5), slice(5, -5))
    assert similarity_map(left, right)[inside] == pytest.approx(theirs[inside], abs=1e-12)


def test_psnr_is_scikit_images(pictures):
    """Tables would not compare with anybody's. The range is that of pictures, not that of the batch."""
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    guesses, images = pictures
    theirs = [
        metrics.peak_signal_noise_ratio(image, guess, data_range=1)
        for guess, image in zip(guesses, images, strict=True)
    ]
    assert psnr(guesses, images) == pytest.approx(theirs, abs=1e-12)


def test_a_perfect_guess_scores_one_and_unrelated_noise_almost_nothing(pictures):
    _, images = pictures
    assert ssim(images, images) == pytest.approx(1)
    assert ssim(images[::-1], images)[[0, 2]] == pytest.approx(0, abs=0.1)


def test_guesses_are_clamped_and_one_guess_serves_all(pictures):
    """A guess out of range would look worse, or better, than it looks on a screen."""
    _, images = pictures
    assert np.array_equal(ssim(np.full_like(images, 7.0), images), ssim(np.ones_like(images), images))
    grey = np.full(images.shape[1:], 0.5)
    assert np.array_equal(ssim(grey, images), ssim(np.broadcast_to(grey, images.shape), images))


def test_images_narrower_than_the_window_have_a_score():
    """A party that holds a narrow strip could not be audited."""
    images = np.random.default_rng(0).random((2, 1, 8, 4))
    assert ssim(images, images) == pytest.approx(1)
    assert np.isfinite(ssim(1 - images, images)).all()


def test_many_images_are_scored_like_few():
    images = np.random.default_rng(0).random((300, 1, 6, 6))
    guesses = np.random.default_rng(1).random((300, 1, 6, 6))
    assert np.array_equal(ssim(guesses, images)[250:], ssim(guesses[250:], images[250:]))


@pytest.mark.parametrize("shape", [(2, 3, 8, 7), (2, 8, 8), (0, 1, 8, 8)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(DataError, match="do not fit images"):
        ssim(np.zeros(shape), np.zeros((2, 3, 8, 8) if shape[0] else shape))
