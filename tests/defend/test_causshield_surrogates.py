"""Surrogates of images: Eq. 8-10 against slow versions, and what each way of changing an image leaves alone."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from colonnade.data.image_preparation import ImagePreparation
from colonnade.data.records import Records
from colonnade.defend.causshield import colour
from colonnade.defend.causshield.surrogates import ImageSurrogates, fourier, grey, jitter
from colonnade.errors import ConfigError
from colonnade.nets.surrogate import build_surrogate


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def pictures():
    """Light orange rectangles on dark blue grounds: what is light has one colour, what is dark another."""
    generator = stream(1)
    images = torch.zeros(64, 3, 8, 8)
    for image in images:
        row, column = torch.randint(0, 4, (2,), generator=generator).tolist()
        dark, light = (0.7 + 0.3 * torch.rand(2, generator=generator)).tolist()
        image[:] = dark * torch.tensor([0.1, 0.2, 0.5])[:, None, None]
        image[:, row : row + 4, column : column + 4] = light * torch.tensor([1.0, 0.7, 0.2])[:, None, None]
    return images


@pytest.fixture(scope="module")
def trained(pictures):
    surrogates = colour.ColourSurrogates("mix", 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(colour, "BATCH", 8)  # many small steps on few pictures
        surrogates.fit(pictures, stream())
    return surrogates


# -- colours ------------------------------------------------------------------------------------------------------


def test_the_table_of_colours_holds_what_screens_show():
    """A bin that is missing would stand for the wrong colour. 309 is the known number of corners around sRGB."""
    bins = colour.colour_bins()
    assert bins.shape == (309, 2)
    assert (bins % 10 == 0).all() and len(bins.unique(dim=0)) == 309
    assert bins.min(0).values.tolist() == [-90, -110] and bins.max(0).values.tolist() == [100, 100]
    anything = torch.rand(1, 3, 100, 100, generator=stream())
    ab = colour.split_lab(anything)[1].movedim(1, -1).reshape(-1, 2)
    assert torch.cdist(ab, bins).min(1).values.max() <= math.sqrt(50) + 1e-3  # inside a cell whose corners are bins


def test_colours_survive_the_way_to_lab_and_back(pictures):
    torch.testing.assert_close(colour.join_lab(*colour.split_lab(pictures)), pictures, atol=1e-4, rtol=0)


def test_soft_bins_are_the_ten_nearest_weighted_by_distance():
    """The target of Eq. 8 would blur into far colours."""
    ab = torch.tensor([[3.0, -7.0], [60.0, 42.0]])
    bins, weights = colour.soft_bins(ab)
    table = colour.colour_bins().tolist()
    for pixel in range(2):
        distances = [math.dist(ab[pixel].tolist(), place) for place in table]
        nearest = sorted(range(len(table)), key=distances.__getitem__)[:10]
        assert {round(distances[number], 3) for number in bins[pixel].tolist()} == {
            round(distances[number], 3) for number in nearest
        }
        gaussian = [math.exp(-(distances[number] ** 2) / 50) for number in bins[pixel].tolist()]
        np.testing.assert_allclose(weights[pixel], np.array(gaussian) / sum(gaussian), atol=1e-5)


def test_colour_error_is_the_cross_entropy_of_eq_8():
    """Written out over pixels and bins."""
    logits = torch.randn(2, 309, 3, 2, generator=stream(2))
    ab = 40 * torch.randn(2, 2, 3, 2, generator=stream(3))
    weights = torch.rand(309, generator=stream(4)) + 0.5
    total = 0.0
    for n in range(2):
        for h in range(3):
            for w in range(2):
                bins, target = colour.soft_bins(ab[n, :, h, w][None])
                odds = logits[n, :, h, w].softmax(0)
                entropy = -sum(t * math.log(odds[q]) for q, t in zip(bins[0], target[0], strict=True))
                total += float(weights[bins[0, 0]] * entropy)
    assert colour.colour_error(logits, ab, weights).item() == pytest.approx(total / 12, rel=1e-4)


def test_rare_colours_count_more_and_the_mean_weight_is_one():
    shares = torch.tensor([0.7, 0.2, 0.1, 0.0])
    weights = colour.rebalancing(shares)
    slow = [1 / (0.5 * share + 0.5 / 4) for share in shares.tolist()]
    mean = sum(w * share for w, share in zip(slow, shares.tolist(), strict=True))
    np.testing.assert_allclose(weights, np.array(slow) / mean, rtol=1e-5)
    assert (weights * shares).sum().item() == pytest.approx(1)


def test_window_error_is_eq_9_in_its_sensible_reading():
    """Written out over images and windows; a strip that can't be divided by four has windows of two."""
    ab = 0.1 * torch.randn(2, 2, 8, 4, generator=stream(5))
    errors = []
    for image in ab:
        for row in range(0, 8, 4):
            window = image[:, row : row + 4].reshape(2, 16)
            variance = (window - window.mean(1, keepdim=True)).square().mean(1).mean().item()
            errors.append((variance - 0.005) ** 2)
    assert colour.window_error(ab, 4).item() == pytest.approx(np.mean(errors), rel=1e-4)
    assert colour.window_side(32, 16) == 4 and colour.window_side(28, 14) == 2
    assert torch.isfinite(colour.window_error(torch.rand(1, 2, 7, 5), 2))


