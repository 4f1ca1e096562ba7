"""What probes cost on a PyTorch module, in units of its own gradients: `make bench-torch`.

A fully connected network 3072-1024×4-1 in float32. All ratios are taken in one process, in turns,
each the best of several; PyTorch's threads are as given by OMP_NUM_THREADS.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import nn

import learndyn as ld

EXAMPLES, FEW, MANY, TURNS = 128, 16, 2000, 5


def network(inputs: int, width: int, depth: int) -> Any:
    torch.manual_seed(0)
    widths = [inputs, *[width] * depth]
    pairs = itertools.pairwise(widths)
    hidden = [part for a, b in pairs for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 1))


def best(calls: dict[str, Callable[[], Any]], turns: int = TURNS) -> dict[str, float]:
    """Seconds of each call, in turns, so that what else the machine does falls on all."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):  # the first is to warm up
        for name, call in calls.items():
            clock = time.perf_counter()
            call()
            took[name].append(np.inf if turn == 0 else time.perf_counter() - clock)
    return {name: min(each) for name, each in took.items()}


def gradient(module: Any, x: Any, y: Any) -> None:
    module.zero_grad()
    (((module(x)[:, 0] - y) ** 2).mean() / 2).backward()


def recipe(module: Any, x: Any) -> Any:
    """The kernel as torch.func's tutorial computes it: by Jacobians of single examples."""
    weights = {n: w.detach() for n, w in module.named_parameters()}
    one = lambda weights, x: torch.func.functional_call(module, weights, (x[None],))[0]
    rows = torch.func.vmap(torch.func.jacrev(one), (None, 0))(weights, x)
    flat = [row.flatten(2) for row in rows.values()]
    return sum(torch.einsum("naf,mbf->nmab", row, row) for row in flat)


def hessians() -> dict[str, Callable[[], Any]]:
    """The largest eigenvalue at one tolerance, by us and by curvlinops."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import curvlinops
    module, x, y = network(100, 200, 2), torch.randn(EXAMPLES, 100), torch.randn(EXAMPLES, 1)
    loss, data = ld.SquaredLoss(1.0), [(x, y)]

    def theirs() -> Any:
        operator = curvlinops.HessianLinearOperator(
            module, nn.MSELoss(), list(module.parameters()), data, check_deterministic=False
        )
        return eigsh(operator.to_scipy(), 1, which="LA", tol=1e-3)

    return {
        "hessian_top": lambda: ld.probes.hessian_top(module, x, y, loss=loss, tolerance=1e-3),
        "curvlinops": theirs,
    }


def main() -> None:
    module = network(3072, 1024, 4)
    x, y, many = torch.randn(EXAMPLES, 3072), torch.randn(EXAMPLES), torch.randn(MANY, 3072)
    target = torch.randn(MANY)
    print(f"{torch.get_num_threads()} threads of PyTorch; ratios, best of {TURNS}")
    few = x[:FEW]
    took = best(
        {"ours": lambda: ld.probes.ntk(module, few), "recipe": lambda: recipe(module, few)}, 2
    )
    print(f"torch.func's kernel / ours, n = {FEW}: {took['recipe'] / took['ours']:.3g}")
    took = best({"ours": lambda: ld.probes.ntk(module, x), "one": lambda: gradient(module, x, y)})
    print(f"kernel / gradient, n = {EXAMPLES}: {took['ours'] / took['one']:.3g}")
    agop = lambda: ld.probes.agop(module, many)
    took = best({"ours": agop, "one": lambda: gradient(module, many, target)}, 2)
    print(f"AGOP / gradient, n = {MANY}: {took['ours'] / took['one']:.3g}")
    took = best(hessians(), 3)
    print(f"hessian_top / curvlinops: {took['hessian_top'] / took['curvlinops']:.3g}")


if __name__ == "__main__":
    main()
