"""How long a quadratic student stays on its first plateau, against the size N.

    python examples/escape_against_size.py

It begins with an overlap of order N^(-1/2) with the teacher, which grows exponentially: the escape
takes a time that grows as ln N. The state is drawn at any size at the same cost; simulations take
every step of the exact chain of the overlaps. Noise leads some of them back to no overlap at first,
so that they escape later on average.
"""

import numpy as np

import learndyn as ld
from learndyn.analysis import escape_time, fit_line
from learndyn.plotting import panels, style

SIZES, SIMULATED, STARTS = 10 ** np.array([2, 3, 4, 6, 8]), (100, 1000), 8


def system_of(size):
    teacher = ld.Committee(1, "quadratic", init=ld.Orthonormal(1.0))
    student = ld.Committee(1, "quadratic", init=ld.Orthonormal(1.0))
    return ld.System(ld.TeacherStudent(ld.Isotropic(size), teacher), student, ld.SGD(0.02))


@style()
def main():
    """Measures both roads and returns the figure, the times and the fit."""
    times = np.linspace(0, 160, 321)
    solved, trained = [], []
    for size in map(int, SIZES):
        system = system_of(size)
        starts = [ld.start(system, key=key) for key in range(STARTS)]
        curves = [ld.solve(system, times, start=start) for start in starts]
        solved.append(np.mean([escape_time(curve).item() for curve in curves]))
        if size in SIMULATED:
            runs = ld.simulate(system, times, starts=starts, method="reduced", runs=4)
            trained.append(float(escape_time(runs).mean()))
    fit = fit_line(np.log(SIZES), solved)
    print(f"escape time = {fit.slope:.2f} ln N + {fit.intercept:.2f}")
    figure, (axis,) = panels(1)
    axis.plot(SIZES, solved, "-", label=f"theory, mean over {STARTS} starts")
    axis.plot(SIMULATED, trained, "o", label="networks from the same starts")
    axis.set(xlabel="size N", ylabel="escape time [steps / N]", xscale="log")
    axis.legend()
    return figure, np.array(solved), fit


if __name__ == "__main__":
    main()[0].savefig("escape_against_size.png")
