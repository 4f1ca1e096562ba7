"""The Free Spoken Digit Dataset: log spectrograms of its recordings."""

import os
import pathlib
import re

import numpy as np
from scipy import signal
from scipy.io import wavfile

from learndyn.problems.readers.files import Features, folder_of, missing

RATE = 8000  # samples per second
WINDOW, FRAMES = 256, 32  # samples of a Hann window, and number of windows
FLOOR = 1e-10  # power that counts as silence, relative to a full-scale sine
_NAME = re.compile(r"(\d)_([^_]+)_(\d+)\.wav")
_SOURCE = "https://github.com/Jakobovski/free-spoken-digit-dataset"


def fsdd(folder: str | os.PathLike | None = None) -> Features:
    """Log spectrograms of all recordings `digit_speaker_index.wav`, in the order of these three.

    Recordings differ in length, so 32 windows of 256 samples are spread evenly over each, from its
    beginning to its end. Features are log₁₀ of the power at 129 frequencies.

    Args:
        folder: the folder that holds `fsdd`, or that folder itself, or its `recordings`; None
            uses the environment variable LEARNDYN_DATA.

    Returns:
        The examples, 32 · 129 features each, window by window; labels are digits.

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    root = folder_of("fsdd", folder)
    root = root / "recordings" if (root / "recordings").is_dir() else root
    recordings = [
        (match, path) for path in root.glob("*.wav") if (match := _NAME.fullmatch(path.name))
    ]
    if not recordings:
        raise missing("0_jackson_0.wav", root, _SOURCE)
    recordings.sort(key=lambda each: (each[0][1], each[0][2], int(each[0][3])))
    x = np.stack([log_spectrogram(_samples(path)).ravel() for _, path in recordings])
    labels = np.array([int(match[1]) for match, _ in recordings], np.uint8)
    name = f"FSDD, {len(x)} recordings, log spectrograms of {FRAMES} windows"
    return Features(x, labels, name)


def log_spectrogram(samples: np.ndarray) -> np.ndarray:
    """log₁₀ of the power of a recording, (windows, frequencies).

    Args:
        samples: between −1 and 1; recordings shorter than a window are padded with silence.

    Returns:
        The logarithms; 0 corresponds to a full-scale sine at the centre of a frequency bin.
    """
    samples = np.pad(samples, (0, max(WINDOW - len(samples), 0)))
    first = np.linspace(0, len(samples) - WINDOW, FRAMES).round().astype(int)
    hann = np.asarray(signal.get_window("hann", WINDOW))
    rows = samples[first[:, None] + np.arange(WINDOW)] * hann
    # A sine of amplitude 1 at a frequency of the transform then has the power 1.
    power = np.abs(np.fft.rfft(rows, axis=1) * 2 / hann.sum()) ** 2
    return np.log10(power + FLOOR)


def _samples(path: pathlib.Path) -> np.ndarray:
    try:
        rate, samples = wavfile.read(path)
    except Exception:  # scipy raises different exceptions for broken files
        raise ValueError(f"{path.name}: is cut short or no WAV file") from None
    if rate != RATE or samples.ndim != 1 or samples.dtype != np.int16 or not len(samples):
        came = f"{samples.dtype} of shape {samples.shape} at {rate} Hz"
        raise ValueError(f"{path.name}: has {came}; allowed is one channel of int16 at {RATE} Hz")
    return samples / 2.0**15
