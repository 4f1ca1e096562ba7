"""Responses of the optimisers of `torch.optim`, from their parameter groups and states."""

from typing import Any

import numpy as np

from learndyn.probes.optimisers.response import Coefficients, NoState, Response, common_rate
from learndyn.runtime.checks import a_kind

READ = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")


def response_of(model: Any, optimiser: Any) -> Response:
    """The response of an optimiser; weights that it does not hold do not move."""
    weights = getattr(model, "parameters", None)
    if weights is None:
        allowed = "(optax transformation, its state) for a JAX model"
        raise ValueError(f"optimiser: got {a_kind(optimiser)}; allowed is {allowed}")
    kind = type(optimiser).__name__
    if kind not in READ:
        raise ValueError(f"optimiser: got {kind}; allowed are {', '.join(READ)}")
    places = {id(weight): name for name, weight in weights().items()}
    scales = {name: np.zeros(weight.numel()) for name, weight in weights().items()}
    shifts, rates = {name: np.zeros_like(s) for name, s in scales.items()}, []
    for group in optimiser.param_groups:
        for weight in group["params"]:
            if not weight.requires_grad:
                continue
            if id(weight) not in places:
                allowed = "the optimiser that trains this module"
                raise ValueError(
                    f"optimiser: got parameters of another model; allowed is {allowed}"
                )
            name, state = places[id(weight)], optimiser.state.get(weight, {})
            rate, found = _coefficients(kind, group, state)
            scale, shift = found.scale_and_shift()
            scales[name], shifts[name] = scales[name] + scale, shifts[name] + shift
            rates.append(rate)
    if not rates:
        raise ValueError("optimiser: got one without parameters; allowed is one that trains")
    join = lambda parts: np.concatenate([parts[name].ravel() for name in scales])
    return Response(join(scales), join(shifts), common_rate(np.array(rates)), kind)


def _coefficients(kind: str, group: dict[str, Any], state: Any) -> tuple[float, Coefficients]:
    """The learning rate of one parameter, and its coefficients (flattened)."""
    if group.get("maximize"):
        raise ValueError("optimiser: got maximize=True; allowed is an optimiser that minimises")
    rate, decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
    if kind == "SGD":
        return rate, _sgd(rate, decay, group)
    if not state:
        raise NoState(f"optimiser: got {kind} without a state; allowed is one after a step")
    of = {"RMSprop": _rmsprop, "Adagrad": _adagrad}.get(kind, _adam)
    return rate, of(rate, decay, group, state)


def _sgd(rate: float, decay: float, group: dict[str, Any]) -> Coefficients:
    beta, undamped = float(group["momentum"]), 1 - float(group["dampening"])
    if not beta:  # then dampening has no effect
        return Coefficients(-rate, -rate * decay)
    slope = 1 + beta * undamped if group["nesterov"] else undamped
    memory = beta**2 if group["nesterov"] else beta
    aq = -rate * memory * undamped
    return Coefficients(-rate * slope, -rate * slope * decay, aq, aq * decay, beta)


def _adam(rate: float, decay: float, group: dict[str, Any], state: Any) -> Coefficients:
    (beta, beta2), steps = map(float, group["betas"]), float(state["step"])
    second = state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"]
    P = np.sqrt(_flat(second) / (1 - beta2**steps)) + float(group["eps"])
    D = rate * (1 - beta) / (1 - beta**steps) / P
    decoupled = group.get("decoupled_weight_decay", False)
    coupled = 0.0 if decoupled else decay
    return Coefficients(
        b=-D, c=-rate * decay if decoupled else -D * coupled, aq=-beta * D, ar=-beta * D * coupled,
        p=beta,
    )  # fmt: skip


def _rmsprop(rate: float, decay: float, group: dict[str, Any], state: Any) -> Coefficients:
    second = _flat(state["square_avg"])
    if group["centered"]:
        second = second - _flat(state["grad_avg"]) ** 2
    D = rate / (np.sqrt(np.maximum(second, 0)) + float(group["eps"]))
    beta = float(group["momentum"])
    return Coefficients(-D, -D * decay, -beta * D, -beta * D * decay, beta)


def _adagrad(rate: float, decay: float, group: dict[str, Any], state: Any) -> Coefficients:
    steps = float(state["step"])
    if not steps:  # Adagrad has a state from the beginning
        raise NoState("optimiser: got Adagrad without a state; allowed is one after a step")
    slowed = rate / (1 + (steps - 1) * float(group["lr_decay"]))
    D = slowed / (np.sqrt(_flat(state["sum"])) + float(group["eps"]))
    return Coefficients(-D, -D * decay)


def _flat(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().double().numpy().ravel()
