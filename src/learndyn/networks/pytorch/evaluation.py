"""Calls a PyTorch module with weights of our own, and leaves it as it was."""

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

torch: Any = importlib.import_module("torch")  # its types are not those of every installation
nn = torch.nn
RANDOM = (nn.modules.dropout._DropoutNd, nn.MultiheadAttention, nn.RNNBase)
PRECISIONS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def checked(module: Any) -> Any:
    """The module, or a one-line error that says why it cannot be probed."""
    weights = trainable(module)
    if not weights:
        raise ValueError("weights: got none with requires_grad; allowed is at least one")
    every = [*module.parameters(), *module.buffers()]
    found = {w.dtype for w in weights.values()}
    if len(found) != 1 or not found <= set(PRECISIONS):
        came = " and ".join(sorted(str(d).removeprefix("torch.") for d in found))
        raise ValueError(f"weights: got {came}; allowed is one precision, float32 or float64")
    devices = sorted({str(p.device) for p in every})
    if len(devices) != 1 or devices[0] == "meta":
        raise ValueError(f"weights: got {' and '.join(devices)}; allowed is one device with data")
    for name, part in module.named_modules():
        _check_mode(name, part)
    return module


def _check_mode(name: str, part: Any) -> None:
    """Refuses what makes outputs of examples depend on each other, or on chance."""
    normal = isinstance(part, nn.modules.batchnorm._NormBase)
    batch = isinstance(part, nn.modules.batchnorm._BatchNorm)
    statistics = normal and batch and (part.training or part.running_mean is None)
    moves = normal and not batch and part.training and part.track_running_stats
    chance = getattr(part, "p", getattr(part, "dropout", 0.0))
    random = isinstance(part, RANDOM) and part.training and chance > 0
    if statistics or moves or random:
        what = "draws at random" if random else "uses the statistics of the batch"
        raise ValueError(
            f"model: got {type(part).__name__} {name!r}, which {what} in training mode; allowed is "
            "module.eval()"
        )


def trainable(module: Any) -> dict[str, Any]:
    """The weights: parameters that require gradients, each once, without their history."""
    return {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}


def call(module: Any, weights: Mapping[str, Any], x: Any) -> Any:
    """Outputs at given weights, (examples, …); the module's own tensors are not touched."""
    rest = {n: b.detach().clone() for n, b in module.named_buffers()}
    frozen = {n: p.detach() for n, p in module.named_parameters() if not p.requires_grad}
    before = _chance(x)
    found = torch.func.functional_call(module, {**rest, **frozen, **weights}, (x,))
    if not all(torch.equal(a, b) for a, b in zip(before, _chance(x), strict=True)):
        _set_chance(before)
        raise ValueError("model: it draws random numbers; allowed is one without, module.eval()")
    return _outputs(found, x)


def _outputs(found: Any, x: Any) -> Any:
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"outputs: got a {type(found).__name__}; allowed is one tensor")
    if found.ndim == 0 or len(found) != len(x):
        came = f"shape {tuple(found.shape)} for {len(x)} examples"
        raise ValueError(f"outputs: got {came}; allowed is (examples, …)")
    if not found.is_floating_point():
        raise ValueError(f"outputs: got {found.dtype}; allowed are floats, to be differentiated")
    return found


def flat(found: Any) -> Any:
    """Outputs as (examples, outputs)."""
    return found.reshape(len(found), -1)


def _chance(x: Any) -> list[Any]:
    """The states of the random generators."""
    on_device = [torch.cuda.get_rng_state(x.device)] if x.is_cuda else []
    return [torch.random.get_rng_state(), *on_device]


def _set_chance(states: list[Any]) -> None:
    torch.random.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state(states[1])


@contextlib.contextmanager
def derivatives() -> Iterator[None]:
    """Where every operation has derivatives of both kinds, whatever the caller's settings."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it has no derivative
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    try:
        with torch.inference_mode(False), torch.enable_grad(), plain:
            yield
    except NotImplementedError as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"model: PyTorch cannot differentiate it ({why}); allowed is a differentiable module"
        ) from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
