"""Readers of IDX, MATLAB, HDF5 and JPEG files, on small files of the standard formats."""

import gzip
import struct

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy import io

from learndyn.problems.readers.celeba import celeba
from learndyn.problems.readers.idx import fashion_mnist, mnist, read_idx
from learndyn.problems.readers.sarcos import has_training_file, sarcos
from learndyn.problems.readers.svhn import svhn
from learndyn.problems.readers.usps import usps


def idx(array, code=0x08):
    header = struct.pack(">HBB", 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_part(folder, part, count, seed, packed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 5, 4), dtype=np.uint8)
    labels = rng.integers(0, 10, count, dtype=np.uint8)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        name, content = f"{part}-{kind}-ubyte", idx(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return images, labels


@pytest.mark.parametrize(
    ("read", "inside", "name"),
    [(mnist, "mnist", "MNIST"), (fashion_mnist, "fashion-mnist", "Fashion-MNIST")],
)
@pytest.mark.parametrize("packed", [False, True])
def test_training_images_then_test_images(tmp_path, monkeypatch, read, inside, name, packed):
    folder = tmp_path / inside
    folder.mkdir()
    last = write_part(folder, "t10k", 2, 2, packed)
    first = write_part(folder, "train", 3, 1, packed)
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = read()
    np.testing.assert_array_equal(found.pixels[:, 0], np.concatenate([first[0], last[0]]))
    np.testing.assert_array_equal(found.labels, np.concatenate([first[1], last[1]]))
    assert found.name == f"{name}, 5 images" and found.training == 3
    np.testing.assert_array_equal(read(folder).pixels, found.pixels)


@pytest.mark.parametrize(("code", "dtype"), [(0x0B, "i2"), (0x0C, "i4"), (0x0E, "f8")])
def test_idx_of_other_types(tmp_path, code, dtype):
    array = np.arange(-6, 6).reshape(2, 3, 2).astype(dtype)
    (tmp_path / "a").write_bytes(idx(array, code))
    found = read_idx(tmp_path / "a")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype and found.dtype.isnative


def test_broken_idx_files_are_one_line(tmp_path):
    whole = idx(np.zeros((3, 4), np.uint8))
    for content, said in [
        (whole[:-1], r"a: got 23 bytes; allowed are 24 for the shape \(3, 4\)"),
        (whole[:9], "a: got 9 bytes; allowed is a header of 12"),
        (b"\x89PNG", "a: begins with b'.*PNG'; allowed is an IDX file"),
        (b"\0\0\x08\xff" + 255 * b"\0\0\0\1" + b"x", "a: begins with b'.*xff'; allowed is an"),
    ]:
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(ValueError, match=said):
            read_idx(tmp_path / "a")
    for content in (gzip.compress(whole)[:-9], b"not packed at all"):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a.gz: got a broken gzip file"):
            read_idx(tmp_path / "a.gz")


@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_lies_reserves_no_memory(tmp_path, packed):
    header = bytes([0, 0, 8, 3]) + (2**32 - 1).to_bytes(4) * 3
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(header + b"12") if packed else header + b"12")
    with pytest.raises(ValueError, match="got 18 bytes; allowed are 792281624589241"):
        read_idx(path)
    with h5py.File(tmp_path / "usps.h5", "w") as file:
        for name in ("data", "target"):
            file.create_dataset(f"train/{name}", (10**12,), np.uint8, chunks=(1000,))
    with pytest.raises(ValueError, match=r"usps.h5: has shape \(1000000000000,\)"):
        usps(tmp_path)