def test_annealed_mean_sharpens_and_averages():
    logits = torch.randn(1, 309, 1, 1, generator=stream(6))
    odds = [math.exp(value / 0.38) for value in logits.flatten().tolist()]
    mean = sum(odd * place for odd, place in zip(odds, colour.colour_bins(), strict=True)) / sum(odds) / 110
    torch.testing.assert_close(colour.annealed_mean(logits).flatten(), mean, atol=1e-5, rtol=1e-4)


def test_the_colour_network_learns_and_the_lightness_network_too(pictures, trained):
    """Surrogates would come from two random networks."""
    untrained = colour.ColourSurrogates("mix", 1)
    lightness, ab = colour.split_lab(pictures)
    even = torch.ones(309)

    @torch.no_grad()
    def errors(networks):
        guessed = networks.lightness.eval()(ab / 110) * 100
        colours = colour.colour_error(networks.colours.eval()(lightness / 100 - 0.5), ab, even)
        return colours.item(), (guessed - lightness).square().mean().item()

    before, after = errors(untrained), errors(trained)
    assert after[0] < 0.9 * before[0] and after[1] < 0.8 * before[1]


def test_an_image_is_recoloured_as_a_whole_and_otherwise_each_time(pictures, trained):
    """Surrogates would be the image again, or noise that changes from pixel to pixel."""
    undecided = colour.ColourSurrogates("copy", 1)
    torch.nn.init.zeros_(undecided.colours.leave.weight)
    grey_images = torch.full((3, 3, 8, 8), 0.5)
    generator = stream()
    first, second = (undecided.draw(grey_images, generator) for _ in range(2))
    assert (first - first.mean((2, 3), keepdim=True)).abs().max() < 1e-4
    colours = torch.cat([first, second])[:, :, 0, 0]
    assert torch.pdist(colours).min() > 0.02
    drawn = trained.draw(pictures, stream())
    assert drawn.min() >= 0 and drawn.max() <= 1
    assert (colour.split_lab(drawn)[1] - colour.split_lab(pictures)[1]).abs().mean() > 5
    assert torch.equal(trained.draw(pictures, stream()), drawn)


def test_lightness_is_copied_guessed_or_mixed(pictures, trained):
    """`l_mode` would do nothing."""
    lightness, ab = colour.split_lab(pictures)
    with torch.no_grad():
        guessed = 100 * colour._output(trained.lightness, ab / 110)
        expected = {"copy": lightness, "a2": guessed, "mix": 0.5 * (lightness + guessed)}
        for mode, wanted in expected.items():
            trained.l_mode = mode
            torch.testing.assert_close(trained._lightness(lightness, ab), wanted)
    trained.l_mode = "mix"


@pytest.mark.parametrize("size", [(32, 16), (28, 14), (7, 5), (3, 3)])
def test_the_network_keeps_the_size_of_any_strip(size):
    """Strips of 28x14 would not come back."""
    assert build_surrogate(2, 4, seed=0)(torch.zeros(2, 2, *size)).shape == (2, 4, *size)


# -- the other ways ------------------------------------------------------------------------------------------------


