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

EXAMPLES, INPUTS, WIDTH = 128, 3072, 1024
STEPS = 30 if jax.default_backend() == "cpu" else 1000


def data() -> ld.Dataset:
    """Normal inputs of unit size, two classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((EXAMPLES, INPUTS)).astype(np.float32)
    return ld.Dataset(x, rng.choice([-1.0, 1.0], EXAMPLES), loss_scale=1.0)


def ratios(rule: ld.SGD | ld.GradientDescent) -> list[float]:
    """Seconds a step without recording, and with s = 1 and s = 5, the best of three in turns."""
    network = ld.MLP([INPUTS, *[WIDTH] * 4, 1], "relu")
    system = ld.System(data(), network, rule)
    start = ld.start(system, key=0)
    steps, probes = np.arange(STEPS + 1), [{"watched": ld.probes.Watched(s=s)} for s in (1, 5)]
    watched = [lambda p=p: ld.simulate(system, steps, start=start, probes=p) for p in probes]
    calls = [lambda: ld.simulate(system, [0, STEPS], start=start), *watched]
    for warm in calls:
        warm()
    turns = [[seconds(call) for call in calls] for _ in range(3)]
    return [min(times) / STEPS for times in zip(*turns, strict=True)]


def measured() -> None:
    """Prints both."""
    rules = {"descent": ld.GradientDescent(0.5), "SGD, batch 32": ld.SGD(0.5, batch=32)}
    for name, rule in rules.items():
        without, *with_ = ratios(rule)
        shown = ", ".join(f"{each / without:.2f}" for each in with_)
        print(f"{name}: {1e3 * without:.1f} ms a step; watched, s = 1 and 5: ratios {shown}")


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
