"""The page of a report: whole, self-contained, and nothing in it that data could break out of."""

import base64
import hashlib
import html.parser
import io
import json
import re

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from learndyn.cli.report import report, write_report
from learndyn.plotting import panels
from learndyn.report import page, pictures
from learndyn.report import studies as reading
from learndyn.studies import keeping

HOSTILE = '<script>alert(1)</script>"\'&"><img src=x onerror=alert(1)>{{ 7 * 7 }}'


def claim(name="a claim", status="holds", kind="claim", **more):
    numbers = {"relation": "=", "expected": 1.0, "measured": 1.25, "tolerance": 0.5}
    texts = {"name": name, "status": status, "kind": kind, "statement": name, "source": "Fig. 1"}
    return {**texts, **numbers, "tolerance_from": "theory", **more}


def write(folder, study="own/first", *claims, **more):
    """A folder as `learndyn run` writes it, of a study that is not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"study": study, "preset": "quick", "params": {"N": 40}, "differs": {}, "seconds": 1.5}
    origin |= {"device": "2 CPU cores", "date": "2026-01-02", "commit": "0123456789ab"}
    text = json.dumps(origin | {"claims": list(claims or [claim()])} | more)
    (folder / "claims.json").write_text(text)
    return folder


class Reader(html.parser.HTMLParser):
    """The elements of a page, their attributes and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def test_what_a_run_says_is_on_the_page(tmp_path):
    rows = [claim("the norm falls", "fails"), claim("Eq. 3", kind="erratum", printed="1/2")]
    rows += [claim("wide", "open", why_open="no data", measured=None)]
    folder = write(tmp_path / "own" / "first", "own/first", *rows, differs={"N": [99, 40]})
    replicated = {"name": "the norm falls", "kind": "claim", "held": 3, "count": 4}
    replicated |= {"low": 0.2, "high": 0.99, "rate": 0.95, "verdict": "as promised"}
    content = {"preset": "quick", "runs": {key: {} for key in "1234"}, "table": [replicated]}
    (folder / "replication.json").write_text(json.dumps(content))
    (folder / "notes.md").write_text("Seen at key 3.")
    text = Reader(page(tmp_path)).text
    for said in (
        "the norm falls", "printed: 1/2", "no data", "not finite", "1.25", "= 1 ± 0.5", "3/4",
        "0.2 … 0.99", "preset: 99", "Seen at key 3.", "0123456789ab", "1.5 s", "1 of 3 hold",
        "1 errata: where a print is wrong", "learndyn run own/first --preset quick --set N=40",
    ):  # fmt: skip
        assert said in " ".join(text.split()), said
    assert [entry.verdict for entry in reading.entries(tmp_path)] == ["fails"]


def test_the_page_loads_nothing_and_its_policy_knows_its_own_parts_only(tmp_path):
    write(tmp_path / "a")
    text = page(tmp_path)
    found = Reader(text)
    (policy,) = (m["content"] for m in found.all("meta") if "http-equiv" in m)
    allowed = dict(part.split(maxsplit=1) for part in policy.split("; "))
    assert allowed["default-src"] == "'none'" and allowed["img-src"] == "data:"
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert allowed[f"{tag}-src"] == f"'sha256-{digest}'"
    for tag, attrs in found.elements:
        assert attrs.get("src", "data:").startswith("data:"), tag
        assert attrs.get("href", "#").startswith("#") and "style" not in attrs
        assert tag != "link" and not any(name.startswith("on") for name in attrs)


def test_nothing_in_a_file_becomes_part_of_the_page(tmp_path):
    """Every text of every file is hostile: the page has the same elements as with harmless ones."""

    def texts(word):
        row = claim(
            word, "fails", "erratum", source=word, tolerance_from=word, printed=word, listed=word
        )
        more = {"preset": word, "params": {word: word}, "differs": {word: [word, word]}}
        more |= {name: word for name in ("device", "date", "version", "commit", "jax")}
        folder = write(tmp_path / ("good" if word == "word" else "bad"), word, row, **more)
        replicated = {"name": word, "kind": word, "held": 1, "count": 1, "verdict": word}
        replicated |= {"low": 0.0, "high": 1.0, "rate": 0.9}
        content = {"preset": word, "runs": {}, "table": [replicated]}
        (folder / "replication.json").write_text(json.dumps(content))
        (folder / "notes.md").write_text(word)
        (folder / "figure.svg").write_text(f"<svg>{word}</svg>")
        return Reader(page(folder))

    good, bad = texts("word"), texts(HOSTILE)
    assert [tag for tag, _ in bad.elements] == [tag for tag, _ in good.elements]
    assert [set(attrs) for _, attrs in bad.elements] == [set(attrs) for _, attrs in good.elements]
    assert len(bad.all("script")) == 1 and bad.text.count(HOSTILE) > 15


