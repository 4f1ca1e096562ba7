"""What the site is written from: public names and kept results."""

import importlib
import importlib.util
import inspect
import json
import pathlib
import re
import sys

import pytest

import learndyn as ld
from learndyn.theory.registry import THEORIES

DOCS = pathlib.Path(__file__).parents[1] / "docs"


@pytest.fixture
def part(monkeypatch):
    """A module of the site's own code, by name."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return lambda name: importlib.import_module(f"_site.{name}")


def test_every_public_name_has_one_place_and_a_first_sentence(part):
    names, reference = part("names"), part("reference")
    public = names.public()
    assert len({id(each) for each in public.values()}) == len(public)
    for address, each in public.items():
        assert names.group_of(address, each) in names.GROUPS, address
        assert reference.summary(each) or not callable(each), address
    homes = {id(each) for each in public.values()}
    rooms = ("analysis", "probes", "rules", "testing", "theory", "__version__")
    assert all(id(getattr(ld, name)) in homes for name in ld.__all__ if name not in rooms)


def described(text: str) -> set[str]:
    """The names that a docstring describes under Args or Attributes."""
    parts = re.findall(r"^(?:Args|Attributes):\n((?:    .*\n|\n)*)", text + "\n", re.M)
    heads = [h for part in parts for h in re.findall(r"^    (\*{0,2}\w[\w, *]*):", part, re.M)]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def test_every_parameter_of_a_public_name_is_described(part):
    for address, each in part("names").public().items():
        if not callable(each) or (isinstance(each, type) and issubclass(each, BaseException)):
            continue
        taken = getattr(each, "_fields", None) or inspect.signature(each).parameters
        plain = {name for name in taken if name not in ("args", "kwargs")}
        missing = plain - described(inspect.getdoc(each) or "")
        assert not missing, f"{address}: {missing}"


def test_every_argument_of_a_method_of_a_result_is_described(part):
    """Results are named tuples; methods of parts, such as networks, stand at their base class."""
    methods = [
        (address, name, method)
        for address, each in part("names").public().items()
        if hasattr(each, "_fields")
        for name, method in vars(each).items()
        if inspect.isfunction(method) and not name.startswith("_")
    ]
    assert len(methods) > 4
    for address, name, method in methods:
        text, taken = inspect.getdoc(method) or "", inspect.signature(method).parameters
        assert set(taken) - {"self"} <= described(text), f"{address}.{name}"
        assert "Returns:" in text, f"{address}.{name}"


def test_every_public_name_has_an_example(part):
    """`make test` runs them, as doctests of the modules."""
    for address, each in part("names").public().items():
        assert not callable(each) or ">>> " in (inspect.getdoc(each) or ""), address


def test_every_public_function_says_what_it_returns_and_raises(part):
    # They raise nothing of their own.
    free = {"clock_of", "find_theory", "theories"}
    free |= {"curves", "legend", "panels", "shared_legend", "style"}
    for address, each in part("names").public().items():
        if not inspect.isfunction(each):
            continue
        text = inspect.getdoc(each) or ""
        nothing = inspect.signature(each).return_annotation in (None, "None")
        assert nothing or "Returns:" in text, address
        assert "Raises:" in text or each.__name__ in free, address


def test_every_public_class_that_checks_its_arguments_says_what_it_raises(part):
    """Theories and starts are made by functions, which say so."""
    made = (ld.theory.AbstractTheory, ld.Start)
    for address, each in part("names").public().items():
        if not isinstance(each, type) or issubclass(each, (BaseException, *made)):
            continue
        checking = {"__init__", "__check_init__", "__post_init__"} & set(vars(each))
        # Named tuples, dataclasses and modules without one take what they are given.
        code = (inspect.unwrap(vars(each)[name]).__code__ for name in checking)
        own = any(each.co_filename.endswith(".py") for each in code)
        assert not own or "Raises:" in (inspect.getdoc(each) or ""), address


def test_docstrings_become_markup(part):
    plain = part("docstrings").plain
    assert plain("of `f(x)` and `g(x)`.") == "of ``f(x)`` and ``g(x)``."
    assert plain("`System`s") == ":py:obj:`System <learndyn.System>`\\ s"
    assert plain("see docs/formats.md.") == "see :doc:`/formats`."
    assert plain("w_ and **kwargs") == r"w\_ and \*\*kwargs"


def test_signs_of_formulas_stand_close(part):
    pytest.importorskip("latex2mathml")
    formula = part("mathml").formula
    sign, between = '<mo form="prefix">&#x02212;</mo>', "<mo>&#x02212;</mo>"
    assert sign in formula("(-a)") and sign in formula("b = -a") and sign in formula("(x, -a)")
    assert between in formula("b - a") and sign not in formula("(b) - a")
    assert "<mo>" not in formula(r"W^{*\top}/N") and 'rspace="0"' in formula("a/b")
    assert "<mtext>E</mtext>" in formula(r"\mathrm{E}[x]") and "<mtext>" not in formula("E[x]")


def test_errors_are_described_to_the_end_of_the_text(part):
    """Napoleon puts all lines of an error into one."""
    lines = [":raises ValueError: for `x` that is", ":raises ValueError: for one\n    and `f(x)`."]
    part("docstrings").process(None, "function", "f", None, None, lines)
    assert lines == [
        ":raises ValueError: for ``x`` that is",
        ":raises ValueError: for one",
        "    and ``f(x)``.",
    ]


def test_literal_blocks_stand_as_they_are(part):
    lines = ["with the mean `m`::", "", "    v = `m` / max |n|", "", "and |n|."]
    part("docstrings").process(None, "function", "f", None, None, lines)
    assert lines[2:] == ["    v = `m` / max |n|", "", r"and \|n\|."]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The pages of the gallery."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS), *sys.path])
        folder = tmp_path_factory.mktemp("gallery")
        written = importlib.import_module("_site.gallery")
        # All thumbnails take seconds; a test makes one of them.
        patch.setattr(written, "_thumbnail", lambda picture, target: None)
        written.write(DOCS / "results", folder)
    return folder


def test_a_thumbnail_is_small(part, tmp_path):
    from PIL import Image

    target = tmp_path / "small" / "fig1.webp"
    part("gallery")._thumbnail(DOCS / "results/bocchi2026escape/fig1/figure.png", target)
    with Image.open(target) as image:
        assert max(image.width / 560, image.height / 320) == 1


def test_every_study_is_shown(gallery):
    registry = importlib.import_module("learndyn.studies.registry")
    index = (gallery / "index.md").read_text("utf-8")
    for name in registry.names():
        paper, figure = name.split("/")
        assert f"\n## {figure}\n" in (gallery / f"{paper}.md").read_text("utf-8"), name
        assert f"](#study-{name})".replace("/", "-").replace("_", "-").lower() in index, name


def test_every_erratum_has_an_anchor_and_every_measured_one_is_listed(part, gallery):
    errata = part("errata")
    listed = [entry for entries in errata.read(DOCS).values() for entry in entries]
    for entry in listed:
        fields = {"at", "place", "printed", "corrected", "because"}
        assert set(entry) - {"claims"} == fields and all(entry[name] for name in fields), entry
    page = (gallery / "errata.md").read_text("utf-8")
    anchors = re.findall(r"^\((erratum-[a-z0-9-]+)\)=$", page, re.M)
    assert len(set(anchors)) == len(anchors) == len(listed)
    places = [place for entry in listed for place in entry.get("claims", ())]
    kept = importlib.import_module("learndyn.studies.summary").kept(DOCS / "results")
    assert sorted(places) == sorted(errata.measured(kept)), "each place of a claim in one entry"


def test_the_chart_names_what_there_is(part):
    public = part("names").public()
    chart = (DOCS / "figures" / "choosing.svg").read_text("utf-8")
    names = set(re.findall(r"\bld\.([\w.]*\w)", chart))
    assert len(names) > 15 and {f"learndyn.{name}" for name in names} <= set(public)


def test_the_tables_of_coverage_have_every_theory(part, tmp_path):
    coverage = part("coverage")
    coverage.write(tmp_path)
    page = (tmp_path / "coverage.md").read_text("utf-8")
    for kind in THEORIES:
        assert re.search(rf'^\| {re.escape(kind.name)} \| "full"', page, re.M), kind.name
    assert '| committee | "full", "flow", "finite", "inertial" |' in page  # with momentum
    # `simulate` refuses it: the natural gradient of a mixture has no closed form.
    rule, (mixture, committee) = (
        coverage.RULES["NaturalGradient"],
        coverage.systems()["committee, a mixture of Gaussians"],
    )
    assert coverage.cell(mixture, committee, rule) == "refused"
    pairs = [("erf", "erf"), ("relu", "relu"), ("tanh", "erf"), ("relu", "gelu"), ("sign", "erf")]
    exactness = ["exact", "exact", "10⁻⁶", "1 %", ""]
    assert [coverage.averages(*pair) for pair in pairs] == exactness


SECTIONS = [
    "The system", "Equations", "Conventions", "Orders", "Where it holds, and what breaks it",
    "Landmarks", "Cost", "References",
]  # fmt: skip


@pytest.mark.parametrize("path", sorted((DOCS / "theories").glob("*.md")), ids=lambda p: p.stem)
def test_the_page_of_a_theory_has_every_section(path):
    text = path.read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    assert f"theories/{path.stem}\n" in (DOCS / "index.md").read_text("utf-8")
    assert f"(theories/{path.stem}.md)" in (DOCS / "choosing.md").read_text("utf-8")


@pytest.mark.parametrize("kind", THEORIES, ids=lambda kind: kind.name)
def test_every_theory_has_a_page_with_its_landmarks(kind):
    pages = [path.read_text("utf-8") for path in (DOCS / "theories").glob("*.md")]
    (page,) = [text for text in pages if f'`"{kind.name}"`' in text.split("\n## ")[0]]
    missing = [name for name in kind.units if not re.search(rf"\b{name}\b", page)]
    assert not missing


def test_notebooks_have_the_code_of_pages_and_examples(part, tmp_path):
    pytest.importorskip("jupytext")
    notebooks = part("notebooks")
    notebooks.write(DOCS, tmp_path)
    code = lambda cells: [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    read = lambda path: json.loads(path.read_text("utf-8"))["cells"]
    for path in notebooks.pages(DOCS):
        name = path.relative_to(DOCS).with_suffix("").as_posix().replace("/", "_")
        blocks = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
        cells = ["".join(source) for source in code(read(tmp_path / "pages" / f"{name}.ipynb"))]
        included = "{include}" in path.read_text("utf-8")
        found = cells[: len(blocks)] if included else cells
        assert "\n".join(found).split() == "\n".join(blocks).split(), name
    for path in (DOCS.parent / "examples").glob("*.py"):
        cells = read(tmp_path / "examples" / f"{path.stem}.ipynb")
        names: dict = {"__name__": "notebook"}
        if "torch" in path.stem and not importlib.util.find_spec("torch"):
            continue
        for source in code(cells)[:-1]:
            exec(compile("".join(source), path.name, "exec"), names)
        assert callable(names["main"]) and "main()" in "".join(code(cells)[-1])
        assert cells[0]["source"][0].startswith("# ")


def test_broken_links_and_outside_files_are_found(part, tmp_path):
    (tmp_path / "b.html").write_text('<p id="here">')
    good = '<a href="b.html#here">b</a><a href="https://example.org">away</a>'
    (tmp_path / "a.html").write_text(good)
    part("links").page.cache_clear()
    assert list(part("links").broken(tmp_path)) == []
    bad = '<a href="b.html#there">b</a><a href="c.html">c</a><script src="https://x.org/x.js">'
    (tmp_path / "a.html").write_text(bad)
    part("links").page.cache_clear()
    assert len(list(part("links").broken(tmp_path))) == 3
