"""Data files that are damaged, or promise more than they hold: one line that names the file."""

import gzip
import struct
import zlib

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy import io

from learndyn.problems.readers.ag_news import ag_news
from learndyn.problems.readers.celeba import celeba
from learndyn.problems.readers.files import cifar10
from learndyn.problems.readers.sarcos import sarcos
from learndyn.problems.readers.svhn import svhn
from learndyn.problems.readers.usps import usps
from learndyn.records.curves import read_curves


def one_line(said):
    return pytest.raises(ValueError, match=rf"\A[^\n]*{said}[^\n]*\Z")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n1,a,b\n", "train.csv: has a row of 0 columns"),
        (b"\xff\xfe1,a,b\n", "train.csv: is no CSV file in UTF-8"),
        (b'1,"' + b"a" * 200_000 + b'",b\n', "train.csv: is no CSV file in UTF-8 .field larger"),
        (b"1,the,of\n", "train.csv: has no words"),
    ],
)
def test_damaged_news_are_one_line(tmp_path, content, said):
    pytest.importorskip("sklearn")
    (tmp_path / "train.csv").write_bytes(content)
    with one_line(said):
        ag_news(tmp_path)


@pytest.fixture
def faces(tmp_path):
    (tmp_path / "img_align_celeba").mkdir()
    for name in "ab":
        Image.new("RGB", (4, 6)).save(tmp_path / "img_align_celeba" / f"{name}.jpg")
    (tmp_path / "list_attr_celeba.txt").write_text("2\nBald Hat\na.jpg 1 1\nb.jpg 1 -1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("list_attr_celeba.txt", b"2\nBald Hat\na.jpg 1 1\nb.jpg\n", "celeba.txt: is no list"),
        ("list_attr_celeba.txt", b"1\nBald Hat\n\xff.jpg 1 1\n", "celeba.txt: is no text"),
        ("list_attr_celeba.txt", b"1\nBald Hat\n../b.jpg 1 1\n", r"celeba.txt: names '../b.jpg'"),
        ("list_eval_partition.txt", b"a.jpg 0 1\n", "partition.txt: is no list"),
    ],
)
def test_damaged_lists_of_faces_are_one_line(faces, file, content, said):
    assert celeba("Hat", faces).labels.tolist() == [1, 0]
    (faces / file).write_bytes(content)
    with one_line(said):
        celeba("Hat", faces)


def png(width, height):
    """The beginning of a picture, which is as large as it says."""
    parts = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT", b"IEND"
    pieces = (struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(pieces)


def test_pictures_that_are_no_faces_are_one_line(faces, monkeypatch):
    place = faces / "img_align_celeba" / "b.jpg"
    Image.new("RGB", (4, 7)).save(place)
    with one_line(r"b.jpg: has shape \(3, 7, 4\); allowed is \(3, 6, 4\)"):
        celeba("Hat", faces)
    # Pillow hands EPS to another program, and warns of pictures that are larger than 89 million.
    for content in (
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        png(4000, 4000),
        png(12000, 12000),
        png(10**5, 10**5),
    ):
        place.write_bytes(content)
        with one_line("b.jpg: is no image in JPEG or PNG, cut short, or too large"):
            celeba("Hat", faces)
    monkeypatch.setattr("learndyn.runtime.memory.free_memory", lambda _: 143)
    with one_line("img_align_celeba: takes 1.34e-07 GiB of memory; allowed here"):
        celeba("Hat", faces)


@pytest.mark.parametrize(
    "content", [b"7 " + b"nan " * 256, b"nan " + b"0 " * 256, b"7.5 " + b"0 " * 256]
)
def test_numbers_that_are_no_digits_are_one_line(tmp_path, content):
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(content))
    with one_line("zip.train.gz: has other numbers; allowed are finite pixels and digits"):
        usps(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"# 7\n"])
def test_texts_without_numbers_are_one_line(tmp_path, content):
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(content))
    with one_line("zip.train.gz: is no gzip file with rows of numbers"):
        usps(tmp_path)


KINDS = {
    "texts": {"shape": (3, 256), "dtype": h5py.string_dtype()},
    "lists": {"shape": (3, 256), "dtype": h5py.vlen_dtype("i4")},
    "pairs": {"shape": (3, 256), "dtype": [("a", "f4"), ("b", "i4")]},
    "complex numbers": {"shape": (3, 256), "dtype": "c8"},
    "one number": {"data": 1.0},
    "nothing": {"data": h5py.Empty("f4")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_hdf5_without_numbers_is_one_line(tmp_path, kind):
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        file["train/target"] = np.arange(3)
        file.create_dataset("train/data", **KINDS[kind])
    with one_line("usps.h5: is no HDF5 file with train/data and train/target"):
        usps(tmp_path)


def test_links_of_hdf5_that_go_in_circles_are_one_line(tmp_path):
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        file["train/data"] = h5py.SoftLink("/train/data")
    with one_line("usps.h5: is no HDF5 file with train/data and train/target"):
        usps(tmp_path)


def test_other_files_in_place_of_cifar_are_one_line(tmp_path):
    (tmp_path / "data_batch_1.bin").mkdir()
    with one_line("data_batch_1.bin: not in the folder"):
        cifar10(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073) + b"\n" + bytes(3072))
    with one_line("test_batch.bin: has the label 10; allowed are 0 to 9"):
        cifar10(tmp_path)


@pytest.mark.parametrize("wrong", [float("nan"), 0, 11, 2.5])
def test_labels_that_are_no_digits_are_one_line(tmp_path, wrong):
    content = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[wrong], [1]])}
    io.savemat(tmp_path / "train_32x32.mat", content)
    with one_line("train_32x32.mat: has other labels; allowed are 1 to 10"):
        svhn(tmp_path)


