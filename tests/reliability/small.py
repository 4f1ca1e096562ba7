"""A small prediction and its check, as a script of its own: what users' processes run."""

import numpy as np

import learndyn as ld

TEACHER = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
STUDENT = ld.Committee(2, "erf", init=ld.Normal(0.5))
SYSTEM = ld.System(ld.TeacherStudent(ld.Isotropic(50), TEACHER), STUDENT, ld.SGD(0.5))
TIMES = np.linspace(0, 2, 5)


def curve(key=0):
    start = ld.start(SYSTEM, key=key)
    theory = ld.solve(SYSTEM, TIMES, start=start)
    runs = ld.simulate(SYSTEM, TIMES, start=start, runs=4, key=1, method="direct")
    return theory, runs, ld.compare(theory, runs)


if __name__ == "__main__":
    theory, runs, comparison = curve()
    print(f"{float(theory['error'][-1]):.12g} {comparison.verdict}")