def test_a_file_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    """Before it is unpacked: packed zeros take a thousandth of their length."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx(np.zeros(10**6, np.uint8))))
    zeros = {"X": np.zeros((32, 32, 3, 400), np.uint8), "y": np.ones((400, 1))}
    io.savemat(tmp_path / "train_32x32.mat", zeros, do_compression=True)
    assert read_idx(tmp_path / "a.gz").shape == (10**6,)
    monkeypatch.setattr("learndyn.runtime.memory.free_memory", lambda _: 10**5)
    for read, name in ((lambda: read_idx(tmp_path / "a.gz"), "a.gz"), (lambda: svhn(tmp_path), "")):
        with pytest.raises(ValueError, match=rf"\A[^\n]*{name}: takes 0.00[^\n]*; allowed here"):
            read()


def test_missing_or_unequal_idx_files_are_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("LEARNDYN_DATA", raising=False)
    with pytest.raises(ValueError, match="data folder: got ''"):
        mnist()
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz: not in .* from https://"):
        mnist(tmp_path)
    write_part(tmp_path, "train", 3, 1, True)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(2, np.uint8)))
    with pytest.raises(ValueError, match=r"train in .* got 3 images and 2 labels"):
        mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros((3, 1), np.uint8)))
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte: got 2 axes; allowed are 1"):
        mnist(tmp_path)


def test_sarcos_rows(tmp_path, monkeypatch):
    folder = tmp_path / "sarcos"
    folder.mkdir()
    rows = np.random.default_rng(0).standard_normal((5, 28))
    io.savemat(folder / "sarcos_inv_test.mat", {"sarcos_inv_test": rows}, do_compression=True)
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = sarcos("test")
    np.testing.assert_array_equal(found.x, rows[:, :21])
    np.testing.assert_array_equal(found.y, rows[:, 21:])
    assert found.name == "SARCOS test file, 5 rows" and not has_training_file()
    with pytest.raises(ValueError, match=r"sarcos_inv.mat: not in the folder .* from https://"):
        sarcos()
    io.savemat(folder / "sarcos_inv.mat", {"sarcos_inv": rows[:3]})
    assert has_training_file() and len(sarcos("train", folder).x) == 3
    with pytest.raises(ValueError, match="part: got 'all'"):
        sarcos("all")


def test_wrong_matlab_files_are_one_line(tmp_path):
    path = tmp_path / "sarcos_inv.mat"
    io.savemat(path, {"sarcos_inv": np.ones((200, 28))})
    for cut in (path.read_bytes()[:3000], b"garbage", b""):
        path.write_bytes(cut)
        with pytest.raises(ValueError, match=r"sarcos_inv.mat: is cut short or no MATLAB file"):
            sarcos("train", tmp_path)
    io.savemat(path, {"other": np.ones((2, 28))})
    with pytest.raises(ValueError, match=r"sarcos_inv.mat: has no 'sarcos_inv'; allowed"):
        sarcos("train", tmp_path)
    io.savemat(path, {"sarcos_inv": np.ones((2, 27))})
    with pytest.raises(ValueError, match=r"has 'sarcos_inv' of shape \(2, 27\); allowed"):
        sarcos("train", tmp_path)


def usps_parts():
    rng = np.random.default_rng(0)
    for part, count in (("train", 3), ("test", 2)):
        yield part, rng.integers(0, 2001, (count, 256)) / 2000, rng.integers(0, 10, count)


def test_usps_of_both_formats(tmp_path, monkeypatch):
    folder = tmp_path / "usps"
    folder.mkdir()
    for part, pixels, labels in usps_parts():
        rows = np.column_stack([labels, 2 * pixels - 1])
        text = "\n".join(" ".join(f"{number:.4f}" for number in row) for row in rows)
        (folder / f"zip.{part}.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    lines = usps()
    with h5py.File(folder / "usps.h5", "w") as file:
        for part, pixels, labels in usps_parts():
            file[f"{part}/data"], file[f"{part}/target"] = pixels, labels
    found = usps(folder)
    wanted = np.concatenate([pixels for _, pixels, _ in usps_parts()])
    assert found.pixels.shape == (5, 1, 16, 16) and found.training == lines.training == 3
    assert found.name == lines.name == "USPS, 5 images"
    np.testing.assert_array_equal(found.pixels.reshape(5, 256), wanted)
    np.testing.assert_allclose(lines.pixels, found.pixels, atol=1e-7)
    np.testing.assert_array_equal(lines.labels, found.labels)


def test_other_usps_files_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"\Ausps.h5 or zip.train.gz: not in .* from https://"):
        usps(tmp_path)
    for content in (b"not packed", gzip.compress(b"one two three")):
        (tmp_path / "zip.train.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"\Azip.train.gz: is no gzip file"):
            usps(tmp_path)
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(b"3 0.1 0.2"))
    with pytest.raises(ValueError, match=r"\Azip.train.gz: has pixels of shape \(1, 2\)"):
        usps(tmp_path)
    (tmp_path / "usps.h5").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"\Ausps.h5: is no HDF5 file with train/data"):
        usps(tmp_path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["data"] = np.zeros((2, 256))
    outside = [(str(tmp_path / "other.h5"), 0, 4096)]
    for link in (h5py.ExternalLink("other.h5", "data"), None):  # HDF5 would follow both
        with h5py.File(tmp_path / "usps.h5", "w") as file:
            file["train/target"] = np.zeros(2)
            if link is None:
                file.create_dataset("train/data", (2, 256), float, external=outside)
            else:
                file["train/data"] = link
        with pytest.raises(ValueError, match=r"\Ausps.h5: is no HDF5 file with train/data"):
            usps(tmp_path)


def write_celeba(folder, sides=(6, 4)):
    """Four faces of one colour each: quality 100 leaves a JPEG of one colour as it was."""
    (folder / "img_align_celeba").mkdir(parents=True)
    rows = ["4", "Bald Eyeglasses Smiling"]
    for i, sign in enumerate((1, -1, -1, 1), 1):
        rows.append(f"{i:06d}.jpg  {-sign:2d} {sign:2d} {sign:2d}")
        face = Image.new("RGB", sides[::-1], (40 * i,) * 3)
        face.save(folder / "img_align_celeba" / f"{i:06d}.jpg", quality=100)
    (folder / "list_attr_celeba.txt").write_text("\n".join(rows) + "\n")
    parts = (f"{i:06d}.jpg {part}" for i, part in enumerate((0, 0, 1, 2), 1))
    (folder / "list_eval_partition.txt").write_text("\n".join(parts))


def test_faces_with_an_attribute(tmp_path, monkeypatch):
    write_celeba(tmp_path / "celeba")
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = celeba()
    assert found.pixels.shape == (4, 3, 6, 4) and found.name == "CelebA by Eyeglasses, 4 images"
    np.testing.assert_array_equal(found.pixels[:, 0, 0, 0], [40, 80, 120, 160])
    np.testing.assert_array_equal(found.labels, [1, 0, 0, 1])
    assert found.training == 2
    few = celeba("Bald", images=2, side=2)
    assert few.pixels.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(few.labels, [0, 1])
    np.testing.assert_array_equal(few.pixels[1], 80)


def test_the_middle_square_of_a_face_is_averaged_over_boxes(tmp_path):
    write_celeba(tmp_path)
    ramp = np.repeat(np.arange(6)[:, None] * 40, 4, axis=1).astype(np.uint8)  # rows 1 to 4 stay
    Image.fromarray(ramp).save(tmp_path / "img_align_celeba" / "000001.jpg", "PNG")
    found = celeba(folder=tmp_path, images=1, side=2)
    np.testing.assert_array_equal(found.pixels[0, 0], [[60, 60], [140, 140]])


def test_other_celeba_files_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"\Alist_attr_celeba.txt: not in .* from https://"):
        celeba(folder=tmp_path)
    write_celeba(tmp_path)
    with pytest.raises(ValueError, match=r"\Aattribute: got 'Hat'; allowed is one of 'Bald'"):
        celeba("Hat", tmp_path)
    (tmp_path / "img_align_celeba" / "000002.jpg").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"\A000002.jpg: is no image"):
        celeba(folder=tmp_path)
    (tmp_path / "img_align_celeba" / "000002.jpg").unlink()
    with pytest.raises(ValueError, match=r"\Aimg_align_celeba/000002.jpg: not in "):
        celeba(folder=tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text("000001.jpg 1 1 -1\n")
    with pytest.raises(ValueError, match=r"\Alist_attr_celeba.txt: is no list"):
        celeba(folder=tmp_path)
