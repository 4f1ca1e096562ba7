"""Inputs, outputs and precisions as other libraries have them, against dense autograd."""

import collections
import copy
import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import learndyn as ld
from learndyn.models.pytorch.evaluation import say_wide

p = ld.probes
N, T, V, D = 5, 4, 7, 3
ONE_LINE = r"\A[A-Za-z0-9]+(\[[^\n]*\])*: [^\n]*allowed[^\n]*\Z"
torch.manual_seed(0)
TOKENS = torch.randint(V, (N, T))
MASK = torch.arange(T) < torch.tensor([4, 2, 3, 1, 4])[:, None]
LABELS = torch.randint(2, (N,))
LOSS = ld.CrossEntropy()


@dataclasses.dataclass
class Returned:
    """What a model of tokens returns, by attribute."""

    logits: Any
    hidden: Any


class Keyed(collections.OrderedDict):
    """What a model returns, by key, and by attribute as well."""

    __getattr__ = collections.OrderedDict.__getitem__


class Reader(nn.Module):
    """Tokens and a mask by name; the kind of outputs is chosen."""

    def __init__(self, give: Any = lambda y, h: Returned(y, h)):
        super().__init__()
        self.embedding, self.mix, self.last = nn.Embedding(V, D), nn.Linear(D, D), nn.Linear(D, 2)
        self.give = give

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        h = torch.tanh(self.mix(self.embedding(input_ids)))
        mask = 1.0 if attention_mask is None else attention_mask.to(h.dtype)[..., None]
        h = (h * mask).sum(1)
        return self.give(self.last(h), h)


class Two(nn.Module):
    """Two arrays, as two arguments or in one container."""

    def __init__(self, packed: Any = None):
        super().__init__()
        self.one, self.other, self.packed = nn.Linear(D, 2), nn.Linear(T, 2), packed

    def both(self, a, b):
        return torch.tanh(self.one(a)) * self.other(b)


class Arguments(Two):
    def forward(self, a, b):
        return self.both(a, b)


class OneDict(Two):
    def forward(self, batch):
        return self.both(batch["a"], batch["b"])


class OneTuple(Two):
    def forward(self, pair):
        return self.both(*pair)


A, B = torch.randn(N, D).double(), torch.randn(N, T).double()
BATCH = {"input_ids": TOKENS, "attention_mask": MASK}
tensor_only = lambda y, h: y
CASES = {  # module, x as probes take it, the call by hand, options of `as_model`
    "logits": (Reader(), BATCH, lambda m: m(**BATCH).logits, {}),
    "tokens alone": (Reader(), TOKENS, lambda m: m(TOKENS).logits, {}),
    "logits by key": (Reader(lambda y, h: {"logits": y}), BATCH,
                      lambda m: m(**BATCH)["logits"], {}),
    "both": (Reader(lambda y, h: Keyed(logits=y)), BATCH, lambda m: m(**BATCH)["logits"], {}),
    "a key": (Reader(lambda y, h: {"h": h}), BATCH, lambda m: m(**BATCH)["h"], {"output": "h"}),
    "an attribute": (Reader(), BATCH, lambda m: m(**BATCH).hidden, {"output": "hidden"}),
    "an index": (Reader(lambda y, h: (h, y)), BATCH, lambda m: m(**BATCH)[1], {"output": 1}),
    "a function": (Reader(), BATCH, lambda m: m(**BATCH).hidden[:, :2],
                   {"output": lambda returned: returned.hidden[:, :2]}),
    "by position": (Arguments(), (A, B), lambda m: m(A, B), {}),
    "by name": (Arguments(), {"b": B, "a": A}, lambda m: m(A, B), {}),
    "one dict": (OneDict(), {"a": A, "b": B}, lambda m: m({"a": A, "b": B}), {}),
    "one tuple": (OneTuple(), (A, B), lambda m: m((A, B)), {}),
}  # fmt: skip


