"""Probes on PyTorch modules, against dense Jacobians and Hessians; modules stay as they were."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import learndyn as ld
from learndyn.models.pytorch import kernel
from learndyn.models.pytorch.evaluation import derivatives
from learndyn.models.pytorch.model import TorchModel
from learndyn.probes.hessian import prepared
from learndyn.probes.tensors import in_tensors

p = ld.probes
EXACT = 1e-11


def close(found, expected, scale=None):
    size = np.abs(expected if scale is None else scale).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT * size)


def given(case):
    return case.module, case.x, case.y


def test_kernels(case):
    for x2, J2 in ((None, case.J), (case.x2, case.J2)):
        expected = np.einsum("iap,jbp->iajb", case.J, J2)
        found = p.ntk(case.module, case.x, x2)
        assert isinstance(found, np.ndarray) and found.dtype == np.float64
        close(found, expected[:, 0, :, 0] if case.J.shape[1] == 1 else expected)


@pytest.mark.parametrize("block", [1, 400])
def test_blocks_do_not_change_it(case, block, monkeypatch):
    monkeypatch.setattr(kernel, "PROBED", 2)
    model = ld.as_model(case.module)
    for size in (block, 10**9):
        with derivatives():
            found = kernel.kernel(model.module, model.weights, case.x, block=size)
        found = found.detach().numpy()
        close(found.reshape(case.kernel.shape), case.kernel)


def test_products_and_gradients(case):
    model, rng = ld.as_model(case.module), np.random.default_rng(1)
    u, v = rng.normal(size=case.J.shape[:2]), rng.normal(size=case.J.shape[2])
    assert model.size == case.J.shape[2]
    close(model.jvp(case.x, v), case.J @ v)
    close(model.vjp(case.x, u), np.einsum("ia,iap->p", u, case.J))
    close(model.outputs(case.x), case.outputs)
    close(model.moved(v).vector() - model.vector(), v)
    close(p.kernel_operator(case.module, case.x) @ u.ravel(), case.kernel @ u.ravel())
    halves = [case.x[:2], case.x[2:]]
    close(p.kernel_operator(case.module, halves) @ u.ravel(), case.kernel @ u.ravel())


def test_hessians(case):
    H, v = case.hessian, np.random.default_rng(0).normal(size=len(case.hessian))
    close(p.hessian_operator(*given(case), loss=case.loss) @ v, H @ v)
    values = np.linalg.eigvalsh(H)[::-1]
    found = p.hessian_top(*given(case), loss=case.loss, k=3, tolerance=0)
    close(found.values, values[:3], values)
    close(H @ found.vectors, found.vectors * found.values, 10 * values)
    trace = p.hessian_trace(*given(case), loss=case.loss, draws=None)
    close(trace.value, np.trace(H), values)
    rate = p.critical_learning_rate(*given(case), loss=case.loss, exact=True, tolerance=0)
    np.testing.assert_allclose(float(rate), 2 / values[0], rtol=EXACT)


def test_hessians_of_single_vectors(case):
    """Forward over reverse mode; reverse mode alone where a gradient has no tangents."""
    model, x, mean = prepared(*given(case), case.loss)
    v = np.random.default_rng(0).normal(size=model.size)
    for function in (mean, in_tensors(model, mean)):
        for forwards in (True, False):
            model._forwards = forwards
            close(model.hessian_product(function, x, v), case.hessian @ v)
            assert model._forwards == (forwards and case.x.ndim != 4)  # silu's has none


def test_a_gradient_that_cannot_be_kept(case, monkeypatch):
    """Where its graph or its derivative fails, every product is computed by itself."""
    v = np.random.default_rng(0).normal(size=len(case.hessian))
    for name in ("_gradient_graph", "_bent"):

        def fails(*arguments):
            raise RuntimeError("out of memory")

        monkeypatch.setattr(TorchModel, name, fails)
        close(p.hessian_operator(*given(case), loss=case.loss) @ v, case.hessian @ v)
        monkeypatch.undo()


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_hessians_with_weight_norm(dim):
    """Against the same weights written by hand: PyTorch's own second derivative is wrong."""
    torch.manual_seed(0)
    layer = nn.Linear(6, 5)
    normed = nn.utils.parametrizations.weight_norm(layer, dim=None if dim < 0 else dim)
    module = nn.Sequential(normed, nn.Tanh(), nn.Linear(5, 3)).double()
    x, y, weights = (
        torch.randn(4, 6).double(),
        torch.randint(3, (4,)),
        dict(module.named_parameters()),
    )
    g, v = (f"0.parametrizations.weight.original{i}" for i in (0, 1))

    def mean(*given):
        own = dict(zip(weights, given, strict=True))
        size = own[v].norm() if dim < 0 else own[v].norm(dim=1 - dim, keepdim=True)
        h = torch.tanh(x @ (own[v] * (own[g] / size)).T + own["0.bias"])
        return nn.functional.cross_entropy(h @ own["2.weight"].T + own["2.bias"], y)

    blocks = torch.func.hessian(mean, tuple(range(len(weights))))(*weights.values())
    sizes = [w.numel() for w in weights.values()]
    rows = [[b.reshape(m, n) for b, n in zip(row, sizes, strict=True)] for row, m in
            zip(blocks, sizes, strict=True)]  # fmt: skip
    expected = torch.cat([torch.cat(row, 1) for row in rows]).detach().numpy()
    operator = p.hessian_operator(module, x, y, loss=nn.CrossEntropyLoss())
    close(operator @ np.eye(len(expected)), expected)


