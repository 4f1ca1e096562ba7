"""The tables of coverage, from what theories say about systems."""

import pathlib
import re
from collections.abc import Iterator

import jax
import numpy as np

import learndyn as ld
from learndyn.numerics.gaussian import NAMED
from learndyn.theory import AbstractTheory, Flow, Refused
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.infinite_width.network import InfiniteNetwork
from learndyn.theory.registry import THEORIES, find_theory

RULES = {
    "SGD": ld.SGD(0.1),
    "SGD, batch 10": ld.SGD(0.1, batch=10),
    "SGD, momentum": ld.SGD(0.1, momentum=0.9),
    "SGD, decay": ld.SGD(0.1, decay=0.01),
    "GradientDescent": ld.GradientDescent(0.1),
    "NaturalGradient": ld.NaturalGradient(0.1, damping=0.1),
    "NodePerturbation": ld.NodePerturbation(0.01),
}


def systems() -> dict[str, tuple[object, object]]:
    """Problems and networks of each kind, by what the table calls them."""
    few = ld.Dataset([[1.0, 2.0], [-2.0, -4.0]], [0.5, -1.0])
    spread = ld.Dataset(np.eye(2), [0.5, -1.0])
    teacher = lambda **more: ld.TeacherStudent(ld.Isotropic(100), ld.Committee(2, "erf", **more))
    both = ("inputs", "outputs")
    pair = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(2, "erf", outputs=np.eye(2)))
    mixture = ld.LabelledMixture(ld.Mixture([[1.0], [-1.0]], ld.Isotropic(100)), [1, -1])
    drift = ld.Drift(diffusion=0.1)
    moving = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(2, "erf"), drift=drift)
    signs = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(1, "sign"), loss=ld.Logistic())
    linear = ld.TeacherStudent(ld.Isotropic(4), ld.LinearTeacher(2, np.eye(2, 4)))
    tilted = ld.TeacherStudent(ld.PowerLaw(4, 2, 1.0), ld.LinearTeacher(2, np.eye(2, 4)))
    mlp = ld.MLP([2, 8, 1], "relu")
    twins = [
        expand(ld.Model(mlp, ld.start(ld.System(few, mlp, ld.SGD(0.1)), key=0).weights))
        for expand in (ld.quadratic, ld.linearise)
    ]
    return {
        "committee, white inputs": (teacher(), ld.Committee(2, "erf")),
        "committee, trained outputs": (teacher(), ld.Committee(2, "erf", train=both)),
        "committee, two outputs": (pair, ld.Committee(2, "erf", outputs=np.eye(2))),
        "committee, a mixture of Gaussians": (mixture, ld.Committee(2, "erf")),
        "committee, a teacher that moves": (moving, ld.Committee(2, "erf")),
        "committee, logistic loss": (signs, ld.Committee(1, "linear")),
        "committee, a data set": (spread, ld.Committee(2, "erf")),
        "two linear layers, aligned": (linear, ld.DeepLinear([4, 3, 2], init=ld.Aligned(0.1))),
        "two linear layers, random": (linear, ld.DeepLinear([4, 3, 2])),
        "three linear layers, random": (linear, ld.DeepLinear([4, 3, 3, 2])),
        "linear layers, inputs not white": (tilted, ld.DeepLinear([4, 3, 2])),
        "quadratic twin, examples on a line": (few, twins[0]),
        "linear twin": (few, twins[1]),
        "MLP": (spread, mlp),
        "infinite MLP": (spread, ld.infinite(mlp)),
    }


def cell(problem: object, network: object, rule: object) -> str:
    """Which theory covers a system, or what can be done without one."""
    try:
        system = ld.System(problem, network, rule)
    except ValueError:
        return "refused"
    theory = find_theory(system)
    if theory is None:
        return "`simulate`" if trains(system) else "refused"
    return f"{theory.name}: {theory.covers(system).level}"


