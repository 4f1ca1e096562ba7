"""AG News: word frequencies of titles and descriptions, in four classes."""

import csv
import os
import pathlib
from typing import Any

import numpy as np

from learndyn.problems.readers.files import Features, folder_of, missing
from learndyn.runtime.checks import positive_int

CLASSES = "World", "Sports", "Business", "Sci/Tech"  # 1 to 4 in the files, 0 to 3 here
WORDS = 2000
_SOURCE = "https://github.com/mhjabreel/CharCnn_Keras (ag_news_csv)"


def ag_news(folder: str | os.PathLike | None = None, words: int = WORDS) -> Features:
    """TF-IDF features of the training file, if it exists, then of the test file.

    A row is "class,title,description", with or without a line of column names. The vocabulary
    consists of the most frequent words of all rows, without English stop words. A feature is a
    word's count times its inverse document frequency, 1 + log((1 + rows)/(1 + rows with it)); rows
    are scaled to length 1.

    Args:
        folder: the folder that holds `ag_news_csv`, or that folder itself; None uses the
            environment variable LEARNDYN_DATA.
        words: size of the vocabulary.

    Returns:
        The examples; labels start at 0.

    Raises:
        ValueError: if the folder or its files are missing or of another format, or
            scikit-learn is not installed.
    """
    root, words = folder_of("ag_news_csv", folder), positive_int("words", words)
    files = [path for part in ("train", "test") if (path := root / f"{part}.csv").is_file()]
    if not files:
        raise missing("train.csv", root, _SOURCE)
    parts = {path.stem: _rows(path) for path in files}
    rows = [row for part in parts.values() for row in part]
    labels = np.array([label for label, _ in rows], np.uint8)
    x = _tf_idf([text for _, text in rows], words)
    name = f"AG News, {len(rows)} rows, TF-IDF of {x.shape[1]} words"
    return Features(x, labels, name, len(parts["train"]) if len(parts) == 2 else None)


def _rows(path: pathlib.Path) -> list[tuple[int, str]]:
    """(class from 0, title and description) of every row."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: is no CSV file in UTF-8 ({error})") from None
    rows = rows[1:] if rows and rows[0] and not rows[0][0].isdigit() else rows  # names of columns
    allowed = [str(i + 1) for i in range(len(CLASSES))]
    for row in rows:
        if len(row) != 3 or row[0] not in allowed:
            came = f"{len(row)} columns, {row[:1]} first"
            expected = (
                f"allowed are class, title, description, with a class of {', '.join(allowed)}"
            )
            raise ValueError(f"{path.name}: has a row of {came}; {expected}")
    if not rows:
        raise ValueError(f"{path.name}: has no rows; allowed are class, title, description")
    return [(int(row[0]) - 1, f"{row[1]} {row[2]}") for row in rows]


def _tf_idf(texts: list[str], words: int) -> np.ndarray:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        raise ValueError("ag_news: needs scikit-learn; allowed is learndyn[data]") from None
    try:
        counts: Any = TfidfVectorizer(max_features=words, stop_words="english").fit_transform(texts)
    except ValueError:  # an empty vocabulary
        raise ValueError("train.csv: has no words; allowed are titles and descriptions") from None
    return counts.astype(np.float32).toarray()
