"""What probes cost at real sizes, beside PyHessian and curvlinops, in units of one gradient.

A ResNet-18 with batch norm in eval mode, a transformer encoder of 10 M weights and, in JAX, a
relu network 3072-1024×4-1; narrower ones on a CPU. A call is repeated, with gradients in between,
and the best time of each counts; a line is printed as soon as it is known. A call that takes longer
than its limit is ended, and its line says so. Errors of λ_max are relative to a run at tolerance
1e-5. `make bench-torch`, or `python benchmarks/instruments_at_scale.py [cpu|cuda] [seconds]`, the
limit of a call.

What is asked on an H200, in float32 without TF32, for 10 outputs: `ntk` at most 60 gradients,
λ_max to 1e-3 at most 60 and before both others, `critical_rate_along` at most 10 forward passes.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # both libraries use one GPU

import contextlib
import importlib.util
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import nn

import learndyn as ld
from learndyn.probes.hessian import prepared, product_of, start_of

CLASSES, TOLERANCE, TURNS = 10, 1e-3, 3
Call = Callable[[], Any]


class Size(NamedTuple):
    """Sizes of the networks and of the batch."""

    width: int  # of the first stage of the ResNet
    side: int  # of its images
    model: int  # of the encoder
    layers: int
    length: int
    hidden: int  # of the dense network
    inputs: int
    examples: int


SIZES = {
    "cuda": Size(64, 32, 320, 8, 64, 1024, 3072, 64),
    "cpu": Size(4, 8, 32, 1, 8, 64, 192, 8),
}


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


class TooLong(Exception):
    """A call has taken longer than its limit."""


@contextlib.contextmanager
def limited(limit: float) -> Iterator[None]:
    """Ends the block after so many seconds, when its next Python operation begins."""

    def stop(*given: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Bench:
    """Times of calls in units of one of them, the gradient.

    Args:
        gradient: a call that waits for its result.
        wait: waits for what a device still does.
        limit: seconds that a call may take, with its repetitions.
    """

    def __init__(self, gradient: Call, wait: Call, limit: float):
        self.gradient, self.wait, self.limit = gradient, wait, limit
        for _ in range(3):  # to warm up
            gradient()
        self.unit = min(self.seconds(gradient) for _ in range(10))

    def seconds(self, call: Call) -> float:
        self.wait()
        clock = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - clock

    def line(self, name: str, call: Call, note: Callable[[Any], str] = lambda found: "") -> Any:
        """Prints what a call costs, and what a function says of its result, which is returned."""
        found, best, unit = None, math.inf, math.inf
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with limited(self.limit):
                    found = call()  # compiles, and warms up
                    for _ in range(TURNS):
                        unit = min(unit, *(self.seconds(self.gradient) for _ in range(3)))
                        best = min(best, self.seconds(call))
            except TooLong:
                if best == math.inf:
                    ended = self.limit / self.unit
                    print(f"  {name}: ended after {ended:.3g} gradients", flush=True)
                    return found
            except Exception as error:  # the other lines are worth having
                why = str(error).partition("\n")[0]
                print(f"  {name}: failed, {type(error).__name__}: {why}", flush=True)
                return None
        cost = f"{best / unit:.3g} gradients ({1e3 * best:.3g} ms)"
        print(f"  {name}: {cost}{note(found)}", flush=True)
        return found


def peers(module: Any, x: Any, y: Any) -> dict[str, Call]:
    """The largest eigenvalue by other libraries, where installed, at the same tolerance."""
    calls, loss = {}, nn.CrossEntropyLoss()

    def of_pyhessian() -> float:
        module.zero_grad()
        whole = pyhessian.hessian(module, loss, data=(x, y), cuda=x.is_cuda)
        return whole.eigenvalues(maxIter=300, tol=TOLERANCE)[0][0]

    def of_curvlinops() -> float:
        operator = curvlinops.HessianLinearOperator(
            module, loss, list(module.parameters()), [(x, y)], check_deterministic=False
        )
        values = eigsh(operator.to_scipy(), 1, which="LA", tol=TOLERANCE)[0]
        return float(values[0])

    if importlib.util.find_spec("pyhessian"):
        import pyhessian

        calls["PyHessian"] = of_pyhessian
    if importlib.util.find_spec("curvlinops"):
        import curvlinops

        calls["curvlinops"] = of_curvlinops
    return calls


def lines(bench: Bench, model: Any, x: Any, y: Any, update: Any, others: dict[str, Call]) -> None:
    """The lines of one network; x and y are on its device."""
    loss = ld.CrossEntropy() if np.issubdtype(np.asarray(_host(y)).dtype, np.integer) else None
    given = {"loss": loss}
    top = lambda **options: ld.hessian_top(model, x, y, **given, **options)
    exact = math.nan  # if even that takes too long
    with contextlib.suppress(TooLong), limited(2 * bench.limit):
        exact = float(top(tolerance=1e-5).values[0])
    off = lambda value: f", λ_max {abs(float(value) / exact - 1):.1e} off"
    bench.line("forward pass", lambda: ld.as_model(model).outputs(x))
    own, inputs, mean = prepared(model, x, y, loss)
    product, start = product_of(own, inputs, mean), start_of(own)
    bench.line("Hessian product", lambda: product(start))
    bench.line("hessian_top", lambda: top(tolerance=TOLERANCE).values[0], off)
    for name, call in others.items():
        bench.line(name, call, off)
    bench.line("hessian_top(k=5)", lambda: top(k=5))
    bench.line(
        "critical_learning_rate(exact=True)",
        lambda: ld.critical_learning_rate(model, x, y, **given, exact=True),
        lambda rate: off(2 / float(rate)),
    )
    bench.line(
        "critical_rate_along",
        lambda: ld.probes.critical_rate_along(model, x, y, **given, update=update),
        lambda rate: f", {rate.passes} forward passes",
    )
    bench.line("ntk", lambda: ld.ntk(model, x))
    bench.line("agop(factor=True)", lambda: ld.agop(model, x, factor=True))


def _host(y: Any) -> Any:
    return y.cpu() if hasattr(y, "cpu") else y


def in_pytorch(name: str, module: Any, x: Any, device: str, limit: float) -> None:
    module, x = module.to(device).eval(), x.to(device)
    y = torch.randint(CLASSES, (len(x),), device=device)

    def gradient() -> None:
        module.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()

    bench = Bench(gradient, torch.cuda.synchronize if device == "cuda" else lambda: None, limit)
    weights = sum(w.numel() for w in module.parameters())
    title(name, weights, len(x), bench)
    update = {n: w.grad.clone() for n, w in module.named_parameters()}
    lines(bench, module, x, y, update, peers(module, x, y))


def in_jax(size: Size, limit: float) -> None:
    rng, network = np.random.default_rng(0), ld.MLP([size.inputs, *[size.hidden] * 4, 1], "relu")
    x = rng.standard_normal((2 * size.examples, size.inputs)).astype(np.float32)
    y = rng.choice([-1.0, 1.0], len(x)).astype(np.float32)
    weights = jax.tree.map(np.float32, network.sample(rng, (size.inputs,)))
    model = ld.Model(network, weights)
    mean = lambda w, x, y: jnp.mean((network(w, x).reshape(-1) - y) ** 2) / 2
    slope, held = jax.jit(jax.grad(mean)), jax.device_put((weights, x, y))
    gradient = lambda: jax.block_until_ready(slope(*held))
    bench = Bench(gradient, lambda: None, limit)
    title("dense, in JAX", model.size, len(x), bench)
    lines(bench, model, x, y, jax.tree.map(np.asarray, gradient()), {})


def title(name: str, weights: int, examples: int, bench: Bench) -> None:
    about = f"{weights} weights, {examples} examples, gradient {1e3 * bench.unit:.3g} ms"
    print(f"\n{name}: {about}", flush=True)


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
    limit, size = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0, SIZES[device]
    torch.manual_seed(0)
    tf32 = "on" if torch.backends.cuda.matmul.allow_tf32 else "off"
    print(f"{device}, float32, TF32 {tf32}, {torch.get_num_threads()} threads; best of {TURNS}")
    torch.backends.cudnn.allow_tf32 = False
    images = torch.randn(size.examples, 3, size.side, size.side)
    sequences = torch.randn(size.examples, size.length, size.model)
    # Other attention kernels have no second derivative.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        in_pytorch("ResNet-18", resnet(size), images, device, limit)
        in_pytorch("encoder", Encoder(size), sequences, device, limit)
    in_jax(size, limit)


if __name__ == "__main__":
    main()
