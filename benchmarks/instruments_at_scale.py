"""What probes cost at real sizes, beside PyHessian and curvlinops, in units of one gradient.

A ResNet-18 with batch norm in eval mode and a transformer encoder of 10 M weights on a GPU, and
narrower ones on a CPU. All ratios are taken in one process, in turns, each the best of several;
errors are relative to the eigenvalue at tolerance 1e-6. `make bench-torch`, or `python
benchmarks/instruments_at_scale.py [cpu|cuda]`.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from scipy.sparse.linalg import eigsh
from torch import nn

import learndyn as ld

CLASSES, TOLERANCE, TURNS = 10, 1e-3, 2


class Size(NamedTuple):
    """Sizes of both networks and of the batch."""

    width: int  # of the first stage of the ResNet
    side: int  # of its images
    model: int  # of the encoder
    layers: int
    length: int
    examples: int


SIZES = {"cuda": Size(64, 32, 320, 8, 64, 64), "cpu": Size(4, 8, 32, 1, 8, 8)}


class Block(nn.Module):
    """Two convolutions with batch norm, and a skip."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        plain = stride == 1 and inputs == outputs
        narrow = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.skip = nn.Identity() if plain else nn.Sequential(narrow, nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(h)) + self.skip(x))


def resnet(size: Size) -> Any:
    """ResNet-18 as for CIFAR, (3, side, side) → classes."""
    w = size.width
    stages = [(w, w, 1), (w, 2 * w, 2), (2 * w, 4 * w, 2), (4 * w, 8 * w, 2)]
    blocks = [Block(*at) for a, b, s in stages for at in ((a, b, s), (b, b, 1))]
    first = nn.Conv2d(3, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU()
    last = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, CLASSES)
    return nn.Sequential(*first, *blocks, *last)


class Encoder(nn.Module):
    """A transformer encoder, the mean over positions, and a dense layer."""

    def __init__(self, size: Size):
        super().__init__()
        d = size.model
        layer = nn.TransformerEncoderLayer(d, d // 16, 4 * d, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.last = nn.Linear(d, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.last(self.layers(x).mean(1))


def seconds(call: Callable[[], Any], device: str) -> float:
    clock = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - clock


def best(calls: dict[str, Callable[[], Any]], device: str) -> dict[str, float]:
    """Seconds of each call, in turns, so that what else the machine does falls on all."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):  # the first is to warm up
        for name, call in calls.items():
            spent = seconds(call, device)
            took[name] += [spent] if turn else []
    return {name: min(each) for name, each in took.items()}


def peers(module: Any, x: Any, y: Any, found: dict[str, float]) -> dict[str, Callable[[], Any]]:
    """The largest eigenvalue by other libraries, where installed, at the same tolerance."""
    calls, loss = {}, nn.CrossEntropyLoss()

    def of_pyhessian() -> None:
        module.zero_grad()
        whole = pyhessian.hessian(module, loss, data=(x, y), cuda=x.is_cuda)
        found["PyHessian"] = whole.eigenvalues(maxIter=300, tol=TOLERANCE)[0][0]

    def of_curvlinops() -> None:
        operator = curvlinops.HessianLinearOperator(
            module, loss, list(module.parameters()), [(x, y)], check_deterministic=False
        )
        values = eigsh(operator.to_scipy(), 1, which="LA", tol=TOLERANCE)[0]
        found["curvlinops"] = float(values[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if importlib.util.find_spec("pyhessian"):
            import pyhessian

            calls["PyHessian"] = of_pyhessian
        if importlib.util.find_spec("curvlinops"):
            import curvlinops

            calls["curvlinops"] = of_curvlinops
    return calls


def compare(name: str, module: Any, x: Any, device: str) -> None:
    module, x = module.to(device).eval(), x.to(device)
    y, loss, found = torch.randint(CLASSES, (len(x),), device=device), ld.CrossEntropy(), {}

    def gradient() -> None:
        module.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()

    def ours() -> None:
        found["hessian_top"] = ld.hessian_top(module, x, y, loss=loss, tolerance=TOLERANCE).values[
            0
        ]

    gradient()
    update = {n: w.grad.clone() for n, w in module.named_parameters()}
    calls = {
        "gradient": gradient,
        "hessian_top": ours,
        **peers(module, x, y, found),
        "hessian_top(k=5)": lambda: ld.hessian_top(module, x, y, loss=loss, k=5),
        "critical_learning_rate(exact=True)": lambda: ld.critical_learning_rate(
            module, x, y, loss=loss, exact=True
        ),
        "critical_rate_along": lambda: ld.probes.critical_rate_along(
            module, x, y, loss=loss, update=update
        ),
        "ntk": lambda: ld.ntk(module, x),
        "agop(factor=True)": lambda: ld.agop(module, x.float(), factor=True),
    }
    took = best(calls, device)
    exact = ld.hessian_top(module, x, y, loss=loss, tolerance=1e-6).values[0]
    weights = sum(w.numel() for w in module.parameters())
    print(
        f"\n{name}: {weights} weights, {len(x)} examples, gradient {1e3 * took['gradient']:.3g} ms"
    )
    for call in list(calls)[1:]:
        error = f", λ_max {abs(found[call] / exact - 1):.1e} off" if call in found else ""
        print(f"  {call}: {took[call] / took['gradient']:.3g} gradients{error}")


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    size = SIZES[device]
    torch.manual_seed(0)
    tf32 = "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
    print(f"{device}, float32, TF32 {tf32}, {torch.get_num_threads()} threads; best of {TURNS}")
    images = torch.randn(size.examples, 3, size.side, size.side)
    compare("ResNet-18", resnet(size), images, device)
    compare("encoder", Encoder(size), torch.randn(size.examples, size.length, size.model), device)


if __name__ == "__main__":
    main()
