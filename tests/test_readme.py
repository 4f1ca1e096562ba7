"""The README's example runs as it stands."""

import pathlib
import re

README = pathlib.Path(__file__).parents[1] / "README.md"


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(compile(blocks[0], "README.md", "exec"), names)
    assert capsys.readouterr().out.strip().startswith("agrees")
    assert (tmp_path / "learning.png").stat().st_size > 10_000
    exec(compile(blocks[1], "README.md", "exec"), names)
    assert names["record"]["test_accuracy"].values[0, -1] > 0.85 and len(blocks) == 2


def test_every_file_it_names_is_there():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target


def test_the_page_on_instruments_runs(capsys):
    page = (README.parent / "docs" / "instruments.md").read_text()
    first, loop = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict = {}
    exec(compile(first, "instruments.md", "exec"), names)
    exec(compile(loop, "instruments.md", "exec"), names)
    assert names["record"]["step"].values.tolist() == [0, 100, 200, 300]
    rate, sharpness = float(names["rate"]), names["top"].values[0]
    assert abs(rate * sharpness - 2) < 1e-4 and names["kernel"].shape == (20, 3, 20, 3)
    assert "relu" in capsys.readouterr().out
