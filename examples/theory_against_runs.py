"""Theory against runs, with the bands that the theory predicts.

    python examples/theory_against_runs.py

Lines are the ODEs of infinitely many inputs, light bands where 95 % of runs at N = 200 should be,
markers the mean of eight trained networks.
"""

import numpy as np

import learndyn as ld


def main():
    """Solves, simulates, compares, and returns the figure and the verdict."""
    teacher = ld.Committee(1, "erf", init=ld.Orthonormal(1.0))
    student = ld.Committee(2, "erf", init=ld.Normal(0.5))
    system = ld.System(ld.TeacherStudent(ld.Isotropic(200), teacher), student, ld.SGD(0.5))
    start, times = ld.start(system, key=0), np.linspace(0, 20, 41)
    theory = ld.solve(system, times, start=start, fluctuations=True)
    runs = ld.simulate(system, times, start=start, runs=8, key=1)
    found = ld.compare(theory, runs)
    print(f"{found.verdict}: {found.reason}")
    return ld.plot(theory, runs, variables=["Q", "R"], log=""), found


if __name__ == "__main__":
    main()[0].savefig("theory_against_runs.png")
