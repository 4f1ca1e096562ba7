"""Modules of PyTorch that know nothing of this library, with dense Jacobians and Hessians."""

import copy
import importlib.util
from typing import Any, NamedTuple

import numpy as np
import pytest

import learndyn as ld

HAVE = importlib.util.find_spec("torch") is not None
collect_ignore_glob = [] if HAVE else ["test_*.py"]
if HAVE:
    import torch
    from torch import nn

    torch.set_num_threads(1)  # as many as the workers have

    class Residual(nn.Module):
        """Strides, dilation, groups, normalisation with kept statistics, a skip, in place."""

        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.grouped = nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2, bias=False)
            self.act = nn.SiLU(inplace=True)
            self.last = nn.Linear(64, 3)

        def forward(self, x):
            h = self.act(self.norm(self.first(x)))
            return self.last((h + torch.tanh(self.grouped(h))).flatten(1))

    class Encoder(nn.Module):
        """PyTorch's own layer, whose fast path has no derivative, and a mean over positions."""

        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", batch_first=True)

        def forward(self, x):
            return self.layer(x).mean(1)[:, :2]

    class Tied(nn.Module):
        """A layer used twice, one weight in two layers, one beside its layer, a frozen layer."""

        def __init__(self):
            super().__init__()
            self.twice, self.beside = nn.Linear(3, 3), nn.Linear(3, 3)
            self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
            self.other.weight = self.one.weight
            self.frozen, self.scale = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
            self.frozen.requires_grad_(False)

        def forward(self, x):
            h = torch.tanh(self.twice(torch.relu(self.twice(x))))
            h = self.beside(h) @ self.beside.weight
            h = self.other(torch.tanh(self.one(h)))
            return (self.scale * self.frozen(h)).sum(1)

    class Positions(nn.Module):
        """Axes in other orders than examples first; as many positions as examples."""

        def __init__(self):
            super().__init__()
            self.merged, self.first = nn.Linear(3, 4), nn.Linear(4, 4)
            self.second, self.last = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x):
            h = torch.tanh(self.merged(x.reshape(-1, 3)).reshape(*x.shape[:2], 4))
            h = torch.tanh(self.first(h.transpose(0, 1)))  # positions first
            return self.last(torch.tanh(self.second(h))[-1])  # of the last position alone


class Case(NamedTuple):
    """A module with examples, a loss, and what it was differentiated to in one piece."""

    module: Any
    x: Any
    x2: Any
    y: Any
    loss: Any
    J: np.ndarray  # (n, k, p)
    J2: np.ndarray
    outputs: np.ndarray
    hessian: np.ndarray

    @property
    def kernel(self) -> np.ndarray:
        """The kernel as a matrix."""
        rows = self.J.reshape(-1, self.J.shape[-1])
        return rows @ rows.T


def drawn(module, shape, loss, labels=False) -> Case:
    """Draws examples, and differentiates a copy of the module."""
    torch.manual_seed(1)
    module = module.double().eval()
    with torch.no_grad():
        for buffer in module.buffers():  # statistics that are not those of a new layer
            if buffer.is_floating_point():
                buffer.add_(torch.rand_like(buffer))
    x, x2 = torch.randn(5, *shape).double(), torch.randn(2, *shape).double()
    other = copy.deepcopy(module)
    weights = {n: p.detach() for n, p in other.named_parameters() if p.requires_grad}
    sizes = [w.numel() for w in weights.values()]
    flat = torch.cat([w.reshape(-1) for w in weights.values()])

    def outputs(v, x):
        pairs = zip(weights.items(), v.split(sizes), strict=True)
        given = {n: part.reshape(w.shape) for (n, w), part in pairs}
        return torch.func.functional_call(other, given, (x,))

    def mean(v):
        found = outputs(v, x)
        if labels:
            return nn.functional.cross_entropy(found, y)
        return 0.7 * ((found - y) ** 2).sum() / len(x)

    torch.backends.mha.set_fastpath_enabled(False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        values = outputs(flat, x)
        y = torch.randint(2, (5,)) if labels else torch.randn(values.shape).double()
        # Reverse mode twice: our products go forward over reverse.
        jacobian = lambda x: torch.autograd.functional.jacobian(lambda v: outputs(v, x), flat)
        rows = [jacobian(each).reshape(len(each), -1, flat.numel()).numpy() for each in (x, x2)]
        hessian = torch.autograd.functional.hessian(mean, flat).numpy()
    torch.backends.mha.set_fastpath_enabled(True)
    return Case(module, x, x2, y, loss, *rows, values.detach().numpy(), hessian)


def cases() -> dict[str, Case]:
    """All of them."""
    torch.manual_seed(0)
    squared = ld.SquaredLoss(0.7)
    dense = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    return {
        "Sequential": drawn(dense, (3,), squared),
        "convolution": drawn(Residual(), (2, 8, 8), ld.CrossEntropy(), labels=True),
        "encoder": drawn(Encoder(), (3, 4), squared),
        "tied": drawn(Tied(), (3,), squared),
        "positions": drawn(Positions(), (5, 3), squared),
    }


_kept: dict[str, Case] = {}


@pytest.fixture(params=["Sequential", "convolution", "encoder", "tied", "positions"])
def case(request) -> Case:
    """A module with its dense Jacobian and Hessian, differentiated once for all tests."""
    if not _kept:
        _kept.update(cases())
    return _kept[request.param]
