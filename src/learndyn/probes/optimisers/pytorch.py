"""Responses of the optimisers of `torch.optim`, from their parameter groups and states."""

from collections.abc import Iterator
from sys import float_info
from typing import Any

import numpy as np

from learndyn.probes.optimisers.response import Coefficients, NoState, Response, common_rate
from learndyn.runtime.checks import a_kind

READ = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")


def response_of(model: Any, optimiser: Any) -> Response:
    """The response of an optimiser; weights that it does not hold, or move, stay where they are."""
    weights = getattr(model, "parameters", None)
    if weights is None:
        allowed = "(optax transformation, its state) for a JAX model"
        raise ValueError(f"optimiser: got {a_kind(optimiser)}; allowed is {allowed}")
    kind = type(optimiser).__name__
    # Other libraries have optimisers of the same names, with states of their own.
    if kind not in READ or not type(optimiser).__module__.startswith("torch.optim"):
        raise ValueError(f"optimiser: got {kind}; allowed are {', '.join(READ)} of torch.optim")
    held = list(_held(optimiser, {id(weight): name for name, weight in weights().items()}))
    if not held:
        raise ValueError("optimiser: got one without parameters; allowed is one that trains")
    rate = common_rate(np.array([float(group["lr"]) for _, group, _ in held]))
    scales = {name: np.zeros(weight.numel()) for name, weight in weights().items()}
    shifts = {name: np.zeros_like(scale) for name, scale in scales.items()}
    unit = 1.0 if np.isfinite(rate) else None  # the response to a rate of 1, if all are the same
    for name, group, state in held:
        try:
            scale, shift = _coefficients(kind, group, state, unit).scale_and_shift()
        except KeyError as error:  # as of a state that was made with other settings
            allowed = f"a state that {kind} made with its present settings"
            raise ValueError(
                f"optimiser: got a state without {error}; allowed is {allowed}"
            ) from None
        scales[name], shifts[name] = scales[name] + scale, shifts[name] + shift
    join = lambda parts: np.concatenate([parts[name].ravel() for name in scales])
    scale, shift = join(scales), join(shifts)
    if not np.all(np.isfinite(scale + shift)):
        raise ValueError("optimiser: got a state with NaN or infinities; allowed are finite ones")
    return Response(scale, shift, rate, kind)


def _held(optimiser: Any, names: dict[int, str]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, group and state of every weight that moves.

    Weights without a step, where others have taken one, had no gradient: they do not move.
    """
    stepped = lambda state: float(state.get("step", 0)) > 0
    started = any(map(stepped, optimiser.state.values()))
    for group in optimiser.param_groups:
        for weight in group["params"]:
            if not weight.requires_grad:
                continue
            if id(weight) not in names:
                allowed = "the optimiser that trains this module"
                raise ValueError(
                    f"optimiser: got parameters of another model; allowed is {allowed}"
                )
            state = optimiser.state.get(weight, {})
            shapes = {getattr(value, "shape", ()) for value in state.values()}
            if not shapes <= {(), weight.shape}:  # as one that was loaded
                allowed = "one of this model"
                raise ValueError(f"optimiser: got a state of another model; allowed is {allowed}")
            if stepped(state) or not started:
                yield names[id(weight)], group, state


def _coefficients(kind: str, group: dict[str, Any], state: Any, rate: float | None) -> Coefficients:
    """The coefficients of one parameter (flattened), at its own learning rate or a given one."""
    _check_group(group)
    rate = float(group["lr"]) if rate is None else rate
    decay = float(group.get("weight_decay", 0.0))
    if kind == "SGD":
        return _sgd(rate, decay, group)
    if not state:
        raise NoState(f"optimiser: got {kind} without a state; allowed is one after a step")
    if kind == "Adagrad":
        return _adagrad(rate, decay, group, state)
    if kind == "RMSprop":
        return _rmsprop(rate, decay, group, state)
    # In older releases the groups of AdamW do not say it.
    return _adam(rate, decay, group.get("decoupled_weight_decay", kind == "AdamW"), group, state)


def _check_group(group: dict[str, Any]) -> None:
    """Raises a ValueError for settings that PyTorch does not refuse, or not later on."""
    if group.get("maximize"):
        raise ValueError("optimiser: got maximize=True; allowed is an optimiser that minimises")
    for name, allowed, least, most in (
        ("lr", "a non-negative finite number", 0.0, float_info.max),
        ("momentum", "a number from 0 to 1, above which no rate is stable", 0.0, 1.0),
    ):
        if not least <= (value := float(group.get(name, 0.0))) <= most:
            raise ValueError(f"optimiser: got {name}={value:g}; allowed is {allowed}")


def _sgd(rate: float, decay: float, group: dict[str, Any]) -> Coefficients:
    beta, undamped = float(group["momentum"]), 1 - float(group["dampening"])
    if not beta:  # then dampening has no effect
        return Coefficients(-rate, -rate * decay)
    slope = 1 + beta * undamped if group["nesterov"] else undamped
    memory = beta**2 if group["nesterov"] else beta
    aq = -rate * memory * undamped
    return Coefficients(-rate * slope, -rate * slope * decay, aq, aq * decay, beta)


def _adam(
    rate: float, decay: float, decoupled: bool, group: dict[str, Any], state: Any
) -> Coefficients:
    (beta, beta2), steps = map(float, group["betas"]), float(state["step"])
    second = state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"]
    P = np.sqrt(_flat(second) / (1 - beta2**steps)) + float(group["eps"])
    D = rate * (1 - beta) / (1 - beta**steps) / P
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