def test_figures_are_drawings_if_small_and_lossless_pictures_otherwise(tmp_path):
    folder = write(tmp_path / "own")
    figure, (axis,) = panels(1)
    axis.plot([0, 1])
    figure.savefig(folder / "figure.svg")
    figure.savefig(folder / "figure.png")
    assert pictures.of_folder(folder).startswith("data:image/svg+xml;base64,")
    (folder / "figure.svg").write_bytes(b" " * pictures.SMALL)
    uri = pictures.of_folder(folder)
    assert uri.startswith("data:image/webp;base64,")
    picture = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    ours = np.asarray(Image.open(folder / "figure.png").convert("RGB"))
    np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), ours)
    (folder / "figure.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"figure.png: got no readable picture; allowed is a PNG"):
        page(tmp_path)


def test_a_kept_result_has_its_title_and_its_age(tmp_path):
    write(tmp_path / "x", "bocchi2026escape/fig2")
    (entry,) = reading.entries(tmp_path)
    assert entry.title and entry.age == "older than its study"


def test_files_that_are_not_ours_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"got no claims\.json and no store in it; allowed is a"):
        page(tmp_path)
    (write(tmp_path / "a") / "claims.json").write_text('{"study": "a/b"}')
    with pytest.raises(ValueError, match=r"a/claims.json: got unexpected content \('claims' is mi"):
        page(tmp_path)
    with pytest.raises(ValueError, match="folder: got 'nowhere'; allowed is a folder of results"):
        report("nowhere", str(tmp_path / "report.html"))


def test_a_report_replaces_an_older_one(tmp_path):
    write(tmp_path / "a")
    out = tmp_path / "report.html"
    out.write_text("older")
    assert str(out) in write_report(tmp_path, out)
    assert out.read_text().startswith("<!doctype html>")


def test_a_sweep_has_its_axes_figures_and_failures(tmp_path):
    from distributed import Client

    import learndyn as ld

    def point(rate, width):
        if rate > 1:
            raise ValueError(HOSTILE)
        coords = {"time": [0.0, 1.0, 2.0]}
        return xr.Dataset({"loss": ("time", np.full(3, rate)), "last": rate * width}, coords)

    inside = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(**inside, dashboard_address=":0") as client:
        axes = {"rate": [0.1, 0.5, 2.0], "width": [1, 2]}
        store = tmp_path / "runs" / "s.zarr"
        ld.sweep(point, axes, store=store, client=client, progress=False, retries=0)
    write(tmp_path / "own")
    for folder in (tmp_path, store):
        found = Reader(page(folder))
        text = " ".join(found.text.split())
        assert "0.1, 0.5, 2 (3)" in text and "2 failed" in text and "4 finished" in text
        assert HOSTILE in found.text and len(found.all("script")) == 1
        assert {"loss", "last"} <= {image["alt"] for image in found.all("img")}
    assert "own/first" not in text


def test_only_whole_runs_of_clean_commits_are_kept(tmp_path):
    run = write(tmp_path / "run", "own/first")
    (run / "figure.png").write_bytes(b"png")
    (run / "figure.svg").write_bytes(b"svg")
    (run / "data.nc").write_bytes(b" " * keeping.LARGEST)
    target = keeping.keep(run, tmp_path / "kept")
    assert target == tmp_path / "kept" / "own" / "first"
    assert sorted(p.name for p in target.iterdir()) == ["claims.json", "figure.png", "figure.svg"]
    (run / "data.nc").write_bytes(b"small")
    (run / "figure.svg").unlink()
    keeping.keep(run, tmp_path / "kept")  # what is left of an earlier result goes
    assert sorted(p.name for p in target.iterdir()) == ["claims.json", "data.nc", "figure.png"]
    for more, said in (
        (
            {"commit": "0123456789ab-dirty"},
            "has commit '0123456789ab-dirty'; allowed is a run",
        ),
        ({"study": "../../own"}, "unexpected content"),
        ({"seconds": None}, "unexpected content"),
    ):
        write(run, **more) if "study" in more else write(run, "own/first", **more)
        with pytest.raises(ValueError, match=re.escape(said)):
            keeping.keep(run, tmp_path / "kept")
    (run / "figure.png").unlink()
    with pytest.raises(ValueError, match=r"has no figure.png; allowed is a folder that `learndyn"):
        keeping.keep(run, tmp_path / "kept")