def dense(module: Any, outputs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Jacobian, and the Hessian of the mean cross-entropy, by autograd from the module itself."""
    weights = [w for w in module.parameters() if w.requires_grad]
    pull = lambda value, create=False: torch.cat([
        (torch.zeros_like(w) if g is None else g).reshape(-1)
        for g, w in zip(torch.autograd.grad(
            value, weights, retain_graph=True, create_graph=create, allow_unused=True),
            weights, strict=True)
    ])  # fmt: skip
    found = outputs(module)
    J = torch.stack([pull(each) for each in found.reshape(-1)])
    gradient = pull(nn.functional.cross_entropy(found, LABELS), create=True)
    H = torch.stack([pull(each) if each.requires_grad else 0 * gradient for each in gradient])
    return J.numpy(), H.detach().numpy()


def same(found: Any, expected: Any, tolerance: float = 1e-11) -> None:
    atol = tolerance * max(1, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_inputs_and_outputs_of_many_kinds(name):
    module, x, by_hand, options = CASES[name]
    module = module.double()
    before = copy.deepcopy(module.state_dict())
    J, H = dense(module, by_hand)
    model = ld.as_model(module, **options)
    same(p.ntk(model, x).reshape(len(J), len(J)), J @ J.T)
    first = x[:2] if torch.is_tensor(x) else type(x)(
        {k: v[:2] for k, v in x.items()} if isinstance(x, dict) else (v[:2] for v in x)
    )  # fmt: skip
    same(p.ntk(model, first, x).reshape(-1, len(J)), (J @ J.T)[: 2 * len(J) // N])
    operator = p.hessian_operator(model, x, LABELS, loss=LOSS)
    same(np.stack([operator @ v for v in np.eye(model.size)]), H)
    rate = float(p.critical_learning_rate(model, x, LABELS, loss=LOSS, exact=True, tolerance=0))
    assert rate == pytest.approx(2 / np.linalg.eigvalsh(H)[-1], rel=1e-9)
    same(p.kernel_operator(model, x) @ np.ones(len(J)), J @ (J.T @ np.ones(len(J))))
    assert all(torch.equal(w, module.state_dict()[n]) for n, w in before.items())
    assert all(w.grad is None for w in module.parameters())


def test_weights_without_a_layer_and_several_inputs():
    """Rows that are formed, example by example, from a dict."""

    class Scaled(Reader):
        def __init__(self):
            super().__init__(tensor_only)
            self.scale = nn.Parameter(torch.randn(2))

        def forward(self, input_ids, attention_mask):
            return self.scale * super().forward(input_ids, attention_mask)

    module = Scaled().double()
    J, _ = dense(module, lambda m: m(**BATCH))
    same(p.ntk(module, BATCH).reshape(len(J), len(J)), J @ J.T)


BAD = {
    "lengths": lambda: p.ntk(Reader(), {"input_ids": TOKENS, "attention_mask": MASK[:2]}),
    "empty": lambda: p.ntk(Reader(), {}),
    "no array": lambda: p.ntk(Reader(), {"input_ids": TOKENS, "attention_mask": "mask"}),
    "no examples": lambda: p.ntk(Reader(), {"input_ids": TOKENS, "attention_mask": True}),
    "a name": lambda: p.ntk(Reader(), {"tokens": TOKENS}),
    "a key": lambda: p.ntk(ld.as_model(Reader(), output="scores"), BATCH),
    "an index": lambda: p.ntk(ld.as_model(Reader(lambda y, h: (y,)), output=1), BATCH),
    "an output that is none": lambda: p.ntk(ld.as_model(nn.Linear(D, 2), output="y"), A.float()),
    "two outputs": lambda: p.ntk(Reader(lambda y, h: (y, h)), BATCH),
    "agop of tokens": lambda: p.agop(Reader(), TOKENS),
    "agop of several": lambda: p.agop(Arguments(), (A, B)),
    "shapes of two sets": lambda: p.ntk(Reader(), BATCH, {"input_ids": TOKENS[:, :2]}),
    "an output of a model": lambda: ld.as_model(ld.as_model(Reader()), output="logits"),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_inputs_and_outputs_are_one_line(call):
    with pytest.raises(ValueError, match=ONE_LINE):
        call()


class Narrow(nn.Module):
    """A float32 module that computes in half precision."""

    def __init__(self, inner: Any, cast: Any):
        super().__init__()
        self.inner, self.cast = inner, cast

    def forward(self, x):
        if self.cast is not None:
            with torch.autocast("cpu", dtype=self.cast):
                return self.inner(x)
        return self.inner(x.half().to(torch.bfloat16)).to(dtype=torch.float16)


def small() -> Any:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(D, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 2))
    module[1].requires_grad_(False)  # what is no weight is in half precision too
    return module


HALVES = {  # a module, and the float32 module whose function it is
    "bf16 weights": lambda: (small().bfloat16(), small().bfloat16().float()),
    "f16 weights": lambda: (small().half(), small().half().float()),
    "some weights": lambda: (small()[:3].append(small()[3].bfloat16()),
                             small()[:3].append(small()[3].bfloat16().float())),
    "bf16 autocast": lambda: (Narrow(small(), torch.bfloat16), small()),
    "f16 autocast": lambda: (Narrow(small(), torch.float16), small()),
    "casts": lambda: (Narrow(small(), None), small()),
}  # fmt: skip


def kept(module: Any) -> list[Any]:
    """Every tensor's name, identity, precision and bytes, gradients, and the mode."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [(n, id(t), t.dtype, t.detach().contiguous().view(torch.uint8).numpy().tobytes(),
             id(t.grad), t.requires_grad) for n, t in tensors] + [module.training]  # fmt: skip