def test_quantities_that_follow_from_the_kernel(case):
    values = np.linalg.eigvalsh(case.kernel)[::-1]
    close(p.ntk_spectrum(case.module, case.x), values)
    close(p.pl_constant(case.module, case.x), values[-1], values)
    assert p.kernel_drift(case.module, case.x, start=case.module) == 0
    if isinstance(case.loss, ld.SquaredLoss):
        expected = 2 / (1.4 * values[0] / 5)
        rate = p.critical_learning_rate(case.module, case.x, loss=case.loss)
        np.testing.assert_allclose(float(rate), expected, rtol=EXACT)
        r = (case.outputs - case.y.numpy()).ravel()
        found = p.split_loss(*given(case), loss=case.loss, s=2)
        top = np.linalg.eigh(case.kernel)[1][:, -2:]
        np.testing.assert_allclose(found.top, 0.7 / 5 * np.sum((top.T @ r) ** 2), rtol=1e-9)
        np.testing.assert_allclose(found.top + found.rest, 0.7 / 5 * r @ r, rtol=EXACT)


def test_moments_of_the_density(case):
    size, norm = len(case.hessian), np.linalg.norm(case.hessian, 2)
    found = p.spectral_density(*given(case), loss=case.loss, draws=1, steps=4, key=3)
    v = (2.0 * np.random.default_rng(3).integers(2, size=size) - 1) / np.sqrt(size)
    H = case.hessian / norm
    moments = [v @ np.linalg.matrix_power(H, j) @ v for j in range(8)]
    close([found.masses[0] @ (found.values[0] / norm) ** j for j in range(8)], moments, np.ones(1))