def trains(system: ld.System) -> bool:
    """Whether `simulate` can train the network of a system."""
    problem, network, rule = system.problem, system.network, system.rule
    if isinstance(network, InfiniteNetwork):
        return False  # it has no weights
    if rule.samples or problem.examples() is not None or problem.teacher_network is not None:
        return True  # `System` has checked rules that use all examples of a teacher
    try:
        rule.velocity(problem, network, ())
    except ValueError:
        return False
    return True


def averages(student: str, teacher: str) -> str:
    """How exact averages over a pair of activations are; empty for a student that cannot learn."""
    problem = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(2, teacher))
    try:
        system = ld.System(problem, ld.Committee(2, student), ld.SGD(0.1))
    except ValueError:
        return ""
    units = CommitteeSetting.of(system).units
    if units.approximate():
        return "1 %"
    return "exact" if units.method() == "closed form" else "10⁻⁶"


def write(folder: pathlib.Path) -> None:
    """Writes the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with jax.enable_x64(True):
        (folder / "coverage.md").write_text("\n".join(_page()) + "\n", "utf-8")


def _page() -> Iterator[str]:
    yield "# Tables of coverage\n\nWritten from the code when the site is built."
    yield "[In words](../coverage.md).\n\n## Which theory covers which system\n"
    yield "Where no theory does, `simulate` works and `solve` says why not. A cell has the theory's"
    yield "name, as for `solve(theory=…)`, and whether it is exact.\n"
    yield ":::{container} wide"
    heads = [re.sub("(?<=[a-z])(?=[A-Z])", "\u200b", name) for name in RULES]  # may be broken there
    yield f"| | {' | '.join(heads)} |\n|---|{'---|' * len(RULES)}"
    for name, (problem, network) in systems().items():
        yield f"| {name} | {' | '.join(cell(problem, network, r) for r in RULES.values())} |"
    yield ":::\n"
    yield "## Orders and observables\n"
    yield "| theory | orders | dynamics | fluctuations | exact chain | landmarks |"
    yield "|---|---|---|---|---|---|"
    yield from _orders()
    yield "\n## Averages of the committee theory\n"
    yield "How exact the averages over a student's (rows) and a teacher's units (columns) are,"
    yield "without biases. exact: in closed form. 10⁻⁶: by sums of error functions, Hermite series,"
    yield "tilted Gaussians or conditioning, to `solve(accuracy=…)`, which is 10⁻⁶ by default. 1 %:"
    yield "by quasi-random points, for which coverage is approximate. The record says how"
    yield "(`averages`, `averages_error`). A smooth function of your own, by `ld.Activation`, is"
    yield "treated like gelu.\n"
    yield ":::{container} wide"
    yield from _averages()
    yield ":::"


def _orders() -> Iterator[str]:
    kinds: dict[str, dict[str, AbstractTheory]] = {kind.name: {} for kind in THEORIES}
    for problem, network in systems().values():
        for rule in RULES.values():
            try:
                theory = find_theory(ld.System(problem, network, rule))
            except ValueError:
                continue
            for order in theory.orders if theory is not None else ():
                kinds[theory.name].setdefault(order, theory)  # some rules have orders of their own
    for name, orders in kinds.items():
        if not orders:
            continue  # `systems` has no system of this theory; a test sees that
        flows = [isinstance(each.dynamics(order), Flow) for order, each in orders.items()]
        noise = [o for o, each in orders.items() if not isinstance(each.noise(o), Refused)]
        theory = next(iter(orders.values()))
        chain = "no" if isinstance(theory.chain(), Refused) else "yes"
        marks = ", ".join(f"`{mark}`" for mark in theory.units) or "none"
        quoted = ", ".join(f'"{order}"' for order in orders)
        named = ", ".join(f'"{order}"' for order in noise) or "no"
        cells = quoted, ", ".join("flow" if flow else "map" for flow in flows), named, chain, marks
        yield f"| {name} | {' | '.join(cells)} |"


def _averages() -> Iterator[str]:
    students = [name for name in NAMED if averages(name, "erf")]
    yield f"| | {' | '.join(NAMED)} |\n|---|{'---|' * len(NAMED)}"
    for student in students:
        yield f"| {student} | {' | '.join(averages(student, teacher) for teacher in NAMED)} |"
