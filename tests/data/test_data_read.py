"""Reading files: ids arrive as they were written, and a file that is no table says so."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from colonnade.data import read_records, read_table
from colonnade.errors import DataError


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_csv_plain_and_gzip_read_alike(tmp_path):
    text = "id,age,town\n1,30,Bern\n2,,Chur\n"
    plain = read_table(write(tmp_path / "a.csv", text))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert plain.equals(read_table(tmp_path / "a.csv.gz"))
    assert plain["age"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["1", "20", "-3"], [1, 20, -3]),
        (["007", "8"], ["007", "8"]),
        (["+7", "8"], ["+7", "8"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["NA", "null"], ["NA", "null"]),
        (["True", "False"], ["True", "False"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["x ", "y"], ["x", "y"]),
    ],
)
def test_csv_ids_stay_intact(tmp_path, written, read):
    """A lost zero or a rounded number is another patient."""
    path = write(tmp_path / "a.csv", "\n".join(["id,x", *(f"{value},1" for value in written)]))
    records = read_records(path, "id")
    assert records.ids.tolist() == read
    assert records.columns == ["x"]


def test_an_empty_id_is_a_missing_id(tmp_path):
    with pytest.raises(DataError, match=r"1 id is missing, at row 1 \(give"):
        read_records(write(tmp_path / "a.csv", "id,x\n1,1\n,2\n3,3\n"), "id")


def test_csv_with_a_byte_order_mark_keeps_its_first_column(tmp_path):
    assert read_records(write(tmp_path / "a.csv", "id,x\n1,2\n", "utf-8-sig"), "id").ids.tolist() == [1]


def test_records_from_csv_know_columns_and_label(tmp_path):
    path = write(tmp_path / "a.csv", "id,x,z,y\n1,5,a,0\n2,6,b,1\n")
    records = read_records(path, "id", columns=["x"], label="y")
    assert records.columns == ["x"]
    assert records.label.tolist() == [0, 1]
    with pytest.raises(DataError, match=r"a.csv: no such column: 'idd' \(did you mean 'id'\?\)"):
        read_records(path, "idd")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"id,x\n", "no records"),
        ("a.csv", b"id,x,x\n1,2,3\n", "occur twice: x"),
        ("a.csv", b"id;x\n1;2,5\n", r"separated by semicolons, not by commas \(save it with commas"),
        ("a.csv", b"id\tx\n1\t2\n", "separated by tabs"),
        ("a.csv", b"id,x\n1,2,3\n4,5,6\n", "no table"),
        ("a.csv", b"id,x\n1,2\n3,4,5\n", "no table"),
        ("a.csv", b"id,x\n1,\xff\xfe\n", "UTF-8"),
        ("a.csv.gz", b"id,x\n1,2\n", "no table"),
        ("a.csv.gz", gzip.compress(b"id,x\n1,2\n" * 50, mtime=0)[:-12], "no table"),  # no clock in the test's name
        ("a.csv.gz", gzip.compress(b"", mtime=0)[:10] + b"\x07", "no table: .*invalid block type"),
        ("a.parquet", b"PAR1 but not really", "no Parquet file"),
        ("a.xlsx", b"PK", r"unknown kind of table \(give .csv"),
    ],
)
def test_files_that_are_no_tables_say_so(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone.csv: there is no such file"):
        read_table(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="folder"):
        read_table(tmp_path)


def test_parquet_keeps_types_and_a_named_index(tmp_path):
    frame = pd.DataFrame({"x": [1.5, None], "c": ["a", "b"]}, index=pd.Index(["007", "8"], name="id"))
    frame.to_parquet(tmp_path / "a.parquet")
    records = read_records(tmp_path / "a.parquet", "id")
    assert records.ids.tolist() == ["007", "8"]
    assert records.columns == ["x", "c"]
    assert records.table["x"].dtype == np.float64


def test_a_parquet_index_may_be_a_column_too_or_have_several_levels(tmp_path):
    """pandas writes such files; the ids are there, and looked for in vain."""
    frame = pd.DataFrame({"id": ["007", "8"], "day": [1, 2], "x": [1.5, 2.5]})
    path = tmp_path / "a.parquet"
    for indexed in (
        frame.set_index("id", drop=False),
        frame.set_index(["id", "day"]),
        frame.set_index(["id", "day"], drop=False),
        frame.set_index(pd.MultiIndex.from_arrays([frame["id"], [5, 6]], names=["id", None])),
    ):
        indexed.to_parquet(path)
        records = read_records(path, "id", columns=["day", "x"])
        assert records.ids.tolist() == ["007", "8"]
        assert records.table["x"].tolist() == [1.5, 2.5]


def test_a_folder_name_with_an_equals_sign_makes_no_column(tmp_path):
    (tmp_path / "year=2020").mkdir()
    pd.DataFrame({"id": [1], "x": [2]}).to_parquet(tmp_path / "year=2020" / "a.parquet")
    assert read_table(tmp_path / "year=2020" / "a.parquet").columns.tolist() == ["id", "x"]


@pytest.mark.parametrize(
    ("shape", "read"), [((3, 5, 4), (1, 5, 4)), ((3, 5, 4, 3), (3, 5, 4)), ((3, 3, 5, 4), (3, 5, 4))]
)
def test_image_archives_in_any_layout(tmp_path, shape, read):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=images, ids=np.array(["a", "b", "c"]), y=np.array([0, 1, 0]))
    records = read_records(tmp_path / "a.npz", "id", label="y")
    assert records.images.shape == (3, *read)
    assert records.ids.tolist() == ["a", "b", "c"]
    assert records.label.tolist() == [0, 1, 0]
    assert read_records(tmp_path / "a.npz", "ids").label is None


def test_channels_last_pixels_stay_in_place(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, ids=[1, 2])
    assert np.array_equal(read_records(tmp_path / "a.npz", "ids").images[1, 2], images[1, :, :, 2])


def test_an_archive_that_would_run_code_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((1, 2, 2), np.uint8), ids=np.array([{"x": 1}], dtype=object))
    with pytest.raises(DataError, match="no archive of plain arrays"):
        read_records(tmp_path / "a.npz", "ids")


def test_archives_without_the_arrays_say_which(tmp_path):
    np.savez(tmp_path / "a.npz", image=np.zeros((1, 2, 2), np.uint8), ids=[1])
    with pytest.raises(DataError, match=r"no array 'images' \(did you mean 'image'\?\)"):
        read_records(tmp_path / "a.npz", "ids")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(DataError, match="no archive"):
        read_records(tmp_path / "b.npz", "ids")
    with pytest.raises(DataError, match="no such file"):
        read_records(tmp_path / "c.npz", "ids")


def test_a_folder_of_images_is_read_by_id(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 6, 5), dtype=np.uint8)
    for number in range(12):
        Image.fromarray(pixels[number]).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").write_text("not an image")
    records = read_records(tmp_path, "id")
    assert sorted(records.ids) == list(range(12))
    assert records.images.shape == (12, 1, 6, 5)
    assert np.array_equal(records.images[records.ids.get_loc(11), 0], pixels[11])


def test_grey_and_colour_images_meet_in_colour(tmp_path):
    Image.new("L", (4, 3), 7).save(tmp_path / "a.png")
    Image.new("RGB", (4, 3), (1, 2, 3)).save(tmp_path / "b.png")
    records = read_records(tmp_path, "id")
    assert records.ids.tolist() == ["a", "b"]
    assert records.images[:, :, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]


def test_image_folders_with_problems_say_which_file(tmp_path):
    with pytest.raises(DataError, match="holds no images"):
        read_records(tmp_path, "id")
    Image.new("L", (4, 3)).save(tmp_path / "a.png")
    Image.new("L", (5, 3)).save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b.png is 5 x 3 pixels, a.png is 4 x 3"):
        read_records(tmp_path, "id")
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    with pytest.raises(DataError, match=r"b.png: this is no readable image"):
        read_records(tmp_path, "id")
    (tmp_path / "b.png").unlink()
    for arguments in ({"columns": ["x"]}, {"label": "y"}):
        with pytest.raises(DataError, match=r"no columns|no label"):
            read_records(tmp_path, "id", **arguments)


def test_deep_pictures_are_refused_and_not_cut_off_at_white(tmp_path):
    """Scans of 16 bits became white pages without a word, and a model was trained on them."""
    levels = np.random.default_rng(0).integers(0, 256, (4, 4))
    Image.fromarray(levels.astype(np.uint8)).save(tmp_path / "a.png")
    assert np.array_equal(read_records(tmp_path, "id").images[0, 0], levels)
    Image.fromarray((16 * levels).astype(np.uint16)).save(tmp_path / "b.png")
    expected = r"b.png: a picture of mode 'I.*' has more than 8 bits a pixel .scale all to 8 bits, or give an .npz"
    with pytest.raises(DataError, match=expected):
        read_records(tmp_path, "id")


@pytest.mark.parametrize("mode", ["I", "I;16", "I;16B", "F"])
def test_every_way_of_storing_deep_pictures_is_known(tmp_path, monkeypatch, mode):
    """Which mode a file opens in depends on its format and on Pillow's version: some would be cut off after all."""
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "open", lambda file: Image.new(mode, (4, 4)))
    with pytest.raises(DataError, match=f"a.png: a picture of mode '{mode}'"):
        read_records(tmp_path, "id")


def test_real_tables_are_read(shared_data):
    adult = read_table(shared_data / "tabular" / "adult.parquet")
    assert adult.shape == (48842, 17)
    assert adult["workclass"].isna().sum() == 2799
    sachs = read_table(shared_data / "causal" / "sachs_full_7466x11.csv.gz")
    assert len(sachs) == 7466