def test_output_hessians(case):
    """Of the first output of one example, by reverse mode twice."""
    model = ld.as_model(case.module)
    names = [(n, w.shape, w.numel()) for n, w in model.weights.items()]

    def output(v):
        parts = v.split([size for *_, size in names])
        weights = {n: v.reshape(s) for (n, s, _), v in zip(names, parts, strict=True)}
        found = torch.func.functional_call(case.module, weights, (case.x[:1],))
        return found.reshape(-1)[0]

    torch.backends.mha.set_fastpath_enabled(False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        H = torch.autograd.functional.hessian(output, torch.from_numpy(model.vector())).numpy()
    torch.backends.mha.set_fastpath_enabled(True)
    found = p.output_hessian_norm(case.module, case.x[:1]).values[0, 0, 0]
    np.testing.assert_allclose(found, np.linalg.norm(H, 2), rtol=1e-10)


def test_agop(case):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        each = lambda x: case.module(x[None])[0]
        rows = [torch.autograd.functional.jacobian(each, x).numpy() for x in case.x]
    rows = np.stack(rows).reshape(-1, case.x[0].numel())
    close(p.agop(case.module, case.x), rows.T @ rows / 5)
    close(p.agop(case.module, case.x, factor=True), rows / np.sqrt(5))


def everything(module):
    """All that can be seen of a module's state, bit for bit."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    hooks = [
        sorted(n for n, v in vars(part).items() if "hook" in n and v) for part in module.modules()
    ]
    held = [(n, t.detach().numpy().tobytes(), t.requires_grad, str(t.device), id(t), t.data_ptr(),
             None if t.grad is None else t.grad.numpy().tobytes()) for n, t in tensors]  # fmt: skip
    modes = [part.training for part in module.modules()]
    counts = [len(part._forward_hooks) + len(part._backward_hooks) for part in module.modules()]
    settings = torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()
    return held, modes, hooks, counts, settings, torch.random.get_rng_state().numpy().tobytes()


def test_the_module_is_left_as_it_was(case):
    module, x, y = given(case)
    calls = []
    handle = next(module.children()).register_forward_hook(lambda *given: calls.append(1))
    module(x).sum().backward()
    before, copied = everything(module), copy.deepcopy(module.state_dict())
    with torch.no_grad():  # the caller's setting does not matter
        p.ntk(module, x)
    p.hessian_top(module, x, y, loss=case.loss)
    p.agop(module, x)
    p.kernel_operator(module, x) @ np.ones(len(case.kernel))
    p.output_hessian_norm(module, x[:1], radius=0.1)
    assert everything(module) == before
    assert all(torch.equal(copied[n], t) for n, t in module.state_dict().items())
    handle.remove()
    module.zero_grad(set_to_none=True)


def test_float32_and_training_mode_without_effect():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert module.training
    x = torch.randn(6, 3)
    found = p.ntk(module, x.numpy())
    wide = p.ntk(copy.deepcopy(module).double(), x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wide, rtol=1e-5, atol=1e-6)
    said = p.hessian_top(module, x, torch.randn(6, 2)).convention
    assert "Relu" in said and "counts as 0" in said


def test_chains():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2)).eval()
    W, b, V, _ = (t.detach().numpy() for t in module.parameters())
    expected = (V**2).sum(0) - (W**2).sum(1) - b**2
    np.testing.assert_allclose(p.conserved(module)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(p.neural_feature_matrix(module), W.T @ W, rtol=1e-6)
    with pytest.raises(ValueError, match="homogeneous"):
        p.conserved(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    with pytest.raises(ValueError, match="model: got a Bilinear"):
        p.neural_feature_matrix(nn.Sequential(nn.Bilinear(2, 2, 2)))


KINKS = {
    "softplus": (nn.Softplus(), [], "other"),
    "softsign": (nn.Softsign(), [], "other"),
    "elu": (nn.ELU(), [], "other"),
    "elu, alpha 2": (nn.ELU(2.0), ["Elu"], "other"),
    "celu": (nn.CELU(2.0), [], "other"),
    "selu": (nn.SELU(), ["Elu"], "other"),
    "gelu": (nn.GELU(), [], "other"),
    "silu": (nn.SiLU(), [], "other"),
    "tanh": (nn.Tanh(), [], "other"),
    "identity": (nn.Identity(), [], "linear"),
    "relu": (nn.ReLU(), ["Relu"], "relu"),
    "leaky relu": (nn.LeakyReLU(0.2), ["LeakyRelu"], "relu"),
    "relu6": (nn.ReLU6(), ["Hardtanh"], "other"),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_and_kinds_of_activations(name):
    activation, kinks, kind = KINKS[name]
    model = ld.as_model(nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 2)))
    assert model.kinks(np.ones((2, 3))) == kinks
    assert model.dense_layers().kinds == [kind, "linear"]


@pytest.mark.parametrize("function", [torch.Tensor.clamp_min, torch.maximum, nn.PReLU()])
def test_other_kinks(function):
    class Kinked(nn.Linear):
        def forward(self, x):
            h = super().forward(x)
            return function(h) if isinstance(function, nn.Module) else function(h, 0 * h)

    (name,) = ld.as_model(Kinked(3, 2)).kinks(np.ones((2, 3)))
    assert name in ("ClampMin", "Maximum", "PreluKernel")


class Random(nn.Linear):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x))


class Several(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class Index(nn.Linear):
    def forward(self, x):
        return super().forward(x).argmax(1)


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x.detach()).detach()


class Mean(nn.Linear):
    def forward(self, x):
        return super().forward(x).mean(0)


class Centred(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class Normalised(nn.Linear):
    def forward(self, x):
        h = super().forward(x)
        return (h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt()


def two_devices():
    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    return module.append(nn.Linear(2, 2, device="meta"))


X, DRAWN = np.ones((4, 3)), np.random.default_rng(0).normal(size=(4, 3))
TOKENS = nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Linear(1, 5))
REFUSED = {
    "batch norm": lambda: p.ntk(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), X),
    "dropout": lambda: p.agop(nn.Sequential(nn.Linear(3, 2), nn.Dropout()), X),
    "dropout in a layer": lambda: p.ntk(nn.TransformerEncoderLayer(4, 2, 4), np.ones((2, 3, 4))),
    "chance": lambda: p.ntk(Random(3, 2), X),
    "two devices": lambda: p.ntk(two_devices(), X),
    "no data": lambda: p.ntk(nn.Linear(3, 2), torch.ones(4, 3, device="meta")),
    "two precisions": lambda: p.ntk(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2).double()), X),
    "outputs of unequal shape": lambda: p.ntk(Several(3, 2), X),
    "no examples in outputs": lambda: p.ntk(Mean(3, 2), X),
    "an index": lambda: p.ntk(Index(3, 2), X),
    "detached": lambda: p.ntk(Detached(3, 2), X),
    "detached, in a product": lambda: p.hessian_top(Detached(3, 2), X, X[:, :2]),
    "detached inputs": lambda: p.agop(Detached(3, 2), X),
    "no weights": lambda: p.ntk(nn.Linear(3, 2).requires_grad_(False), X),
    "NaN": lambda: p.ntk(nn.Linear(3, 2).requires_grad_(), X * np.nan),
    "centred": lambda: p.ntk(Centred(3, 2), X),
    "batch norm by hand": lambda: p.hessian_top(Normalised(3, 2), DRAWN, X[:, :2]),
    "a rate of batch norm": lambda: p.critical_learning_rate(Normalised(3, 2), DRAWN),
    "a label": lambda: p.hessian_top(nn.Linear(3, 2), X, torch.tensor([0, 1, -100, 1])),
    "labels from 1 on": lambda: p.hessian_top(nn.Linear(3, 2), X, torch.tensor([1, 2, 2, 1])),
    "integers to be fitted": lambda: p.hessian_top(nn.Linear(3, 1), X, torch.tensor([3, 7, 1, 0])),
    "targets of another width": lambda: p.hessian_top(nn.Linear(3, 2), X, torch.ones(4, 3)),
    "tokens": lambda: p.summary(TOKENS, X, torch.zeros(4, 2, dtype=int), loss=ld.CrossEntropy()),
    "nodes": lambda: p.update_cosine(nn.Linear(3, 2), X, X[:, :2]),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_in_one_line(call):
    with pytest.raises(ValueError, match=r"\A[A-Za-z]+: [^\n]*allowed[^\n]*\Z"):
        call()


def test_ignored_labels_are_those_of_pytorch():
    """The mean loss of PyTorch is over the other examples, and so is its Hessian."""
    module, y = nn.Linear(3, 2).double(), torch.tensor([0, -100, 1, 1])
    weights = [w.detach() for w in module.parameters()]

    def mean(weight, bias):
        outputs = nn.functional.linear(torch.from_numpy(DRAWN), weight, bias)
        return nn.functional.cross_entropy(outputs, y, ignore_index=-100)

    parts = torch.autograd.functional.hessian(mean, tuple(weights))
    rows = [torch.cat([part.reshape(w.numel(), -1) for part in row], 1)
            for row, w in zip(parts, weights, strict=True)]  # fmt: skip
    expected = np.linalg.eigvalsh(torch.cat(rows).numpy())[-1]
    loss = ld.CrossEntropy(ignore_index=-100)
    found = p.hessian_top(module, DRAWN, y, loss=loss).values[0]
    assert found == pytest.approx(expected, rel=1e-10)
    rate = p.critical_learning_rate(module, DRAWN, y, loss=loss)  # linear: nothing else in it
    assert float(rate) == pytest.approx(2 / expected, rel=1e-9)


def test_no_rule_trains_a_module():
    module = torch.nn.Linear(2, 1)
    with pytest.raises(ValueError, match="model: got a TorchModel; allowed is a JAX network"):
        ld.probes.linearity(module, np.eye(2), np.ones(2), ld.GradientDescent(0.1), 1)
