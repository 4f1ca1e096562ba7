"""PyTorch's products in full precision, without changing the caller's settings."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

DEVICES = ("cpu", "cuda", "mps", "xpu")


@contextlib.contextmanager
def full_products() -> Iterator[None]:
    """Products of tensors in their own precision: without autocast, on GPUs without TF32."""
    torch: Any = importlib.import_module("torch")
    with contextlib.ExitStack() as stack:
        for device in filter(torch.is_autocast_enabled, DEVICES):
            stack.enter_context(torch.autocast(device, enabled=False))
        if torch.cuda.is_available():
            stack.enter_context(_without_tf32(torch.backends))
        yield


@contextlib.contextmanager
def _without_tf32(backends: Any) -> Iterator[None]:
    """On GPUs convolutions have ten bits by default, and matrix products where it is asked for."""
    operations = (backends.cuda.matmul, backends.cudnn)
    flag, full = "allow_tf32", False
    if hasattr(backends.cudnn, "conv"):  # PyTorch 2.9 has a setting for each operation
        operations = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
        flag, full = "fp32_precision", "ieee"
    before = [getattr(operation, flag) for operation in operations]
    try:
        for operation in operations:
            setattr(operation, flag, full)
        yield
    finally:
        for operation, value in zip(operations, before, strict=True):
            setattr(operation, flag, value)
