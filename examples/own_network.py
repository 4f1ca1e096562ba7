"""A network of your own: any function of weights and a batch, with nodes where `tap` marks them.

    python examples/own_network.py

A mixture of two linear experts with a gate learns |x_1|, by backpropagation and by noise at its
nodes. A probe of one's own watches how sharp the gate has become.
"""

import jax
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.plotting import panels, style

DIM = 5


def init(key):
    draw = lambda k, shape: jax.random.normal(k, shape) / np.sqrt(DIM)
    gate, experts = jax.random.split(key)
    return {"gate": draw(gate, (DIM,)), "experts": draw(experts, (DIM, 2))}


def apply(weights, x):
    gate = jax.nn.sigmoid(ld.tap("gate", x @ weights["gate"]))
    experts = ld.tap("experts", x @ weights["experts"])
    return gate * experts[:, 0] + (1 - gate) * experts[:, 1]


@style()
def main():
    """Trains by two rules and returns the figure and the records."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, DIM)).astype("float32")
    data = ld.Dataset(x, np.abs(x[:, 0]))
    network = ld.Network(init, apply)
    sharpness = {"sharpness": lambda model: jnp.abs(model.weights["gate"][0])}
    rules = {
        "backpropagation": ld.SGD(0.2, batch=20),
        "node perturbation": ld.NodePerturbation(0.05, batch=20, perturbations=4),
    }
    records = {
        name: ld.simulate(ld.System(data, network, rule), np.arange(0, 2001, 50), probes=sharpness)
        for name, rule in rules.items()
    }
    figure, axes = panels(2, size=(3.6, 2.9))
    for dashes, (name, record) in zip(("-", "--"), records.items(), strict=True):
        print(f"{name}: loss {record['error'][0, -1].item():.4f}")
        axes[0].plot(record["time"], record["error"][0], dashes, label=name)
        axes[1].plot(record["time"], record["sharpness"][0], dashes, label=name)
    axes[0].set(xlabel="time [steps]", ylabel="loss", yscale="log")
    axes[1].set(xlabel="time [steps]", ylabel="|gate weight of $x_1$|")
    axes[0].legend()
    return figure, records


if __name__ == "__main__":
    main()[0].savefig("own_network.png")