@pytest.mark.parametrize("kind", HALVES)
def test_half_precision_is_computed_in_float32_and_says_so(kind):
    say_wide.cache_clear()
    module, plain = HALVES[kind]()
    before, x = kept(module), A.float()
    with pytest.warns(UserWarning, match="half precision; probes compute them in float32"):
        found = p.ntk(module, x)
    np.testing.assert_array_equal(found, p.ntk(plain, x))  # and no second warning
    top, expected = (p.hessian_top(m, x, LABELS, loss=LOSS, tolerance=0) for m in (module, plain))
    np.testing.assert_array_equal(top.values, expected.values)
    np.testing.assert_array_equal(p.agop(module, x.bfloat16().float()),
                                  p.agop(plain, x.bfloat16()))  # fmt: skip
    assert kept(module) == before and found.dtype == np.float32


@pytest.fixture
def alone():
    """A process group of one, without a network."""
    import torch.distributed as dist

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        yield nn.parallel.DistributedDataParallel
        dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["compiled", "DataParallel", "DDP", "compiled DDP"])
def test_wrapped_modules_are_unwrapped(kind, alone):
    module = small().double()
    expected = p.ntk(module, A), p.hessian_top(module, A, LABELS, loss=LOSS, tolerance=0).values
    whole = alone(module) if "DDP" in kind else module
    whole = nn.DataParallel(module) if kind == "DataParallel" else whole
    whole = torch.compile(whole, backend="eager") if "compiled" in kind else whole
    before = kept(whole)
    np.testing.assert_array_equal(p.ntk(whole, A), expected[0])
    found = p.hessian_top(whole, A, LABELS, loss=LOSS, tolerance=0)
    np.testing.assert_array_equal(found.values, expected[1])
    assert list(ld.as_model(whole).weights) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert kept(whole) == before
    optimiser = torch.optim.SGD(whole.parameters(), lr=0.1)  # of the whole: the same parameters
    rate = p.critical_learning_rate(whole, A, LABELS, loss=LOSS, optimiser=optimiser)
    assert 0 < float(rate) < np.inf


def of_other_weights() -> Any:
    module, other = small(), nn.Linear(D, 2)
    optimiser = torch.optim.Adam(other.parameters())
    other(A.float()).sum().backward()
    optimiser.step()
    return lambda: p.critical_learning_rate(
        module, A.float(), LABELS, loss=LOSS, optimiser=optimiser
    )


def with_nan(how: Any) -> Any:
    module = small()
    with torch.no_grad():
        module[0].weight[0, 0] = np.nan
    return lambda: how(module, A.float(), LABELS, loss=LOSS)


def too_large() -> Any:
    module = nn.Linear(1, 1)
    module.weight = nn.Parameter(torch.zeros(1, 1).expand(10**6, 10**7))  # takes no memory itself
    return lambda: p.hessian_top(module, torch.zeros(2, 10**7), LABELS)


UNUSABLE = {
    "a state of another model": of_other_weights,
    "NaN in weights": lambda: with_nan(p.hessian_top),
    "NaN in weights, by the kernel": lambda: with_nan(p.critical_learning_rate),
    "NaN in weights, trace": lambda: with_nan(p.hessian_trace),
    "too large": too_large,
}


@pytest.mark.parametrize("made", UNUSABLE.values(), ids=UNUSABLE)
def test_models_that_cannot_be_used_are_one_line(made):
    call = made()
    with pytest.raises(ValueError, match=ONE_LINE):
        call()


def test_a_basis_that_does_not_fit(monkeypatch):
    monkeypatch.setattr("learndyn.runtime.memory.free_memory", lambda array: 1000)
    with pytest.raises(ValueError, match=r"\Amodel: .*basis.*allowed here are [^\n]*\Z"):
        p.hessian_top(nn.Linear(D, 40), A.float(), LABELS, k=2)