def matrix(order, kind, length, shape=(2, 28), name=b"sarcos_inv", numbers=bytes(448)):
    """An array of a MATLAB file, whose numbers are said to have a type and a number of bytes."""
    words = lambda *given: struct.pack(f"{order}{len(given)}I", *given)
    lengths = words(5, 4 * len(shape), *shape) + bytes(-4 * len(shape) % 8)
    about = words(6, 8, 6, 0) + lengths + words(1, len(name)) + name + bytes(-len(name) % 8)
    return words(14, len(about) + 8 + len(numbers)) + about + words(kind, length) + numbers


def matlab(order, content, packed):
    element = zlib.compress(content)
    element = struct.pack(f"{order}2I", 15, len(element)) + element if packed else content
    start = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(f"{order}H", 0x0100)
    return start + {"<": b"IM", ">": b"MI"}[order] + element


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("order", "<>")
def test_types_and_lengths_that_lie_in_matlab_files_are_one_line(tmp_path, order, packed):
    """Types that a file names would be indices into a table of scipy, and end the process."""
    path = tmp_path / "sarcos_inv.mat"
    numbers = np.arange(56.0).reshape(2, 28)
    whole = numbers.T.astype(f"{order}f8").tobytes()
    path.write_bytes(matlab(order, matrix(order, 9, 448, numbers=whole), packed))
    np.testing.assert_array_equal(np.hstack(sarcos("train", tmp_path)[:2]), numbers)
    shorts = numbers.T.astype(f"{order}i2").tobytes()
    path.write_bytes(matlab(order, matrix(order, 3, 112, numbers=shorts), packed))
    np.testing.assert_array_equal(np.hstack(sarcos("train", tmp_path)[:2]), numbers)
    wrong = [(kind, 448, (2, 28)) for kind in (0, 14, 20, 200, 60_000, 2**32 - 1)]
    wrong += [(9, length, (2, 28)) for length in (0, 440, 456, 2**32 - 8)]
    wrong += [
        (9, 448, shape) for shape in ((56,), (2**32 - 2, 28), (2, 28) * 600, (2, 28) + 33 * (1,))
    ]
    for kind, length, shape in wrong:
        path.write_bytes(matlab(order, matrix(order, kind, length, shape), packed))
        with one_line("sarcos_inv.mat: is cut short or no MATLAB file of version 5"):
            sarcos("train", tmp_path)
    path.write_bytes(matlab(order, matrix(order, 9, 448, (2**20, 2**11)), packed))
    with one_line(r"sarcos_inv.mat: has shape \(1048576, 2048\); allowed is what the file holds"):
        sarcos("train", tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_every_byte_of_a_matlab_file_may_be_wrong(tmp_path, packed):
    path, values = tmp_path / "sarcos_inv.mat", np.ones((1, 28))
    io.savemat(path, {"sarcos_inv": values}, do_compression=packed)
    content = path.read_bytes()
    outcomes = set()
    for place in range(124, min(len(content), 230)):
        for wrong in (20, 255):
            path.write_bytes(content[:place] + bytes([wrong]) + content[place + 1 :])
            try:
                outcomes.add(sarcos("train", tmp_path).x.shape)
            except ValueError as error:
                assert str(error).startswith("sarcos_inv.mat: ") and "\n" not in str(error)
                outcomes.add("one line")
    assert "one line" in outcomes


def test_files_beyond_the_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    assert cifar10(tmp_path).labels.tolist() == [0]
    monkeypatch.setattr("learndyn.runtime.memory.free_memory", lambda _: 10)
    with one_line("takes 2.86e-06 GiB of memory; allowed here are 9.31e-09 GiB"):
        cifar10(tmp_path)
    for name in ("events.out.tfevents.1", "a.csv", "a.nc"):
        (tmp_path / name).write_bytes(bytes(3073))
        with one_line(rf"{name}: takes 2.86e-06 GiB of memory; allowed here"):
            read_curves(tmp_path / name)


def test_packed_text_beyond_the_memory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(b"0 " * 10**6))
    with one_line(r"zip.train.gz: has pixels of shape \(1, 999999\)"):
        usps(tmp_path)
    monkeypatch.setattr("learndyn.runtime.memory.free_memory", lambda _: 10**6)
    with one_line("zip.train.gz: takes 0.00[^;]* of memory; allowed here"):
        usps(tmp_path)
