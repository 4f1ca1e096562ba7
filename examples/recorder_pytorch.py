"""Watches a training loop of PyTorch: `ld.Recorder` and probes on a module as it is.

    pip install "learndyn[torch]"
    python examples/recorder_pytorch.py

A small convolutional network learns scikit-learn's digits (`pip install "learndyn[data]"`) by SGD.
The module is left as it was by every probe.
"""

import torch
from torch import nn

import learndyn as ld
from learndyn.problems.readers.files import digits

EXAMPLES, STEPS, BATCH, RATE = 1000, 200, 50, 0.1


def main(path: str | None = None):
    """Trains, prints what the probes saw, and returns the record and the module."""
    torch.manual_seed(0)
    images = digits()
    x = torch.tensor(images.pixels[:EXAMPLES], dtype=torch.float32) / 16
    y = torch.tensor(images.labels[:EXAMPLES])
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
    few, loss_of = (x[:20], y[:20]), ld.CrossEntropy()
    probes = {
        "critical_rate": lambda m: ld.probes.critical_learning_rate(m, few[0], loss=loss_of),
        "sharpness": lambda m: ld.probes.hessian_top(m, *few, loss=loss_of, tolerance=1e-3).values[
            0
        ],
        "features": lambda m: ld.probes.effective_rank(ld.probes.agop(m, x[:200])),
    }
    with ld.Recorder(probes, every=50, path=path) as recorder:
        for step in range(STEPS + 1):
            batch = torch.randint(EXAMPLES, (BATCH,))
            loss = nn.functional.cross_entropy(module(x[batch]), y[batch])
            recorder(step, module, loss=loss)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    record = recorder.record()
    for name in ("loss", *probes):
        values = record[name].isel(time=slice(None, None, 50)).values[0]
        print(f"{name}: {', '.join(f'{v:.3g}' for v in values)}")
    print(f"probes took {record.attrs['probe_share']:.0%} of the time")
    return record, module


if __name__ == "__main__":
    main()
