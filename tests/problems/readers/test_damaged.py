"""Data files that are damaged, or promise more than they hold: one line that names the file."""

import gzip
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy import io

from learndyn.problems.readers.ag_news import ag_news
from learndyn.problems.readers.celeba import celeba
from learndyn.problems.readers.files import cifar10
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


@pytest.mark.parametrize("wrong", [float("nan"), 0, 11, 2.5])
def test_labels_that_are_no_digits_are_one_line(tmp_path, wrong):
    content = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[wrong], [1]])}
    io.savemat(tmp_path / "train_32x32.mat", content)
    with one_line("train_32x32.mat: has other labels; allowed are 1 to 10"):
        svhn(tmp_path)


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
