"""Kernels from inputs and node gradients of layers, against dense Jacobians; no row is formed."""

import numpy as np
import pytest
import torch
from torch import nn

import learndyn as ld
from learndyn.models.pytorch import kernel


class Tokens(nn.Module):
    """An embedding, further layers, and a mean over positions, on either axis."""

    def __init__(self, embedding, *layers, first=False):
        super().__init__()
        self.embedding, self.layers = embedding, nn.Sequential(*layers[:-1])
        self.last, self.first = layers[-1], first

    def forward(self, x):
        h = torch.tanh(self.embedding(x))
        h = self.layers(h.transpose(0, 1) if self.first else h)
        return self.last(h.mean(0 if self.first else 1))


def encoder(first):
    return nn.TransformerEncoderLayer(4, 2, 6, batch_first=not first, dropout=0.0)


class Decoder(nn.Module):
    """Attention to other positions than its own, with one weight for all projections."""

    def __init__(self):
        super().__init__()
        self.here, self.there = nn.Linear(3, 4), nn.Linear(3, 4)
        self.layer = nn.TransformerDecoderLayer(4, 2, 6, batch_first=True, dropout=0.0)

    def forward(self, x):
        return self.layer(self.here(x[:, :2]), torch.tanh(self.there(x))).mean(1)


def tied():
    """The last layer has the weight of the embedding, as language models often do."""
    module = Tokens(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
    module.last.weight = module.embedding.weight
    return module


def by_hand():
    """Functions rather than modules; a layer that is called twice."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.scale = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3))

        def forward(self, x):
            h = torch.relu(nn.functional.linear(x, self.W))
            h = nn.functional.layer_norm(h, (3,), self.scale)
            return nn.functional.linear(h, self.W).mean(1)

    return Own()


def image_net():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.SiLU(inplace=True),
        nn.Conv2d(4, 4, (3, 1), padding=(2, 0), dilation=(2, 1), groups=2, bias=False),
        nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 2, groups=4, padding_mode="reflect", padding=1),
        nn.Flatten(), nn.Linear(100, 2),
    )  # fmt: skip


CASES = {
    "images": (image_net, (5, 2, 8, 8)),
    "one dimension": (lambda: nn.Sequential(
        nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.BatchNorm1d(4), nn.Tanh(),
        nn.Conv1d(4, 4, 2, dilation=2), nn.LayerNorm([4, 3]), nn.Flatten(), nn.Linear(12, 3)),
        (5, 2, 9)),
    "three dimensions": (lambda: nn.Sequential(
        nn.Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1)), nn.GroupNorm(3, 3),
        nn.Tanh(), nn.Flatten(), nn.Linear(96, 2)), (4, 2, 3, 5, 2)),
    "padding by name": (lambda: nn.Sequential(
        nn.Conv2d(2, 3, (3, 4), padding="same", dilation=(1, 2)), nn.Tanh(),
        nn.Conv2d(3, 2, 2, padding="valid", stride=2), nn.Flatten(), nn.Linear(12, 2)),
        (4, 2, 4, 6)),
    "RMS norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.RMSNorm(4), nn.Linear(4, 2)), (5, 6, 3)),
    "one example": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), (1, 6, 3)),
    "merged axes": (lambda: nn.Sequential(nn.Flatten(0, 1), nn.Linear(3, 4), nn.BatchNorm1d(4),
        nn.Unflatten(0, (-1, 5)), nn.Flatten(), nn.Linear(20, 2)), (5, 5, 3)),
    "padding": (lambda: Tokens(
        nn.Embedding(7, 4, padding_idx=2), nn.LayerNorm(4), nn.Linear(4, 3)), (5, 6)),
    "many words": (lambda: Tokens(nn.Embedding(200, 4), nn.Linear(4, 3)), (5, 3)),
    "tied": (tied, (5, 6)),
    "attention": (lambda: Tokens(nn.Embedding(7, 4), encoder(False), nn.Linear(4, 2)), (5, 6)),
    "attention, positions first": (lambda: Tokens(
        nn.Embedding(7, 4), encoder(True), nn.Linear(4, 2), first=True), (5, 5)),
    "attention to others": (Decoder, (4, 5, 3)),
    "by hand": (by_hand, (4, 3, 3)),
}  # fmt: skip


def made(name):
    """The module with inputs, and its Jacobian by PyTorch, (n, k, p)."""
    torch.manual_seed(0)
    make, shape = CASES[name]
    module = make().double().eval()
    for buffer in module.buffers():  # statistics that are not those of a new layer
        if buffer.is_floating_point():
            buffer.add_(torch.rand_like(buffer))
    x = torch.randint(200, shape) if "many" in name else torch.randint(7, shape)
    x = x if len(shape) == 2 else torch.randn(shape).double()
    weights = {n: w.detach() for n, w in module.named_parameters()}

    def outputs(*values):
        given = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(module, given, (x,)).reshape(len(x), -1)

    torch.backends.mha.set_fastpath_enabled(False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        parts = torch.autograd.functional.jacobian(outputs, tuple(weights.values()))
    torch.backends.mha.set_fastpath_enabled(True)
    return module, x, torch.cat([part.flatten(2) for part in parts], 2).numpy()


@pytest.mark.parametrize("name", CASES)
def test_all_layers_are_contracted(name, monkeypatch):
    module, x, J = made(name)
    never = lambda *_: pytest.fail("rows of an example were formed")
    monkeypatch.setattr(kernel, "_plain", never)
    expected = np.einsum("iap,jbp->iajb", J, J)
    found = ld.as_model(module).kernel(x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * abs(expected).max())
    monkeypatch.setattr(kernel, "PROBED", 2)
    small = kernel.kernel
    monkeypatch.setattr("learndyn.models.pytorch.model.kernel", lambda *a: small(*a, block=1))
    cut = ld.as_model(module).kernel(x, x[:2])  # one example after the other, and another set
    np.testing.assert_allclose(cut, expected[:, :, :2], rtol=0, atol=1e-12 * abs(expected).max())


def test_backward_passes_of_several_outputs_at_once(monkeypatch):
    """As on accelerators, in parts of two, and one by one where an operation has no batches."""

    class Alone(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g if g.sum().item() is not None else g  # not under vmap

    x = torch.randn(4, 3, dtype=torch.float64)
    node = x.clone().requires_grad_() * 1.0
    for outputs in (torch.tanh(node @ torch.randn(3, 5).double()), Alone.apply(node) @ torch.ones(
        3, 5).double()):  # fmt: skip
        alone, several = (kernel._pulled(outputs, [node], together=t)[0] for t in (1, 2))
        assert len(alone) == len(several) == 5
        assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(alone, several, strict=True))


def test_blocks_take_an_eighth_of_what_an_accelerator_has_free(monkeypatch):
    class Weight:
        device = torch.device("cuda")
        element_size = staticmethod(lambda: 4)

    monkeypatch.setattr(kernel, "free_memory", lambda weight: 2**36)
    assert kernel.block_of(Weight()) == 2**36 // 32
    assert kernel.block_of(torch.zeros(1)) == kernel.BLOCK
