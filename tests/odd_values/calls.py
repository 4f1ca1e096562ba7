"""One call of every public name that works, argument by argument: what odd values are put into."""

import dataclasses
import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

import learndyn as ld

ROOMS = {"": ld, "analysis": ld.analysis, "probes": ld.probes, "rules": ld.rules}
FOLDER = tempfile.mkdtemp()
os.environ["XDG_CACHE_HOME"] = FOLDER  # what `cache` takes by default
X, Y = np.linspace(-1, 1, 8).reshape(4, 2), np.array([0.5, -0.5, 1.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Call:
    """A call that works.

    Attributes:
        arguments: all that it is given, by name.
        costly: whether a call that is not refused compiles or writes: the small profile gives it
            only values that must be refused.
        free: arguments that take any object at all.
        works: whether it is called as it is; sweeps start processes, and have tests of their own.
        heads: names beside the call's own arguments with which a message may begin: of what an
            argument is made.
    """

    arguments: Mapping[str, Any]
    costly: bool = False
    free: tuple[str, ...] = ()
    works: bool = True
    heads: tuple[str, ...] = ()


@functools.cache
def public() -> dict[str, Any]:
    """Every public name that a user calls with something, with what it stands for."""
    found = {}
    for room, place in ROOMS.items():
        for name in getattr(place, "__all__", None) or vars(place):
            value = getattr(place, name)
            known = room and getattr(ld, name, None) is value
            if callable(value) and not name.startswith("_") and not known and _is_called(value):
                found[f"{room}.{name}" if room else name] = value
    return found


def _is_called(value: Any) -> bool:
    """Not results, which functions of ours make, nor errors, nor what is abstract."""
    if not isinstance(value, type):
        return True
    result = issubclass(value, tuple | Exception) or value.__name__ in RESULTS
    return not (result or inspect.isabstract(value) or not _parameters(value))


RESULTS = (
    "CriticalLearningRate",
    "CriticalRateAlong",
    "Egop",
    "HessianTop",
    "Linearity",
    "Summary",
    "Start",
)


def _parameters(value: Any) -> list[str]:
    return [*inspect.signature(value).parameters]


@functools.cache
def system() -> ld.System:
    problem = ld.TeacherStudent(ld.Isotropic(6), ld.Committee(1, "erf"))
    return ld.System(problem, ld.Committee(2, "erf"), ld.SGD(0.1))


@functools.cache
def model(activation: str = "tanh") -> ld.Model:
    network = ld.MLP([2, 3, 1], activation)
    return ld.Model(network, network.sample(np.random.default_rng(0), (2,)))


@functools.cache
def record(runs: bool = False) -> xr.Dataset:
    times = np.linspace(0, 3, 4)
    options = {"start": ld.start(system())}
    if runs:
        return ld.simulate(system(), times, runs=2, method="reduced", **options)
    return ld.solve(system(), times, **options)


def losses() -> xr.Dataset:
    curve = np.array([1.0, 0.9, 3.0, 0.5, 0.4, 0.3, 0.2, 0.2, 0.1, 0.1])
    return xr.Dataset({"error": ("time", curve)}, {"time": np.arange(10.0)})


@functools.cache
def file() -> str:
    path = os.path.join(FOLDER, "record.nc")
    ld.save(record(), path)
    return path


def point(a: float) -> xr.Dataset:
    return xr.Dataset({"b": 2 * a})


LAYERED: dict[str, Any] = {"activation": "relu", "parameterisation": "ntk", "bias": False}
LAYERED |= {"output": "identity", "gain": 1.0}
STEERED = {"times": 1.5, "rest": 2, "catapults": 1, "period": 5, "limit": 2.0}
DRAWN = {"draws": 2, "key": 0}


def probe(costly: bool = True, *, y: bool = False, loss: bool = False, **more: Any) -> Callable:
    """A call of a probe on the model and its inputs."""
    arguments = {"x": X, **({"y": Y} if y else {}), **({"loss": ld.SquaredLoss()} if loss else {})}
    heads = ("outputs", "weights")
    return lambda: Call({"model": model(), **arguments, **more}, costly, heads=heads)


CALLS: dict[str, Callable[[], Call]] = {
    "Activation": lambda: Call({"function": jnp.tanh, "kinks": [0.0]}),
    "AdaTron": lambda: Call({"learning_rate": 0.1, "batch": 2, "sampling": "replacement"}),
    "Aligned": lambda: Call({"strengths": [0.1, 0.2]}),
    "CNN": lambda: Call({"channels": [2], "kernel": 3, "outputs": 2, "stride": 1, **LAYERED}),
    "CatapultSchedule": lambda: Call({"rule": ld.SGD(0.1), "every": 1, **STEERED}),
    "Commuting": lambda: Call({"values": [[1.0, 0.5], [0.5, 1.0]], "counts": [2, 1],
                               "frame": np.eye(3)}),
    "Committee": lambda: Call({"units": 2, "activation": "erf", "scale": 1.0,
                               "outputs": [1.0, -1.0], "biases": ld.Normal(1.0),
                               "train": ("inputs",),
                               "init": ld.Normal(1.0), "trainable": 2}),
    "CrossEntropy": lambda: Call({"ignore_index": -100}),
    "DAG": lambda: Call({"edges": [(0, 2), (1, 2)], "inputs": [0, 1], "outputs": [2],
                         "dropped": 0.1, "key": 1, **LAYERED}, heads=("graph",)),
    "Dataset": lambda: Call({"x": X, "y": Y, "loss": ld.SquaredLoss(), "loss_scale": None,
                             "test": (X, Y), "validation": (X, Y)}),
    "DeepLinear": lambda: Call({"widths": [3, 2], "init": ld.Xavier()}),
    "DenseNet": lambda: Call({"widths": [3, 2, 1], "dropped": 0.1, "key": 1, **LAYERED}),
    "Gaussian": lambda: Call({"spectrum": ld.Isotropic(2), "frame": np.eye(2)}),
    "Drift": lambda: Call({"diffusion": 0.1, "rotation": None}),
    "GeneralQuadratic": lambda: Call({"sigma": [1.0, -1.0], "gamma": 0.1, "std": 1.0}),
    "GradientDescent": lambda: Call({"learning_rate": 0.1, "momentum": 0.5, "nesterov": True,
                                     "decay": 0.1}),
    "Gram": lambda: Call({"M": np.eye(2), "N": np.eye(2), "P": np.eye(2), "A": np.eye(2)}),
    "Hebb": lambda: Call({"learning_rate": 0.1, "batch": 2, "sampling": "replacement"}),
    "Hinge": lambda: Call({"margin": 1.0}),
    "Isotropic": lambda: Call({"dim": 3}),
    "KFAC": lambda: Call({"learning_rate": 0.1, "damping": 0.1, "damping_form": "factored",
                          "clip": 1.0}),
    "LabelledMixture": lambda: Call({"inputs": ld.Mixture([[1.0], [-1.0]], ld.Isotropic(3)),
                                     "targets": [1.0, -1.0], "label_noise": 0.1,
                                     "loss": ld.SquaredLoss(), "loss_scale": None}),
    "LinearTeacher": lambda: Call({"outputs": 1, "matrix": [[1.0, 2.0]]}),
    "MLP": lambda: Call({"widths": [3, 2, 1], **LAYERED}),
    "Mixture": lambda: Call({"means": [[1.0], [-1.0]], "covariances": ld.Isotropic(3),
                             "weights": [1.0, 2.0]}),
    "Model": lambda: Call({"network": model().network, "weights": model().weights}),
    "Modes": lambda: Call({"sigma": np.ones((2, 2))}),
    "Moments": lambda: Call({"values": np.ones(2), "covariance": np.eye(2),
                             "velocity": np.ones(2), "cross": np.eye(2), "velocities": np.eye(2),
                             "step": 3, "scatter": None}),
    "Myrtle": lambda: Call({"channels": 2, "outputs": 2, "depth": 5, **LAYERED}),
    "NaturalGradient": lambda: Call({"learning_rate": 0.1, "power": 0.5, "blocks": False,
                                     "damping": 0.1, "damping_form": "paper", "clip": 1.0}),
    "Network": lambda: Call({"init": lambda key: np.ones(2, np.float32),
                             "apply": lambda w, x: x @ w, "shape": (2,),
                             "linear": True}),
    "NodePerturbation": lambda: Call({"learning_rate": 0.1, "sigma": 0.1, "batch": 2,
                                      "perturbations": 1, "shared": False,
                                      "sampling": "replacement"}),
    "Normal": lambda: Call({"std": 1.0}),
    "Optax": lambda: Call({"transformation": optax.sgd(0.1), "batch": 2,
                           "sampling": "replacement", "estimator": ld.SGD(1.0)}),
    "Orthonormal": lambda: Call({"norm": 1.0}),
    "Outputs": lambda: Call({"values": np.ones((2, 1)), "velocity": np.ones((2, 1)), "step": 3}),
    "Overlaps": lambda: Call({"Q": np.eye(2), "R": np.ones((2, 1)), "T": np.eye(1),
                              "outputs": np.ones(2), "biases": np.ones(2),
                              "teacher_outputs": np.ones(1), "teacher_biases": np.ones(1),
                              "time": None}),
    "Perceptron": lambda: Call({"learning_rate": 0.1, "batch": 2, "sampling": "replacement"}),
    "Piecewise": lambda: Call({"rule": ld.SGD(0.1), "steps": [2, 5], "rates": [0.2, 0.1]}),
    "Polynomial": lambda: Call({"terms": [(1.0, {0: 2})], "dim": 2}),
    "PowerLaw": lambda: Call({"dim": 4, "levels": 2, "exponent": 1.0}),
    "Recorder": lambda: Call({"probes": {"norm": lambda model: 1.0}, "every": 2, "path": None,
                              "mode": "x", "attributes": {"a": 1}}, free=("attributes",)),
    "ResidualMLP": lambda: Call({"widths": [3, 2, 2, 1], "skip": 1, **LAYERED}),
    "Residuals": lambda: Call({"r": [1.0], "kernel": [2.0]}),
    "SGD": lambda: Call({"learning_rate": 0.1, "batch": 2, "sampling": "replacement",
                         "output_rate": 0.1, "bias_rate": 0.1, "decay": 0.1, "output_decay": 0.1,
                         "momentum": 0.5, "nesterov": False}),
    "SmallRandom": lambda: Call({"largest": 0.1}),
    "Spectrum": lambda: Call({"values": [2.0, 1.0], "counts": [1, 3]}),
    "SquaredLoss": lambda: Call({"scale": 0.5}),
    "System": lambda: Call({"problem": system().problem, "network": system().network,
                            "rule": system().rule}, heads=("loss", "batch", "widths")),
    "TeacherStudent": lambda: Call({"inputs": ld.Isotropic(4), "teacher": ld.Committee(1, "erf"),
                                    "label_noise": 0.1, "loss": ld.SquaredLoss(),
                                    "loss_scale": None, "drift": ld.Drift(rotation=0.1)},
                                   heads=("widths", "network", "drift")),
    "Traces": lambda: Call({"alpha": 1.0, "beta": 1.0, "epsilon": 1.0, "phi": 0.5, "alpha2": 1.0,
                            "target": 1.0}),
    "ViT": lambda: Call({"patch": 2, "width": 4, "depth": 1, "heads": 2, "outputs": 2,
                         "hidden": 3, **LAYERED}),
    "WideResNet": lambda: Call({"depth": 10, "widen": 1, "outputs": 2, **LAYERED}),
    "Xavier": lambda: Call({"scale": 1.0}),
    "as_model": lambda: Call({"module": model(), "batched": False, "trainable": None,
                              "output": None},
                             heads=("model", "weights")),
    "bounds_of": lambda: Call({"constructor": ld.SGD}),
    "code_of": lambda: Call({"system": system(), "times": [0, 1], "key": 0, "runs": 1,
                             "runs_key": 1, "method": "auto", "fluctuations": False}),
    "compare": lambda: Call({"theory": record(), "simulation": record(True), "doubled": None,
                             "same_system": True}),
    "forward": lambda: Call({"apply": model().network, "weights": model().weights, "x": X,
                             "taps": {"layer1": np.ones((4, 3))}, "local": False}, True),
    "infinite": lambda: Call({"network": ld.MLP([2, 3, 1], "erf"), "train": "all"}),
    "linearise": lambda: Call({"model": model()}, heads=("weights", "centre")),
    "cache": lambda: Call({"folder": os.path.join(FOLDER, "programs")}, True),
    "load": lambda: Call({"path": file(), "lazy": False}),
    "open_sweep": lambda: Call({"store": os.path.join(FOLDER, "store")}, True, works=False),
    "plot": lambda: Call({"record": record(), "simulation": record(True), "variables": ["error"],
                          "log": "auto", "same_system": True, "x": None, "ax": None}, True),
    "quadratic": lambda: Call({"model": model()}, heads=("weights", "centre")),
    "register": lambda: Call({"kind": type(ld.theory_of(system()))}),
    "save": lambda: Call({"record": record(), "path": os.path.join(FOLDER, "saved.nc")}),
    "simulate": lambda: Call({"system": system(), "times": [0, 1], "start": ld.start(system()),
                              "starts": None, "runs": 1, "key": 0, "method": "direct",
                              "dtype": "float32", "probes": {"a": lambda model: 1.0},
                              "progress": False, "on_rows": lambda rows: None, "cancel": None},
                             True),
    "solve": lambda: Call({"system": system(), "times": [0, 1], "start": ld.start(system()),
                           "key": 0, "order": "full", "fluctuations": False, "states": False,
                           "theory": "committee", "accuracy": None, "rtol": 1e-8, "atol": 1e-10,
                           "progress": False, "cancel": None}, True),
    "start": lambda: Call({"system": system(), "key": 0, "state": None,
                           "weights": ld.start(system()).weights,
                           "teacher": ld.start(system()).teacher}),
    "suggest_times": lambda: Call({"system": system(), "points": 9, "start": ld.start(system()),
                                   "key": 0}, True),
    "sweep": lambda: Call({"function": point, "axes": {"a": [1.0]},
                           "store": os.path.join(FOLDER, "another"), "zipped": (), "where": None,
                           "client": None, "workers": 1, "chunk": None, "retries": 1,
                           "seconds": 10.0, "pad": (), "extend": False,
                           "progress": False}, True, works=False),
    "tap": lambda: Call({"name": "a", "h": np.ones(2)}),
    "theory_of": lambda: Call({"system": system(), "theory": "committee"}),
    "update": lambda: Call({"system": system(), "weights": ld.start(system()).weights,
                            "teacher": ld.start(system()).teacher, "key": 0}, True),
    "analysis.cut_power_law_tolerance": lambda: Call({"x": [1.0, 2.0], "deviation": 0.1,
                                                      "exponent": 1.0, "end": 10.0}),
    "analysis.doubling_rate": lambda: Call({"half": 1.0, "whole": 3.0, "t": 1.0}),
    "analysis.escape_time": lambda: Call({"record": losses(), "fraction": 0.5,
                                          "variable": "error"}),
    "analysis.fall_time": lambda: Call({"record": losses(), "fraction": 0.5,
                                        "variable": "error"}),
    "analysis.find_catapults": lambda: Call({"record": losses(), "variable": "error", "run": None,
                                             "rise": 1.1, "noise": 9.0, "back": 0.5,
                                             "rate": None, "critical_rate": None,
                                             "kernel_norm": None, "loss_top": None}),
    "analysis.find_plateau": lambda: Call({"record": losses(), "variable": "error",
                                           "flatness": 0.1, "span": 2.0}),
    "analysis.fit_cut_power_law": lambda: Call({"x": [1.0, 2.0, 3.0], "y": [3.0, 2.0, 1.0],
                                                "end": 10.0}),
    "analysis.fit_line": lambda: Call({"x": [1.0, 2.0, 3.0], "y": [3.0, 2.0, 1.0],
                                       "window": (0, 9)}),
    "analysis.fit_minimum": lambda: Call({"x": [1.0, 2.0, 3.0], "y": [3.0, 1.0, 2.0]}),
    "analysis.fit_parabola": lambda: Call({"x": [1.0, 2.0, 3.0], "y": [3.0, 1.0, 2.0]}),
    "analysis.fit_power_law": lambda: Call({"x": [1.0, 4.0, 20.0], "y": [3.0, 2.0, 1.0],
                                            "window": (0, 99), "straight": 9.0, "span": 2.0}),
    "analysis.fit_rate": lambda: Call({"t": [1.0, 2.0, 3.0], "y": [3.0, 2.0, 1.0],
                                       "window": (0, 9)}),
    "analysis.invariants": lambda: Call({"record": record()}),
    "analysis.mean_and_error": lambda: Call({"values": record(True)["error"]}),
    "analysis.partial_correlation": lambda: Call({"x": [0, 1, 2, 4], "y": [0, 1, 2, 2],
                                                  "given": [[0.0, 1.0, 2.0, 3.0]]}),
    "analysis.proportional": lambda: Call({"x": [1.0, 2.0], "y": [3.0, 2.0]}),
    "probes.Watched": lambda: Call({"s": 1}),
    "agop": probe(factor=False, progress=False),
    "probes.alignment": lambda: Call({"A": np.eye(2), "B": np.eye(2), "factors": False}, True),
    "probes.conserved": lambda: Call({"model": model("relu")}, True),
    "critical_learning_rate": probe(y=True, loss=True, exact=False, tolerance=1e-3, optimiser=None,
                                    batch=2, key=1, progress=False),
    "probes.critical_rate_along": lambda: Call(
        {"model": model(), "x": X, "y": Y, "loss": ld.SquaredLoss(), "update": model().weights,
         "guess": 0.1}, costly=True, heads=("outputs", "weights")),
    "probes.effective_rank": lambda: Call({"matrix": np.eye(2)}, True),
    "probes.egop": lambda: Call({"function": ld.Polynomial([(1.0, {0: 2})], 2),
                                 "inputs": ld.Isotropic(2), **DRAWN}, True),
    "probes.hessian_operator": probe(y=True, loss=True),
    "hessian_top": probe(y=True, loss=True, k=1, which="both", tolerance=0.0, basis=9,
                         progress=False),
    "probes.hessian_trace": probe(y=True, loss=True, progress=False, **DRAWN),
    "probes.kernel_drift": lambda: probe(start=model(), norm="frobenius")(),
    "probes.kernel_operator": probe(),
    "probes.linearity": probe(y=True, loss=True, rule=ld.GradientDescent(0.1), steps=2,
                              tolerance=0.1, examples=1, key=0),
    "probes.loss_change": probe(y=True, loss=True, learning_rate=0.1, batch=1, perturbations=1),
    "probes.measured_update_cosine": probe(y=True, loss=True, sigma=0.1, perturbations=1,
                                           shared=False, **DRAWN),
    "probes.neural_feature_matrix": lambda: Call({"model": model(), "layer": 1}, True),
    "ntk": probe(x2=X),
    "ntk_spectrum": probe(k=1, tolerance=0.0),
    "probes.output_hessian_norm": probe(radius=0.1, tolerance=0.1, **DRAWN),
    "probes.participation_ratio": probe(node="layer1", activation="linear"),
    "probes.pl_constant": probe(),
    "spectral_density": probe(y=True, loss=True, steps=2, progress=False, **DRAWN),
    "split_loss": probe(y=True, loss=True, s=1),
    "summary": probe(y=True, loss=True, learning_rate=0.1, s=1),
    "probes.update_cosine": probe(y=True, loss=True, perturbations=1, **DRAWN),
    "probes.update_covariance": probe(y=True, loss=True),
    "rules.CatapultControl": lambda: Call({"learning_rate": 0.1, **STEERED}),
    "rules.normalise_rows": lambda: Call({"axis": 0}),
}  # fmt: skip
