"""Readers, on small files of the standard formats."""

import numpy as np
import pytest

from learndyn.problems.empirical import principal
from learndyn.problems.readers.files import cifar10, digits, first_channel


def write_batch(folder, name, count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count, dtype=np.uint8)
    pixels = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    rows = np.concatenate([labels[:, None], pixels.reshape(count, -1)], axis=1)
    rows.tofile(folder / name)
    return pixels, labels


def test_cifar_batches_in_order(tmp_path, monkeypatch):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    last = write_batch(folder, "test_batch.bin", 2, 2)
    first = write_batch(folder, "data_batch_1.bin", 3, 1)
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = cifar10()
    np.testing.assert_array_equal(found.pixels, np.concatenate([first[0], last[0]]))
    np.testing.assert_array_equal(found.labels, np.concatenate([first[1], last[1]]))
    assert found.name == "CIFAR-10, 5 images" and found.training == 3
    np.testing.assert_array_equal(cifar10(folder).pixels, found.pixels)


def test_missing_or_cut_files_are_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("LEARNDYN_DATA", raising=False)
    with pytest.raises(ValueError, match="data folder: got ''"):
        cifar10()
    with pytest.raises(ValueError, match=r"data_batch_1.bin: not in the folder .* from https://"):
        cifar10(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match=r"data_batch_1.bin: got 3 bytes"):
        cifar10(tmp_path)


def test_digits_are_always_there():
    found = digits()
    assert found.pixels.shape == (1797, 1, 8, 8) and found.pixels.max() == 16


def test_principal_coordinates_have_the_spectrum_as_second_moments():
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((5, 5))
    x = rng.standard_normal((200, 5)) @ mixing + 3
    values, coordinates = principal(x)
    assert values.mean() == pytest.approx(1) and np.all(np.diff(values) <= 0)
    np.testing.assert_allclose(coordinates.T @ coordinates / 200, np.diag(values), atol=1e-12)


def test_first_channel_without_pixels_that_never_change(tmp_path, monkeypatch):
    found, all_pixels = first_channel("digits"), digits().pixels[:, 0].reshape(1797, 64)
    varies = all_pixels.std(axis=0) > 0
    np.testing.assert_array_equal(found.x, all_pixels[:, varies])
    assert found.name == f"scikit-learn digits, 1797 images, {varies.sum()} of 64 pixels that vary"
    pixels, _ = write_batch(tmp_path, "data_batch_1.bin", 6, 1)
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = first_channel("cifar10", 5)
    np.testing.assert_array_equal(found.x, pixels[:5, 0].reshape(5, 1024))
    assert found.name == "CIFAR-10, 5 images, 1024 pixels of the first channel"
    with pytest.raises(
        ValueError, match="data: got 'mnist'; allowed is one of 'cifar10', 'digits'"
    ):
        first_channel("mnist")
