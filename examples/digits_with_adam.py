"""Real data, cross-entropy and Adam: scikit-learn's digits (`pip install "learndyn[data]"`).

    python examples/digits_with_adam.py

No theory covers this system; `simulate` trains it all the same, and measures what a `Dataset`
has: losses and accuracies on the training and the test set.
"""

import numpy as np
import optax

import learndyn as ld
from learndyn.plotting import panels, style
from learndyn.problems.readers.files import digits


@style()
def main():
    """Trains three networks and returns the figure and the record."""
    images = digits()
    x, y = images.pixels.reshape(-1, 64).astype("float32") / 16, images.labels
    data = ld.Dataset(x[:1500], y[:1500], loss=ld.CrossEntropy(), test=(x[1500:], y[1500:]))
    rule = ld.Optax(optax.adam(3e-3), batch=32, sampling="epochs")
    system = ld.System(data, ld.MLP([64, 64, 10], "relu", parameterisation="standard"), rule)
    record = ld.simulate(system, np.arange(0, 461, 46), runs=3)
    print(f"test accuracy {record['test_accuracy'][:, -1].mean().item():.3f}")
    figure, (left, right) = panels(2, size=(3.6, 2.9))
    for prefix, dashes, name in (("", "-", "training set"), ("test_", "--", "test set")):
        left.plot(record["time"], record[f"{prefix}error"].mean("run"), dashes, label=name)
        right.plot(record["time"], record[f"{prefix}accuracy"].mean("run"), dashes, label=name)
    left.set(xlabel="time [steps]", ylabel="cross-entropy", yscale="log")
    right.set(xlabel="time [steps]", ylabel="accuracy")
    left.legend()
    return figure, record


if __name__ == "__main__":
    main()[0].savefig("digits_with_adam.png")
