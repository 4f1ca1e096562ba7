"""The closed form of a linear twin against training it: `make bench`.

n = 2000 examples, one output; a curve of 100 times up to a million steps. It costs the kernel and
one `eigh`, here measured beside each other; training the same twin in the direct engine is measured
over a few steps. A step costs more in a larger network, the curve hardly does, so that there is a
small network and one of the size of MNIST's images. Ratios are of one run of this file. What is
asked: a curve in the time of one `eigh`, and at least 1000× training.
"""

import numpy as np
from foundation import seconds

import learndyn as ld
from learndyn.theory.linearised import kernel as kernels

EXAMPLES, STEPS = 2000, 10**6
CASES = {(20, 200): 100, (784, 512): 5}  # inputs, width → steps that are trained


def system(inputs: int, width: int, seed: int = 0) -> ld.System:
    """A linear twin of a relu network, trained on random examples."""
    rng = np.random.default_rng(seed)
    network = ld.MLP([inputs, width, 1], "relu")
    model = ld.Model(network, network.sample(rng, (inputs,)))
    x = rng.standard_normal((EXAMPLES, inputs))
    test = x[:500] + 1.0, np.tanh(x[:500, 0])
    data = ld.Dataset(x, np.tanh(x[:, 0]), test=test)
    return ld.System(data, ld.linearise(model), ld.GradientDescent(0.1, momentum=0.9))


def measure(inputs: int, width: int, trained: int) -> None:
    """Prints the times of one network."""
    of = system(inputs, width)
    times = np.unique(np.rint(np.geomspace(1, STEPS, 100)))
    formed = seconds(lambda: kernels.kernel_of(of.problem, of.network))
    K = kernels.kernel_of(of.problem, of.network).trained
    alone = seconds(lambda: np.linalg.eigh(K))
    first = seconds(lambda: ld.solve(of, times))
    other = system(inputs, width, seed=1)
    again = seconds(lambda: kernels.kernel_of(other.problem, other.network))
    compiled = seconds(lambda: ld.solve(other, times))
    record = ld.simulate(of, [trained], dtype="float64")
    training = STEPS / record.attrs["steps_per_second"]
    print(f"{inputs}-{width}-1, n = {EXAMPLES}: kernel {formed:.2f} s, one eigh {alone:.2f} s")
    print(f"  curve to 10^6 steps at {len(times)} times, with the kernel known: {first:.2f} s, "
          f"{first / alone:.2f}× one eigh; of other data, once it is compiled, {compiled:.2f} s, "
          f"{compiled / alone:.2f}×")  # fmt: skip
    print(f"  training 10^6 steps: {training:.0f} s, {training / (first + formed):.0f}× curve and "
          f"kernel; {training / (compiled + again):.0f}×, once both are compiled")  # fmt: skip


def main() -> None:
    for (inputs, width), trained in CASES.items():
        measure(inputs, width, trained)


if __name__ == "__main__":
    main()
