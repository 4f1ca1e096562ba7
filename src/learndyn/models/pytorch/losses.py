"""Losses of PyTorch: a module of `torch.nn` that takes a mean, or a function of tensors."""

from typing import Any

import numpy as np

from learndyn.models.losses import check_each, unfit
from learndyn.models.pytorch.evaluation import flat, functional, nn, torch
from learndyn.runtime.checks import a_kind

MEANS = ("mean", "batchmean")
BY_LABELS = (nn.CrossEntropyLoss, nn.NLLLoss)  # they average over labels, which may have weights


class TorchLoss:
    """A loss that PyTorch computes, for a PyTorch module.

    Args:
        function: a module of `torch.nn` with `reduction="mean"`, or a function of outputs and
            targets that returns one loss per example.
    """

    def __init__(self, function: Any):
        if not callable(function):
            raise ValueError(
                f"loss: got {a_kind(function)}; allowed is SquaredLoss(scale), CrossEntropy(), a "
                "function (outputs, y) → one loss per example, or a loss of torch.nn"
            )
        self.function: Any = function
        self.is_mean = isinstance(function, nn.Module) and hasattr(function, "reduction")
        if self.is_mean and self.function.reduction not in MEANS:
            came = f"{type(function).__name__} with reduction={self.function.reduction!r}"
            raise ValueError(f"loss: got {came}; allowed is reduction='mean'")

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def mean(self, y: Any) -> "TorchMean":
        """The mean loss of given targets, as a function of the outputs."""
        return TorchMean(self, y)

    def check(self, outputs: np.ndarray, y: Any) -> None:
        """Raises a ValueError if the loss does not fit outputs, or is not one per example."""
        given = torch.from_numpy(np.array(outputs))
        try:
            found = self.mean(y).each(given)
        except Exception as error:  # a user's function may raise anything
            raise unfit(outputs, y, error) from None
        if not isinstance(found, torch.Tensor):
            raise ValueError(f"loss: got one that returns {a_kind(found)}; allowed is a tensor")
        if not self.is_mean:
            check_each(found.shape, len(outputs))


class TorchMean:
    """The loss as a function of the outputs for given examples, averaged over them.

    Args:
        loss: a `TorchLoss`.
        y: targets, an array.
    """

    def __init__(self, loss: TorchLoss, y: Any):
        self.loss, self.y = loss, torch.from_numpy(np.array(y))

    @property
    def terms(self) -> float:
        """The number of terms of the mean, or the sum of their weights."""
        function = self.loss.function
        if not isinstance(function, BY_LABELS) or self.y.is_floating_point():
            return float(len(self.y))
        counted = self.y[self.y != function.ignore_index]
        weight = function.weight
        return float(len(counted) if weight is None else weight.cpu()[counted].sum())

    def each(self, outputs: Any) -> Any:
        """What the function returns for a tensor of outputs: the mean, or the loss of each."""
        function, y = self.loss.function, self.y.to(outputs.device)
        y = y.to(outputs.dtype) if y.is_floating_point() else y
        if not isinstance(function, nn.Module):
            return function(outputs, y)
        own = {n: b.to(outputs) for n, b in function.named_buffers() if b.is_floating_point()}
        return torch.func.functional_call(function, own, (_as_taken(function, outputs, y), y))

    def slope_and_bend(self, outputs: Any, change: Any) -> tuple[Any, Any]:
        """∂loss/∂output, and its derivative along `change`, as tensors."""
        with torch.inference_mode(False), torch.enable_grad():
            leaf = outputs.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.each(leaf).mean(), leaf, create_graph=True)
            if not slope.requires_grad:  # a loss made of straight lines
                return slope, torch.zeros_like(slope)
            # The second derivative is symmetric: its product is a backward pass of the first.
            try:
                (bend,) = torch.autograd.grad(slope, leaf, change, materialize_grads=True)
            except RuntimeError as error:
                why = str(error).partition("\n")[0]
                raise ValueError(
                    f"loss: PyTorch cannot differentiate {self.loss} twice ({why}); allowed is one "
                    "with second derivatives"
                ) from None
            return slope.detach(), torch.zeros_like(
                slope
            ) + bend  # autograd may give "zero tensors"

    def __call__(self, outputs: Any) -> float:
        with torch.no_grad():
            return float(self.each(torch.from_numpy(np.array(outputs))).mean())

    def gradient(self, outputs: np.ndarray) -> np.ndarray:
        """∂loss/∂output, of the outputs' shape."""
        given = torch.from_numpy(np.array(outputs))
        return self.slope_and_bend(given, torch.zeros_like(given))[0].numpy()

    def curvature(self, outputs: np.ndarray, u: np.ndarray) -> np.ndarray:
        """∂²loss/∂output² u, of the outputs' shape."""
        pair = (torch.from_numpy(np.array(array)) for array in (outputs, u))
        return self.slope_and_bend(*pair)[1].numpy()

    def blocks(self, outputs: np.ndarray) -> np.ndarray:
        """∂²loss/∂output² of every example, (n, k, k); examples are independent of each other."""
        given = torch.from_numpy(np.array(outputs))
        units = torch.eye(flat(given).shape[1], dtype=given.dtype)
        bends = [self.slope_and_bend(given, unit.expand_as(flat(given)).reshape(given.shape))[1]
                 for unit in units]  # fmt: skip
        return torch.stack([flat(bend) for bend in bends], 1).numpy()


def _as_taken(function: Any, outputs: Any, y: Any) -> Any:
    """Outputs (examples, tokens, classes) with classes second, where losses of labels take them.

    Labels (examples, tokens) tell. If there are as many tokens as classes, PyTorch's order counts.
    """
    if not isinstance(function, BY_LABELS) or y.is_floating_point():
        return outputs
    last = y.shape[1:] == outputs.shape[1:-1] and y.shape[1:] != outputs.shape[2:]
    return outputs.movedim(-1, 1) if last else outputs


def squared(scale: float, outputs: Any, y: Any) -> Any:
    """Our `SquaredLoss`, averaged over examples."""
    return scale * ((_as_outputs(outputs, y) - outputs) ** 2).sum() / len(outputs)


def cross_entropy(ignored: int | None, outputs: Any, y: Any) -> Any:
    """Our `CrossEntropy`, averaged over the labels that count."""
    are_labels = not y.is_floating_point()
    counts = torch.ones_like(y, dtype=torch.bool) if ignored is None else y != ignored
    y = y.long().where(counts, 0) if are_labels else y
    if _is_single(outputs):
        losses = -functional.logsigmoid(_as_outputs(outputs, y) * outputs)
    elif are_labels:
        losses = -outputs.log_softmax(-1).gather(-1, y[..., None])
    else:
        losses = -(y * outputs.log_softmax(-1)).sum(-1)
    if not are_labels:
        return losses.mean()
    return losses.reshape(y.shape).where(counts, 0).sum() / counts.sum().clamp(min=1)


def _as_outputs(outputs: Any, y: Any) -> Any:
    """Targets as numbers in the shape of the outputs; labels of one output are −1 and +1."""
    if y.is_floating_point():
        return y.reshape(outputs.shape)
    if _is_single(outputs):
        return (2 * y.long() - 1).to(outputs).reshape(outputs.shape)
    return torch.zeros_like(outputs).scatter(-1, y.long()[..., None], 1.0)


def _is_single(outputs: Any) -> bool:
    return outputs.ndim == 1 or outputs.shape[-1] == 1