def test_fourier_mixes_amplitudes_and_keeps_phases():
    """CIRL's intervention, with numpy and one image at a time."""
    pixels = 0.4 + 0.05 * torch.rand(5, 1, 6, 4, generator=stream(7))  # so that nothing is clipped
    changed = fourier(pixels, stream())
    generator = stream()
    others = torch.randperm(5, generator=generator)
    shares = torch.rand(5, 1, 1, 1, generator=generator).flatten()
    for own, other, share, found in zip(pixels, pixels[others], shares, changed, strict=True):
        spectrum, guest = np.fft.fft2(own[0]), np.fft.fft2(other[0])
        amplitude = float(share) * np.abs(guest) + (1 - float(share)) * np.abs(spectrum)
        expected = np.fft.ifft2(amplitude * np.exp(1j * np.angle(spectrum))).real
        np.testing.assert_allclose(found[0], expected, atol=1e-4)


def test_jitter_changes_light_and_colour_not_structure(pictures):
    """The surrogate would be another picture."""
    drawn = jitter(pictures, stream())
    assert drawn.min() >= 0 and drawn.max() <= 1
    structure = [
        torch.corrcoef(torch.stack([a.mean(0).flatten(), b.mean(0).flatten()]))[0, 1]
        for a, b in zip(pictures, drawn, strict=True)
    ]
    assert torch.stack(structure).median() > 0.95
    assert (drawn - pictures).abs().mean() > 0.03
    assert jitter(pictures[:, :1], stream()).shape == (64, 1, 8, 8)


def test_grey_surrogates_keep_shapes():
    """Digits would turn into other digits. Shape: where the strokes are, up to inversion."""
    strokes = torch.zeros(200, 1, 12, 12)
    strokes[:, :, 3:9, 5:8] = 0.9
    drawn = grey(strokes, stream())
    assert drawn.min() >= 0 and drawn.max() <= 1
    inside, outside = drawn[:, :, 4:8, 6].mean((1, 2)), drawn[:, :, :, [0, 1, 10, 11]].mean((1, 2, 3))
    brighter = (inside > outside).float().mean().item()
    assert 0.83 < brighter < 0.97  # every tenth is inverted
    assert ((inside - outside).abs() > 0.2).float().mean() > 0.95
    widths = (drawn[:, 0, 5] > 0.5).sum(1)[inside > outside]
    assert {1, 3, 5} <= set(widths.tolist())


# -- prepared images ------------------------------------------------------------------------------------------------


def prepared(pictures):
    records = Records(pd.Index(range(len(pictures))), images=(255 * pictures).to(torch.uint8).numpy())
    preparation = ImagePreparation().fit(records)
    return preparation, torch.from_numpy(preparation.transform(records))


def test_standardised_images_are_changed_as_pixels(pictures):
    """Colours would be taken from standardised numbers, which are none."""
    preparation, data = prepared(pictures)
    surrogates = ImageSurrogates("jitter", (3, 8, 8), preparation, "mix", 1)
    drawn = surrogates.draw(data, stream())
    mean, scale = (
        torch.tensor(v).reshape(3, 1, 1) for v in (preparation.statistics.mean, preparation.statistics.scale)
    )
    pixels = (255 * pictures).to(torch.uint8).float() / 255
    torch.testing.assert_close(drawn * scale + mean, jitter(pixels, stream()), atol=1e-5, rtol=0)


def test_three_channels_are_coloured_and_one_is_grey(pictures):
    """Grey images have no colour to change: the published recipe is undefined there."""
    assert ImageSurrogates("auto", (3, 8, 8), None, "mix", 1).steps == ["lab"]
    assert ImageSurrogates("auto", (1, 8, 8), None, "mix", 1).steps == ["grey"]
    both = ImageSurrogates("lab+fourier", (3, 8, 8), None, "copy", 1)
    both.fit(pictures, stream())
    assert both.steps == ["lab", "fourier"] and both.draw(pictures, stream()).shape == pictures.shape
    with pytest.raises(ConfigError, match="1 channels have no Lab colours"):
        ImageSurrogates("lab", (1, 8, 8), None, "mix", 1)


def test_what_was_learned_can_be_stored(pictures, trained):
    """A resumed run would draw other surrogates."""
    surrogates = ImageSurrogates("lab", (3, 8, 8), None, "mix", 1)
    assert surrogates.colour is not None
    surrogates.load_state_dict({name: tensor.clone() for name, tensor in trained.state_dict().items()})
    assert torch.equal(surrogates.colour.draw(pictures, stream()), trained.draw(pictures, stream()))
