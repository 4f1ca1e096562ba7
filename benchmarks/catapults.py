"""What it costs to record critical rates, kernel norm and split loss at every step: `make bench`.

128 examples, a relu network of five weight layers and width 1024, float32. Descent and SGD (batch
32) take the same steps with nothing recorded but the end, and with `probes.Watched` at every step,
in one compiled program. Ratios are of one run of this file, once with the threads that BLAS takes
by itself and once with a single one. What is asked on two cores: at most 2 for descent, and at most
3 for SGD. On an accelerator, where a step takes a fraction of a millisecond, more steps are taken.
"""

import os
import subprocess
import sys

import jax
import numpy as np
from foundation import seconds

import learndyn as ld

EXAMPLES, INPUTS, WIDTH, S = 128, 3072, 1024, 5
STEPS = 30 if jax.default_backend() == "cpu" else 1000


def data() -> ld.Dataset:
    """Normal inputs of unit size, two classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((EXAMPLES, INPUTS)).astype(np.float32)
    return ld.Dataset(x, rng.choice([-1.0, 1.0], EXAMPLES), loss_scale=1.0)


def ratio(rule: ld.SGD | ld.GradientDescent) -> tuple[float, float]:
    """Seconds a step without and with the recording, the best of three in turns."""
    network = ld.MLP([INPUTS, *[WIDTH] * 4, 1], "relu")
    system = ld.System(data(), network, rule)
    start = ld.start(system, key=0)
    probes = {"watched": ld.probes.Watched(s=S)}
    plain = lambda: ld.simulate(system, [0, STEPS], start=start)
    watched = lambda: ld.simulate(system, np.arange(STEPS + 1), start=start, probes=probes)
    for warm in (plain, watched):
        warm()
    pairs = [(seconds(plain), seconds(watched)) for _ in range(3)]
    return tuple(min(times) / STEPS for times in zip(*pairs, strict=True))  # pyright: ignore


def measured() -> None:
    """Prints both."""
    rules = {"descent": ld.GradientDescent(0.5), "SGD, batch 32": ld.SGD(0.5, batch=32)}
    for name, rule in rules.items():
        without, with_ = ratio(rule)
        print(f"{name}: {1e3 * without:.1f} ms a step, watched {1e3 * with_:.1f} ms", end="")
        print(f", ratio {with_ / without:.2f}", flush=True)


def main() -> None:
    """The same in processes of their own: BLAS is told how many threads before it is loaded."""
    named = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    plain = {name: value for name, value in os.environ.items() if name not in named}
    for said, given in {
        "BLAS by itself": {},
        "BLAS on one thread": dict.fromkeys(named, "1"),
    }.items():
        print(said, flush=True)
        subprocess.run([sys.executable, __file__, "measure"], env=plain | given, check=True)


if __name__ == "__main__":
    measured() if sys.argv[1:] else main()
