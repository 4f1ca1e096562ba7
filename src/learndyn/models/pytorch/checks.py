"""Which PyTorch modules can be probed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from learndyn.models.pytorch.evaluation import HALF, nn, torch

# Layers that draw random numbers in training mode, if their dropout probability is positive.
RANDOM = (nn.modules.dropout._DropoutNd, nn.MultiheadAttention, nn.RNNBase)
BATCH_NORM = nn.modules.batchnorm._BatchNorm
BY_BATCH = (
    "normalises by its batch, so that the loss that is trained is no mean of losses of single "
    "examples"
)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
PRECISIONS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def unwrapped(module: Any) -> Any:
    """The module inside of `torch.compile`, DataParallel and DistributedDataParallel."""
    while isinstance(module, PARALLEL) or hasattr(module, "_orig_mod"):
        module = module.module if isinstance(module, PARALLEL) else module._orig_mod
    return module


def checked(module: Any) -> Any:
    """The module, or a one-line error that says why it cannot be probed."""
    for name, part in module.named_modules():
        for why, allowed in _objections(part):
            at = f" {name!r}" if name else ""
            raise ValueError(
                f"model: got {type(part).__name__}{at}, which {why}; allowed is {allowed}"
            )
    precisions = {w.dtype for w in module.parameters() if w.requires_grad}
    if not precisions:
        raise ValueError("weights: got none with requires_grad; allowed is at least one")
    wide = precisions - set(HALF)
    if len(wide) > 1 or not wide <= set(PRECISIONS):
        came = " and ".join(sorted(str(d).removeprefix("torch.") for d in precisions))
        raise ValueError(f"weights: got {came}; allowed is one precision, float32 or float64")
    devices = sorted({str(t.device) for t in (*module.parameters(), *module.buffers())})
    if len(devices) != 1 or devices[0] == "meta":
        raise ValueError(f"weights: got {' and '.join(devices)}; allowed is one device with data")
    return module


def _objections(part: Any) -> Iterator[tuple[str, str]]:
    """Why a part cannot be probed, and what is allowed instead."""
    if isinstance(part, torch.jit.ScriptModule):
        yield "is scripted or traced", "the module that it was made from"
    if isinstance(part, PARALLEL):
        yield "may run on several devices", "the module that it wraps, its .module"
    if any(nn.parameter.is_lazy(w) for w in part.parameters(recurse=False)):
        yield "has no weights before its first call", "a module that was called once"
    if isinstance(part, EMBEDDINGS) and part.max_norm is not None:
        yield "changes its weights whenever it is called (max_norm)", "max_norm=None"
    if isinstance(part, EMBEDDINGS) and part.scale_grad_by_freq:
        yield (
            "scales its gradients by frequencies, so that they are not derivatives",
            "scale_grad_by_freq=False",
        )
    # Dropout layers call their probability `p`, attention and recurrent layers `dropout`.
    probability = getattr(part, "p", getattr(part, "dropout", 0.0))
    if isinstance(part, RANDOM) and part.training and probability > 0:
        yield "draws at random in training mode", "module.eval()"
    if _uses_the_batch(part):
        yield f"in training mode {BY_BATCH}", "module.eval(), whose loss is another one"
    if isinstance(part, BATCH_NORM) and not part.training and part.running_mean is None:
        yield f"has no running statistics and {BY_BATCH}", "track_running_stats=True"


def _uses_the_batch(part: Any) -> bool:
    """Whether outputs depend on other examples of the batch, or on earlier calls."""
    if not isinstance(part, nn.modules.batchnorm._NormBase):
        return False
    if isinstance(part, BATCH_NORM):
        return part.training
    # Instance norms use one example at a time, but running statistics change from call to call.
    return part.training and part.track_running_stats
