"""Integers of NumPy, whose products overflow, in the place of Python's: the same value comes out.

Run as a program, since tests check types beforehand.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import optax

import learndyn as ld

PLAIN_SGD = optax.sgd(0.1)  # two of them differ
IMAGE = (8, 8, 3)
LIKE = {"vit": IMAGE, "cnn": IMAGE, "myrtle": IMAGE, "wide": IMAGE, "mlp": (100,),
        "deep linear": (100,), "residual": (8,), "committee": (100,)}  # fmt: skip


def values(whole: Any) -> dict[str, Any]:
    """Values made of integers of one type."""
    many = lambda *integers: [whole(i) for i in integers]
    data = ld.Dataset(np.eye(3), np.array([0.0, 1.0, 0.5]))
    network = ld.MLP([3, 2, 1], "tanh")
    model = ld.Model(network, network.sample(np.random.default_rng(0), (3,)))
    rates = {"period": whole(120), "every": whole(100), "times": 1.01}
    return {
        "vit": ld.ViT(whole(2), whole(40), whole(2), whole(4), whole(100)),
        "mlp": ld.MLP(np.array(many(100, 120, 10)), "relu"),
        "deep linear": ld.DeepLinear(many(100, 100)),
        "residual": ld.ResidualMLP(many(8, 100, 100, 1), "relu", skip=whole(1)),
        "dense net": ld.DenseNet(many(100, 100, 100, 1), "relu", dropped=0.5, key=whole(3)),
        "cnn": ld.CNN(many(100, 100), whole(5), whole(10), "relu", stride=whole(2)),
        "myrtle": ld.Myrtle(whole(100), whole(10), depth=whole(5)),
        "wide": ld.WideResNet(whole(16), whole(10), whole(100)),
        "committee": ld.Committee(whole(100), "erf", trainable=whole(100)),
        "teacher": ld.LinearTeacher(whole(100)),
        "polynomial": ld.Polynomial([(1.0, {whole(99): whole(2)})], whole(100)),
        "dag": ld.DAG([(whole(0), whole(1)), (whole(1), whole(2))], "relu", key=whole(3)),
        "isotropic": ld.Isotropic(whole(100)),
        "spectrum": ld.Spectrum(many(100, 1), many(100, 100)),
        "power law": ld.PowerLaw(whole(120), whole(4), 1.0),
        "sgd": ld.SGD(0.1, batch=whole(100)),
        "perturbation": ld.NodePerturbation(0.1, batch=whole(100), perturbations=whole(100)),
        "optax": ld.Optax(PLAIN_SGD, batch=whole(100)),
        "catapults": ld.CatapultSchedule(ld.SGD(0.1, batch=whole(2)), **rates),
        "start": ld.start(ld.System(data, network, ld.SGD(0.1)), key=whole(100)).weights[0].weight,
        "trace": ld.probes.hessian_trace(model, data.x, data.y, draws=whole(3)),
    }


def complaints(whole: Any) -> Iterator[str]:
    """What differs from the value that is made of Python's integers."""
    plain = values(int)
    for name, value in values(whole).items():
        said = f"{name} of {whole.__name__}"
        if repr(value) != repr(plain[name]):
            yield f"{said}: {value!r} is not {plain[name]!r}"
        fields = getattr(value, "__dict__", {}).values()
        if any(isinstance(field, np.integer) for field in fields):
            yield f"{said}: {value!r} holds one of NumPy's"
        if name in LIKE and value.like(LIKE[name]) != plain[name].like(LIKE[name]):
            yield f"{said}: the weights are {value.like(LIKE[name])}"


if __name__ == "__main__":
    kinds = (np.int8, np.uint8, np.int16)
    print(json.dumps([each for kind in kinds for each in complaints(kind)]))
