"""Results as tables, in notebooks and terminals: what they say, and that no text becomes markup."""

import html.parser
import io
import logging

import numpy as np
import optax
import pytest
from rich.console import Console

import learndyn as ld
from learndyn.runtime.tables import Shown
from learndyn.studies.claims import claim
from learndyn.studies.intervals import Interval


class Cells(html.parser.HTMLParser):
    """The caption and the rows of a table."""

    def __init__(self, result):
        super().__init__()
        self.rows, self.tags = [], []
        self.feed(result._repr_html_())
        self.caption, *self.rows = self.rows

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("caption", "tr"):
            self.rows.append([])

    def handle_data(self, data):
        self.rows[-1].append(data)


def in_terminal(result):
    console = Console(file=io.StringIO(), width=100)
    console.print(result)
    return " ".join(console.file.getvalue().split())


@pytest.fixture(scope="module")
def system():
    teacher = ld.LinearTeacher(2, np.array([[1.2, 0.3], [0.1, 0.9]]))
    problem = ld.TeacherStudent(ld.Isotropic(2), teacher)
    return ld.System(problem, ld.DeepLinear([2, 3, 2], init=ld.Aligned(0.5)), ld.NaturalGradient(1))


def test_texts_are_escaped():
    hostile = "<b>[bold]&"
    shown = Shown(hostile, [(hostile, 0.123456, None)], (hostile, "", ""))
    assert shown.html().count("&lt;b&gt;[bold]&amp;") == 3 and "<b>" not in shown.html()
    assert in_terminal(shown.text()).count(hostile) == 3
    assert "0.1235" in shown.html() and "–" in shown.html()


def test_a_theory_says_what_it_covers_at_which_orders_and_its_landmarks(system):
    theory = ld.theory_of(system)
    rows = {name: value for name, value in Cells(theory).rows}
    assert rows["coverage"].startswith("exact: ") and rows["orders"] == ", ".join(theory.orders)
    assert theory.reference[0].paper in rows["reference"]
    landmarks = theory.landmarks()
    assert landmarks
    for name, value in landmarks.items():
        unit = theory.units[name].removesuffix("1")  # a pure number has the unit 1
        assert rows[name] == f"{value:.4g} {unit}".rstrip()
    assert "exact: " in in_terminal(theory)


def test_a_start_shows_the_parts_of_its_state_and_realises_no_weights(system):
    begin = ld.start(system)
    found = Cells(begin)
    assert found.caption == ["Start, of Modes"] and "_realised" not in vars(begin)
    assert found.rows[1][:2] == ["sigma", "2×2"]
    rule = ld.Optax(optax.sgd(0.1), batch=1)
    other = ld.start(ld.System(system.problem, system.network, rule))
    assert "no theory covers the system" in other._repr_html_()


def test_fits_plateaus_and_catapults():
    x = np.arange(1.0, 9.0)
    fit = ld.analysis.fit_power_law(x, 3 * x**-0.5 * np.exp(0.01 * (-1) ** x))
    rows = dict(Cells(fit).rows)
    assert rows["slope"] == f"{fit.slope:.4g} ± {fit.error:.2g}" and "8 points" in rows["window"]
    assert rows["95 % interval"] == "{:.4g} … {:.4g}".format(*fit.interval())
    least = ld.analysis.fit_minimum(x, -x)
    assert Cells(least).caption == ["Minimum at the edge of the curve"]
    assert Cells(ld.analysis.fit_parabola(x, x**2)).rows[0][0] == "curvature"
    assert Cells(ld.analysis.fit_cut_power_law(x, x**-0.5)).rows[0][0] == "exponent"
    loss = np.exp(-0.1 * np.arange(40.0))
    loss[20:24] *= [3, 9, 4, 1]
    found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=np.full(40, 2.0))
    shown = Cells(found)
    assert shown.caption[0].startswith("Catapults: 1 spike; 0 steps above η_crit")
    assert shown.rows[1][:4] == ["1", "19", "21", "23"] and "diverged" not in shown.caption[0]
    gone = ld.analysis.find_catapults(np.append(loss, np.inf))
    assert "diverged at step 40" in Cells(gone).caption[0]


def test_a_claim_shows_its_verdict_and_its_numbers():
    sentence = claim("the rate", "Eq. 1", because="two runs")
    made = sentence.equals(Interval(1.1, 1.0, 1.2, "t test"), 1.0, 0.05)
    rows = dict(Cells(made).rows)
    assert Cells(made).caption == ["open"]
    assert rows["expected"] == "= 1 ± 0.05" and rows["measured"] == "1.1 (1 … 1.2)"
    assert "printed" not in rows and "interval is too wide" in rows["because"]


def test_a_summary_is_shown_once(capsys, monkeypatch):
    network = ld.MLP([2, 3, 1], "tanh")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (2,)))
    x, y = np.eye(2), np.ones((2, 1))
    found = ld.summary(model, x, y)
    assert "sharpness" in capsys.readouterr().out
    rows = {row[0]: row[1] for row in Cells(found).rows}
    assert rows["sharpness λ_max(H)"] == f"{found.sharpness:.3g}"
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    ld.summary(model, x, y)
    assert not capsys.readouterr().out


def test_long_work_is_logged_where_a_program_asks_for_it(system, caplog):
    with caplog.at_level(logging.INFO, "learndyn"):
        ld.solve(system, [0.0, 1.0])
    assert [record.name for record in caplog.records] == ["learndyn"] * 2
    begins, done = (record.getMessage() for record in caplog.records)
    assert begins == "solving: begins" and done.startswith("solving: done after ")
    assert ld.log is logging.getLogger("learndyn")
    caplog.clear()
    ld.solve(system, [0.0, 1.0])
    assert not caplog.records
