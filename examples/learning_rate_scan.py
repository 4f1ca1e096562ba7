"""A scan over learning rates: nothing compiles anew, and divergence is a result.

    python examples/learning_rate_scan.py

A linear student learns a noisy linear teacher. The larger the rate, the faster the error falls and
the higher it stays; from the critical rate on it diverges.
"""

import numpy as np

import learndyn as ld
from learndyn.plotting import panels, style

RATES = (0.2, 0.5, 1.0, 1.5, 1.9, 3.0)


@style()
def main():
    """Solves at every rate and returns the figure and the records."""
    teacher = ld.Committee(1, "linear", init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(1000), teacher, label_noise=0.1)
    times, records = np.linspace(0, 20, 81), {}
    for rate in RATES:
        system = ld.System(problem, ld.Committee(1, "linear"), ld.SGD(rate))
        records[rate] = ld.solve(system, times, start=ld.start(system, key=3))
        print(f"rate {rate}: {records[rate].outcome.item()}")
    figure, (axis,) = panels(1)
    for dashes, (rate, record) in zip(("-", "--", ":") * 2, records.items(), strict=True):
        axis.plot(times, record["error"], dashes, label=f"η = {rate}")
    axis.set(xlabel="time [steps / N]", ylabel="generalisation error", yscale="log")
    axis.set_ylim(1e-4, 1e2)
    axis.legend(ncols=2)
    return figure, records


if __name__ == "__main__":
    main()[0].savefig("learning_rate_scan.png")
