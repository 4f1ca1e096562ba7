"""Readers of SVHN, FSDD and AG News, on small files of the standard formats."""

import numpy as np
import pytest
from scipy import io
from scipy.io import wavfile

from learndyn.problems.readers.ag_news import ag_news
from learndyn.problems.readers.fsdd import FLOOR, FRAMES, RATE, WINDOW, fsdd, log_spectrogram
from learndyn.problems.readers.svhn import svhn

RNG = np.random.default_rng(0)


def write_svhn(folder, part, labels):
    pixels = RNG.integers(0, 256, (32, 32, 3, len(labels)), dtype=np.uint8)
    y = np.asarray(labels, np.uint8)[:, None]
    io.savemat(folder / f"{part}_32x32.mat", {"X": pixels, "y": y}, do_compression=True)
    return pixels


def test_house_numbers_in_order_with_ten_as_zero(tmp_path, monkeypatch):
    folder = tmp_path / "svhn"
    folder.mkdir()
    first, last = write_svhn(folder, "train", [1, 10, 9]), write_svhn(folder, "test", [10, 2])
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = svhn()
    assert found.name == "SVHN, 5 images" and found.training == 3
    np.testing.assert_array_equal(found.labels, [1, 0, 9, 0, 2])
    np.testing.assert_array_equal(found.pixels[1, 2], first[:, :, 2, 1])  # blue of the second
    np.testing.assert_array_equal(found.pixels[3, 0], last[:, :, 0, 0])
    np.testing.assert_array_equal(svhn(folder).pixels, found.pixels)


def test_wrong_house_numbers_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"train_32x32.mat: not in the folder .* from http://"):
        svhn(tmp_path)
    io.savemat(tmp_path / "train_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8)})
    with pytest.raises(ValueError, match=r"X of shape \(32, 32, 3, 2\) and y of shape \(0,\)"):
        svhn(tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"train_32x32.mat: is cut short or no MATLAB file"):
        svhn(tmp_path)


def write_sound(folder, name, samples, rate=RATE):
    wavfile.write(folder / name, rate, np.round(32767 * samples).astype(np.int16))


def tone(frequency, length):
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(length) / RATE)


def test_recordings_by_digit_speaker_and_index(tmp_path, monkeypatch):
    folder = tmp_path / "fsdd" / "recordings"
    folder.mkdir(parents=True)
    for name, length in (("3_theo_0", 900), ("1_theo_10", 3000), ("1_theo_2", 400)):
        write_sound(folder, f"{name}.wav", tone(1000, length))
    write_sound(folder, "noise.wav", tone(1000, 400))
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = fsdd()
    assert found.x.shape == (3, FRAMES * 129) and found.training is None
    assert found.name == "FSDD, 3 recordings, log spectrograms of 32 windows"
    np.testing.assert_array_equal(found.labels, [1, 1, 3])
    second = wavfile.read(folder / "1_theo_10.wav")[1] / 2.0**15
    np.testing.assert_array_equal(found.x[1], log_spectrogram(second).ravel())
    np.testing.assert_array_equal(fsdd(folder).x, found.x)


def test_the_spectrogram_has_a_tone_where_it_sounds():
    sound = np.concatenate([np.zeros(4000), tone(32 * RATE / WINDOW, 4000)])
    found = log_spectrogram(sound)
    assert np.all(found[:15] == np.log10(FLOOR))  # the silent half
    assert np.all(np.argmax(found[17:], axis=1) == 32)
    np.testing.assert_allclose(found[-1, 32], 2 * np.log10(0.5), atol=1e-6)
    assert log_spectrogram(np.ones(10)).shape == (FRAMES, WINDOW // 2 + 1)


def test_wrong_recordings_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"0_jackson_0.wav: not in the folder .* from https://"):
        fsdd(tmp_path)
    write_sound(tmp_path, "0_theo_0.wav", tone(100, 500), rate=16000)
    with pytest.raises(ValueError, match=r"0_theo_0.wav: has int16 of shape \(500,\) at 16000 Hz"):
        fsdd(tmp_path)
    (tmp_path / "0_theo_0.wav").write_bytes(b"RIFFnothing")
    with pytest.raises(ValueError, match=r"0_theo_0.wav: is cut short or no WAV file"):
        fsdd(tmp_path)


ROWS = '3,Wall Street,"Stocks, they ""fell"""\n1,Talks,Peace talks talks\n'


@pytest.mark.parametrize("header", ["", "label,title,description\n"])
def test_frequencies_of_words(tmp_path, monkeypatch, header):
    folder = tmp_path / "ag_news_csv"
    folder.mkdir()
    (folder / "test.csv").write_text(header + ROWS, encoding="utf-8")
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    found = ag_news()
    assert found.name == "AG News, 2 rows, TF-IDF of 6 words" and found.training is None
    np.testing.assert_array_equal(found.labels, [2, 0])
    # fell, peace, stocks, street, talks, wall; every word is in one row, so all weigh the same
    np.testing.assert_allclose(found.x[0], np.array([1, 0, 1, 1, 0, 1]) / 2)
    np.testing.assert_allclose(found.x[1], np.array([0, 1, 0, 0, 3, 0]) / np.sqrt(10), rtol=1e-6)
    assert ag_news(folder, words=1).x.shape == (2, 1)  # talks
    (folder / "train.csv").write_text("4,New,Moon\n", encoding="utf-8")
    both = ag_news()
    assert both.training == 1 and both.labels.tolist() == [3, 2, 0]


def test_wrong_news_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"train.csv: not in the folder .* from https://"):
        ag_news(tmp_path)
    for content, said in [
        ("3,only a title\n", r"has a row of 2 columns, \['3'\] first; allowed are class, title"),
        ("1,a,b\n5,a,b\n", r"has a row of 3 columns, \['5'\] first"),
        ("label,title,description\n", "has no rows"),
    ]:
        (tmp_path / "test.csv").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"test.csv: {said}"):
            ag_news(tmp_path)
