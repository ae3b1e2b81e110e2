"""Picture sets, read from tiny files in the published formats."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from datasets_published import python2_pickle, write_idx, write_picture, write_text
from PIL import Image

from colonnade.data.datasets import load_dataset
from colonnade.errors import ConfigError, DataError

RED, GREEN, BLUE = (250, 5, 5), (5, 250, 5), (5, 5, 250)


def _pixels(records, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (records, 28, 28), dtype=np.uint8)


def _write_mnist(folder, name="{}-{}-idx{}-ubyte", tests="t10k", labels=((3, 1, 4), (9,))):
    pixels = [_pixels(len(part), seed) for seed, part in enumerate(labels)]
    for split, images, numbers in zip(("train", tests), pixels, labels, strict=True):
        write_idx(folder / name.format(split, "images", 3), images)
        write_idx(folder / name.format(split, "labels", 1), np.array(numbers))
    return np.concatenate(pixels)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("data_set", ["mnist", "fashion_mnist"])
def test_mnist_reads_all_names_in_use(tmp_path, data_set, mark, ending):
    pixels = _write_mnist(tmp_path, "{}-{}" + mark + "idx{}-ubyte" + ending)
    loaded = load_dataset(data_set, tmp_path)
    np.testing.assert_array_equal(loaded.images[:, 0], pixels)
    assert loaded.label.tolist() == [3, 1, 4, 9]
    assert loaded.split.tolist() == ["train"] * 3 + ["test"]
    assert loaded.classes[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[data_set]


def test_mnist_with_a_missing_part_names_that_part(tmp_path):
    _write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="no 't10k-labels-idx1-ubyte'"):
        load_dataset("mnist", tmp_path)


def test_mnist_as_one_npz_without_channels_or_class_names(tmp_path):
    pixels = _pixels(4)
    np.savez(tmp_path / "mnist.npz", x_train=pixels[:3], y_train=[0, 1, 2], x_test=pixels[3:], y_test=[2])
    loaded = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(loaded.images[:, 0], pixels)
    assert loaded.classes == ("0", "1", "2")


@pytest.mark.parametrize("subfolder", ["", "gzip"])
def test_emnist_letters_stand_upright_and_count_from_zero(tmp_path, subfolder):
    folder = tmp_path / subfolder
    pixels = _write_mnist(folder, "emnist-letters-{}-{}-idx{}-ubyte.gz", "test", labels=((1, 26), (2,)))
    loaded = load_dataset("emnist", tmp_path, part="letters")
    np.testing.assert_array_equal(loaded.images[:, 0], pixels.transpose(0, 2, 1))
    assert [loaded.classes[label] for label in loaded.label] == ["A", "Z", "B"]


@pytest.mark.parametrize("part", ["digits", "mnist", "balanced", "bymerge", "byclass"])
def test_every_part_of_emnist_loads(tmp_path, part):
    _write_mnist(tmp_path, f"emnist-{part}-" + "{}-{}-idx{}-ubyte", "test", labels=((0, 9), (5,)))
    assert load_dataset("emnist", tmp_path, part=part).label.tolist() == [0, 9, 5]


def test_emnist_takes_class_names_from_the_mapping(tmp_path):
    _write_mnist(tmp_path, "emnist-balanced-{}-{}-idx{}-ubyte", "test", labels=((0, 1), (2,)))
    write_text(tmp_path / "emnist-balanced-mapping.txt", "0 48\n1 65\n2 97\n")
    assert load_dataset("emnist", tmp_path, part="balanced").classes == ("0", "A", "a")


def test_emnist_does_not_know_other_parts(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'letters'"):
        load_dataset("emnist", tmp_path, part="letter")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no idx file"),
        (b"\x00\x00\x0d\x03" + bytes(12), "no idx file"),
        (b"\x00\x00\x08\x03\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x02abc", "promises 8 bytes, the file holds 3"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, content, problem):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        load_dataset("mnist", tmp_path)
    assert caught.value.where.endswith("train-images-idx3-ubyte")


def test_a_damaged_gzip_file_is_named(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset("mnist", tmp_path)


def _cifar(records, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (records, 3072), dtype=np.uint8)


def _write_cifar10_python(folder, dump):
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for seed, name in enumerate(names):
        batch = {b"batch_label": b"a", b"labels": [seed, 9], b"data": _cifar(2, seed), b"filenames": [b"a", b"b"]}
        (folder / name).write_bytes(dump(batch))
    meta = {b"label_names": [f"class {number}".encode() for number in range(10)], b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(dump(meta))


@pytest.mark.parametrize("dump", [python2_pickle, lambda value: pickle.dumps(value, 2)], ids=["python2", "python3"])
@pytest.mark.parametrize("inner", [True, False])
def test_cifar10_python_batches(tmp_path, dump, inner):
    """The user may name the unpacked folder or the one above it."""
    _write_cifar10_python(tmp_path / "cifar-10-batches-py", dump)
    loaded = load_dataset("cifar10", tmp_path / "cifar-10-batches-py" if inner else tmp_path)
    assert loaded.images.shape == (12, 3, 32, 32)
    np.testing.assert_array_equal(loaded.images[2:4].reshape(2, -1), _cifar(2, 1))
    assert loaded.label.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9]
    assert loaded.split.tolist() == ["train"] * 10 + ["test"] * 2
    assert loaded.classes[3] == "class 3"


def test_cifar10_binary_batches(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for seed, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        (folder / f"{name}.bin").write_bytes(bytes([seed]) + _cifar(1, seed).tobytes())
    write_text(folder / "batches.meta.txt", "\n".join(f"class {number}" for number in range(10)) + "\n\n")
    loaded = load_dataset("cifar10", tmp_path)
    np.testing.assert_array_equal(loaded.images[5].ravel(), _cifar(1, 5)[0])
    assert loaded.label.tolist() == [0, 1, 2, 3, 4, 5]
    assert loaded.classes[9] == "class 9"


def test_cifar100_has_fine_labels_and_coarse_attributes(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name, fine in (("train", [99, 1]), ("test", [2])):
        batch = {b"coarse_labels": [19] * len(fine), b"fine_labels": fine, b"data": _cifar(len(fine))}
        (folder / name).write_bytes(python2_pickle(batch))
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": [b"x"] * 100, b"coarse_label_names": []}))
    loaded = load_dataset("cifar100", tmp_path)
    assert loaded.label.tolist() == [99, 1, 2]
    assert loaded.attributes["coarse"].tolist() == [19, 19, 19]


def test_cifar100_binary_has_two_label_bytes(tmp_path):
    for name, fine in (("train", 98), ("test", 3)):
        (tmp_path / f"{name}.bin").write_bytes(bytes([7, fine]) + _cifar(1, fine).tobytes())
    write_text(tmp_path / "fine_label_names.txt", "\n".join(f"class {number}" for number in range(100)))
    loaded = load_dataset("cifar100", tmp_path)
    assert loaded.label.tolist() == [98, 3]
    assert loaded.attributes["coarse"].tolist() == [7, 7]
    np.testing.assert_array_equal(loaded.images[1].ravel(), _cifar(1, 3)[0])


def test_a_cifar_binary_batch_cut_short_is_refused(tmp_path):
    _write_cifar10_python(tmp_path / "python", python2_pickle)
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073 + 5))
    write_text(tmp_path / "batches.meta.txt", "a\n")
    with pytest.raises(DataError, match="no whole number of records of 3073 bytes"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        ([1, 2], "no CIFAR batch"),
        ({b"labels": [1]}, "no entry 'data'"),
        ({b"labels": [1], b"data": np.zeros((2, 3072), np.uint8)}, r"\(2, 3072\) uint8 values for 1 labels"),
    ],
)
def test_a_cifar_batch_with_other_content_is_refused(tmp_path, batch, problem):
    _write_cifar10_python(tmp_path / "cifar-10-batches-py", python2_pickle)
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").write_bytes(python2_pickle(batch))
    with pytest.raises(DataError, match=problem) as caught:
        load_dataset("cifar10", tmp_path)
    assert caught.value.where.endswith("data_batch_2")


def test_labels_beyond_the_class_names_are_refused(tmp_path):
    np.savez(tmp_path / "cifar10.npz", x_test=np.zeros((1, 32, 32, 3), np.uint8), y_test=[3], classes=["a", "b"])
    with pytest.raises(DataError, match="labels 3 to 3 do not fit 2 classes"):
        load_dataset("cifar10", tmp_path)


def test_an_npz_with_a_pickle_inside_is_refused(tmp_path):
    np.savez(tmp_path / "cifar10.npz", x_test=np.array([object()]), y_test=[3])
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize("home", ["", "ILSVRC/Data/CLS-LOC"])
def test_imagenet_folders(tmp_path, home):
    folder = tmp_path / home
    write_picture(folder / "train/n02/n02_1.JPEG", GREEN, (80, 60))
    write_picture(folder / "train/n01/n01_1.JPEG", RED, (60, 90))
    write_picture(folder / "train/n01/n01_2.JPEG", BLUE)
    write_text(folder / "train/n01/notes.txt", "no picture")
    write_picture(folder / "val/n02/ILSVRC2012_val_00000001.JPEG", GREEN)
    loaded = load_dataset("imagenet", tmp_path, size=16)
    assert loaded.images.shape == (4, 3, 16, 16)
    assert loaded.ids.tolist() == ["n01_1", "n01_2", "n02_1", "ILSVRC2012_val_00000001"]
    assert loaded.label.tolist() == [0, 0, 1, 1]
    assert loaded.split.tolist() == ["train"] * 3 + ["test"]
    np.testing.assert_allclose(loaded.images[0].mean(axis=(1, 2)), RED, atol=6)
    assert load_dataset("imagenet", tmp_path, limit=1).ids.tolist() == ["n01_1", "n02_1", "ILSVRC2012_val_00000001"]


def test_imagenet_with_unsorted_validation_pictures_says_so(tmp_path):
    write_picture(tmp_path / "train/n01/n01_1.JPEG", RED)
    write_picture(tmp_path / "val/ILSVRC2012_val_00000001.JPEG", RED)
    with pytest.raises(DataError, match="no pictures in class folders"):
        load_dataset("imagenet", tmp_path)


def test_a_picture_that_is_none_is_named(tmp_path):
    write_text(tmp_path / "train/n01/n01_1.JPEG", "this is text")
    write_picture(tmp_path / "val/n01/v.JPEG", RED)
    with pytest.raises(DataError, match="cannot be read") as caught:
        load_dataset("imagenet", tmp_path)
    assert caught.value.where.endswith("n01_1.JPEG")


def _write_tiny_imagenet(home):
    write_text(home / "wnids.txt", "n02\nn01\n")
    write_text(home / "words.txt", "n01\tgoldfish, Carassius auratus\nn02\tkoala\nn99\tother\n")
    for wnid, colour in (("n01", RED), ("n02", GREEN)):
        for number in range(2):
            write_picture(home / f"train/{wnid}/images/{wnid}_{number}.JPEG", colour)
        write_text(home / f"train/{wnid}/{wnid}_boxes.txt", "")
    write_picture(home / "val/images/val_0.JPEG", GREEN)
    write_picture(home / "val/images/val_1.JPEG", RED)
    write_text(home / "val/val_annotations.txt", "val_0.JPEG\tn02\t0\t0\t62\t62\nval_1.JPEG\tn01\t3\t3\t40\t40\n")


@pytest.mark.parametrize("inner", [True, False])
def test_tiny_imagenet_folders(tmp_path, inner):
    home = tmp_path / "tiny-imagenet-200"
    _write_tiny_imagenet(home)
    loaded = load_dataset("tiny_imagenet", home if inner else tmp_path)
    assert loaded.images.shape == (6, 3, 64, 64)
    assert loaded.classes == ("goldfish", "koala")
    assert loaded.label.tolist() == [0, 0, 1, 1, 1, 0]
    assert loaded.split.tolist() == ["train"] * 4 + ["test"] * 2
    np.testing.assert_allclose(loaded.images[4].mean(axis=(1, 2)), GREEN, atol=6)
    few = load_dataset("tiny_imagenet", tmp_path, classes=1, limit=1, size=8)
    assert few.ids.tolist() == ["n01_0", "val_1"]
    assert few.images.shape == (2, 3, 8, 8)


def test_grey_pictures_among_coloured_ones_get_three_channels(tmp_path):
    _write_tiny_imagenet(tmp_path)
    Image.new("L", (64, 64), 77).save(tmp_path / "val/images/val_0.JPEG", format="JPEG")
    assert set(load_dataset("tiny_imagenet", tmp_path).images[4].ravel()) == {77}


def test_pictures_of_several_sizes_ask_for_one(tmp_path):
    _write_tiny_imagenet(tmp_path)
    write_picture(tmp_path / "val/images/val_0.JPEG", GREEN, (32, 64))
    with pytest.raises(DataError, match=r"differ in size.*size=64"):
        load_dataset("tiny_imagenet", tmp_path)


def _write_celeba(folder, anno="", img="", evaluation=""):
    write_text(
        folder / anno / "list_attr_celeba.txt",
        "3\nMale Smiling Young \n000001.jpg -1  1  1\n000002.jpg  1 -1  1\n000003.jpg  1  1 -1\n",
    )
    for number, colour in ((1, RED), (2, GREEN), (3, BLUE)):
        write_picture(folder / img / f"img_align_celeba/00000{number}.jpg", colour, (178, 218))
    if evaluation is not None:
        lines = "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n"
        write_text(folder / evaluation / "list_eval_partition.txt", lines)


@pytest.mark.parametrize("folders", [("", "", ""), ("Anno", "Img", "Eval")])
def test_celeba_in_one_folder_or_as_published(tmp_path, folders):
    _write_celeba(tmp_path, *folders)
    loaded = load_dataset("celeba", tmp_path, size=32)
    assert loaded.images.shape == (3, 3, 32, 32)
    np.testing.assert_allclose(loaded.images[2].mean(axis=(1, 2)), BLUE, atol=6)
    assert loaded.label.tolist() == [1, 0, 1]
    assert loaded.attributes["Male"].tolist() == [0, 1, 1]
    assert loaded.secrets == ("Male", "Young")
    assert loaded.split.tolist() == ["train", "validation", "test"]
    assert loaded.ids.tolist() == ["000001.jpg", "000002.jpg", "000003.jpg"]


def test_celeba_with_another_target_and_no_partition(tmp_path):
    _write_celeba(tmp_path, evaluation=None)
    loaded = load_dataset("celeba", tmp_path, target="Male", secrets=["Young"], limit=2)
    assert loaded.label.tolist() == [0, 1]
    assert loaded.classes == ("not Male", "Male")
    assert loaded.split is None


def test_celeba_errors_name_attribute_and_picture(tmp_path):
    _write_celeba(tmp_path)
    with pytest.raises(ConfigError, match=r"no attribute 'Mal'.*did you mean 'Male'"):
        load_dataset("celeba", tmp_path, secrets=["Mal"])
    with pytest.raises(DataError, match="no column 'Laughing'"):
        load_dataset("celeba", tmp_path, target="Laughing")
    (tmp_path / "img_align_celeba/000002.jpg").unlink()
    with pytest.raises(DataError, match=r"1 listed files are missing, the first is '000002.jpg'"):
        load_dataset("celeba", tmp_path)


def _write_fairface(folder):
    header = "file,age,gender,race,service_test\n"
    rows = "train/1.jpg,50-59,Male,East Asian,True\ntrain/2.jpg,3-9,Female,White,False\n"
    write_text(folder / "fairface_label_train.csv", header + rows)
    write_text(folder / "fairface_label_val.csv", header + "val/1.jpg,more than 70,Female,Indian,True\n")
    for name, colour in (("train/1", RED), ("train/2", GREEN), ("val/1", BLUE)):
        write_picture(folder / f"{name}.jpg", colour, (224, 224))


def test_fairface_lists_and_folders(tmp_path):
    _write_fairface(tmp_path)
    loaded = load_dataset("fairface", tmp_path, size=24)
    assert loaded.images.shape == (3, 3, 24, 24)
    assert loaded.ids.tolist() == ["train/1.jpg", "train/2.jpg", "val/1.jpg"]
    assert loaded.label.tolist() == [1, 0, 0]
    assert loaded.split.tolist() == ["train", "train", "test"]
    assert loaded.attributes["race"].tolist() == ["East Asian", "White", "Indian"]
    ages = load_dataset("fairface", tmp_path, target="age", secrets=["gender"], limit=1)
    assert [ages.classes[label] for label in ages.label] == ["50-59", "more than 70"]
    assert ages.secrets == ("gender",)


def test_fairface_knows_three_attributes(tmp_path):
    with pytest.raises(ConfigError, match="no attribute 'sex'"):
        load_dataset("fairface", tmp_path, target="sex")


def test_fairface_with_an_unknown_age_is_refused(tmp_path):
    _write_fairface(tmp_path)
    path = tmp_path / "fairface_label_val.csv"
    path.write_text(path.read_text().replace("more than 70", "old"))
    with pytest.raises(DataError, match="'old' is no age"):
        load_dataset("fairface", tmp_path, target="age")


@pytest.mark.parametrize(
    ("file", "content"), [("val/val_annotations.txt", "val_0.JPEG n02\n"), ("words.txt", "n01 goldfish\n")]
)
def test_a_damaged_list_of_tiny_imagenet_is_named(tmp_path, file, content):
    _write_tiny_imagenet(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(DataError, match="cannot be read") as caught:
        load_dataset("tiny_imagenet", tmp_path)
    assert caught.value.where == str(tmp_path / file)


def test_a_listed_picture_that_is_missing_is_named(tmp_path):
    _write_tiny_imagenet(tmp_path)
    (tmp_path / "val/images/val_1.JPEG").unlink()
    with pytest.raises(DataError, match=r"the first is 'val_1\.JPEG'"):
        load_dataset("tiny_imagenet", tmp_path)
