"""A module is what it was after a probe, whatever it is made of, and derivatives are autograd's."""

import collections
import contextlib
import dataclasses
import re
import types
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

import learndyn as ld

p = ld.probes
EXACT = 1e-11
N, D = 4, 3  # every module maps (4, 3) to (4, 3)


def dense() -> Any:
    return nn.Linear(D, D)


class Wrapped(nn.Module):
    """Attributes by name, and a forward of one's own."""

    def __init__(self, forward: Any, **parts: Any):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = forward

    def forward(self, x):
        return self.function(self, x)


class Last(nn.Module):
    """The last output of a module, for what is expensive."""

    def __init__(self, module: Any):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[:, -1:]


class Stateful(nn.Module):
    """All that a call may change: buffers of both kinds, attributes, lists."""

    def __init__(self):
        super().__init__()
        self.layer = dense()
        self.register_buffer("kept", torch.ones(D))
        self.register_buffer("passing", torch.ones(D), persistent=False)
        self.plain, self.calls, self.history, self.last = torch.ones(D), 0, [torch.ones(D)], None

    def forward(self, x):
        factors = self.kept * self.passing * self.plain * self.history[0]
        y = self.layer(x) * factors
        with torch.no_grad():
            self.kept.mul_(0.5)  # in place
            self.passing = self.passing + 1  # by a new tensor
            self.plain.add_(1)
            self.history[0].mul_(3)
            self.history.append(y)
        self.calls, self.last, self.new = self.calls + 1, y, "set by a call"
        return y


@dataclasses.dataclass
class Memory:
    """What a layer remembers."""

    last: Any = None
    kept: Any = dataclasses.field(default_factory=lambda: torch.ones(D))


class Caching(nn.Module):
    """Containers in containers, a deque and two kinds of records, which a call changes."""

    def __init__(self):
        super().__init__()
        self.layer, self.cache = dense(), {"keys": [torch.ones(D)], "sizes": ([1],)}
        self.recent, self.memory = collections.deque([torch.ones(D)], maxlen=2), Memory()
        self.space = types.SimpleNamespace(count=[0], weight=self.layer.weight)

    def forward(self, x):
        factors = self.cache["keys"][0] * self.recent[0] * self.memory.kept
        y = self.layer(x) @ self.space.weight * factors
        with torch.no_grad():
            for each in (self.cache["keys"][0], self.recent[0], self.memory.kept):
                each.add_(1)
        self.cache["keys"].append(y)
        self.cache["sizes"][0].append(len(x))
        self.recent.append(y)
        self.memory.last = y
        self.space.count[0] += 1
        return y


def shared() -> Any:
    layer = dense()
    return nn.Sequential(layer, nn.Tanh(), layer)


def nested() -> Any:
    block = nn.Sequential(dense(), nn.Tanh())
    return nn.Sequential(block, nn.Sequential(dense(), nn.ModuleList([block])[0], block), dense())


def two_parents() -> Any:
    layer = dense()
    first, second = nn.Sequential(layer, nn.Tanh()), nn.Sequential(dense(), nn.Tanh(), layer)
    return Wrapped(lambda self, x: self.second(self.first(x)), first=first, second=second)


def tied() -> Any:
    one, other = dense(), dense()
    other.weight = one.weight
    return nn.Sequential(one, nn.Tanh(), other)


def parametrized(parametrization: Any) -> Any:
    layer = parametrization(dense())
    return nn.Sequential(layer, nn.Tanh(), layer, dense())


def pruned() -> Any:
    layer = dense()
    prune.random_unstructured(layer, "weight", 0.3)  # a hook sets the weight at every call
    return nn.Sequential(layer, nn.Tanh(), layer)


def frozen() -> Any:
    module = shared()
    module.append(dense()).append(dense())
    module(torch.ones(1, D))  # frozen after it was used
    module[0].weight.requires_grad_(False)
    module[4].requires_grad_(False)
    return module


def hooked() -> Any:
    module = nn.Sequential(dense(), nn.Tanh(), dense())
    module[0].register_forward_pre_hook(lambda layer, given: (2 * given[0],))
    module[0].register_forward_hook(lambda layer, given, output: output.sin())
    # What changes gradients is no part of the function.
    module[2].register_full_backward_hook(lambda layer, gradients, _: (3 * gradients[0],))
    module[2].register_full_backward_pre_hook(lambda layer, gradients: (5 * gradients[0],))
    module[0].weight.register_hook(lambda gradient: 7 * gradient)
    return module


def recurrent() -> Any:
    forward = lambda self, x: self.gru(torch.stack([x, x.sin()], 1))[0][:, -1]
    return Wrapped(forward, gru=nn.GRU(D, D, batch_first=True))


def aliased() -> Any:
    layer = dense()
    forward = lambda self, x: self.layer(x).tanh() @ self.all[0]
    return Wrapped(forward, layer=layer, all=[layer.weight])  # a list registers nothing


def patched() -> Any:
    layer = dense()
    layer.forward = lambda x: 2 * nn.functional.linear(x, layer.weight, layer.bias)
    return nn.Sequential(layer, nn.Tanh())


def padded() -> Any:
    embedding = nn.Embedding(3, D, padding_idx=1)
    nn.init.normal_(embedding.weight)
    forward = lambda self, x: self.embedding((x > 0).long()).sum(1) @ self.embedding.weight.sin()
    return Wrapped(forward, embedding=embedding)  # the weight is used beside the layer as well


def bag(**options: Any) -> Any:
    forward = lambda self, x: self.last(self.embedding((x > 0).long() + (x > 1)).sin())
    return Wrapped(forward, embedding=nn.EmbeddingBag(3, D, **options), last=dense())


def checkpointed(reentrant: bool) -> Any:
    forward = lambda self, x: checkpoint(self.second, self.first(x), use_reentrant=reentrant)
    return Wrapped(forward, first=nn.Sequential(dense(), nn.Tanh()), second=dense())


def compiled() -> Any:
    inner = torch.compile(nn.Sequential(dense(), nn.Tanh()), backend="eager")
    return torch.compile(nn.Sequential(inner, dense()), backend="eager")


MODULES = {
    "shared": shared,
    "nested": nested,
    "two parents": two_parents,
    "tied": tied,
    "weight norm": lambda: parametrized(parametrizations.weight_norm),
    "spectral norm": lambda: parametrized(parametrizations.spectral_norm),
    "orthogonal": lambda: parametrized(parametrizations.orthogonal),
    "pruned": pruned,
    "buffers": Stateful,
    "containers": Caching,
    "hooks": hooked,
    "frozen": frozen,
    "recurrent": recurrent,
    "in place": lambda: nn.Sequential(nn.SiLU(inplace=True), dense(), nn.ReLU(inplace=True)),
    "aliased": aliased,
    "patched": patched,
    "padded": padded,
    "sparse": lambda: Wrapped(
        lambda self, x: self.embedding((x > 0).long()).sum(1),
        embedding=nn.Embedding(2, D, sparse=True),
    ),
    "bag": lambda: bag(mode="mean", padding_idx=1, sparse=True),
    "bag of the largest": lambda: bag(mode="max"),
    "reentrant checkpoints": lambda: checkpointed(True),
    "checkpoints": lambda: checkpointed(False),
    "compiled": compiled,
}


def made(name: str) -> Any:
    """The module, the same at every call."""
    torch.manual_seed(3)
    return MODULES[name]().double()


torch.manual_seed(5)
X, Y = torch.randn(N, D).double(), torch.randn(N, D).double()


def contents(value: Any) -> Any:
    """What it is, and what it holds, by identity; tensors inside of containers by value as well."""
    if isinstance(value, Memory | types.SimpleNamespace):
        value = vars(value)
    if isinstance(value, dict):
        return id(value), [(key, contents(each)) for key, each in value.items()]
    if isinstance(value, list | tuple | collections.deque):
        return id(value), [contents(each) for each in value]
    is_leaf = torch.is_tensor(value) and value.is_leaf
    return id(value), value.detach().numpy().tobytes() if is_leaf else None


def state(module: Any) -> Any:
    """All of a module's state: what it holds by identity, and tensors by value as well."""
    parts = list(module.modules())
    held = [{name: contents(value) for name, value in vars(part).items()} for part in parts]
    tensors = [*module.named_parameters(remove_duplicate=False)]
    tensors += module.named_buffers(remove_duplicate=False)
    tensors += [(n, t) for part in parts for n, t in vars(part).items() if torch.is_tensor(t)]
    lists = [v for part in parts for v in vars(part).values() if isinstance(v, list)]
    tensors += [("", each) for values in lists for each in values if torch.is_tensor(each)]
    values = [
        (n, type(t), t.detach().numpy().tobytes(), t.requires_grad, id(t.grad), t.data_ptr(),
         None if t.grad is None else t.grad.to_dense().numpy().tobytes())
        for n, t in tensors if t.is_leaf
    ]  # fmt: skip
    settings = torch.is_grad_enabled(), torch.backends.mha.get_fastpath_enabled()
    return held, values, settings, torch.random.get_rng_state().numpy().tobytes()


def ones(model: Any) -> np.ndarray:
    return np.ones(ld.as_model(model).size)


PROBES = {
    "ntk": lambda m: p.ntk(m, X),
    "ntk of two sets": lambda m: p.ntk(m, X, X[:2]),
    "kernel_operator": lambda m: p.kernel_operator(m, X) @ np.ones(N * D),
    "ntk_spectrum": lambda m: p.ntk_spectrum(m, X, 2),
    "pl_constant": lambda m: p.pl_constant(m, X),
    "kernel_drift": lambda m: p.kernel_drift(m, X, start=m),
    "split_loss": lambda m: p.split_loss(m, X, Y, s=2),
    "critical_learning_rate": lambda m: p.critical_learning_rate(m, X, Y),
    "exact": lambda m: p.critical_learning_rate(m, X, Y, exact=True),
    "hessian_operator": lambda m: p.hessian_operator(m, X, Y) @ ones(m),
    "hessian_top": lambda m: p.hessian_top(m, X, Y),
    "hessian_trace": lambda m: p.hessian_trace(m, X, Y, draws=2),
    "spectral_density": lambda m: p.spectral_density(m, X, Y, draws=1, steps=2),
    "output_hessian_norm": lambda m: p.output_hessian_norm(Last(m), X[:1], radius=0.1),
    "agop": lambda m: p.agop(m, X),
    "egop": lambda m: p.egop(m, ld.Isotropic(D), draws=2),
    "summary": lambda m: p.summary(m, X, Y),
    "Recorder": lambda m: ld.Recorder({"kernel": lambda m: p.ntk(m, X)})(0, m, loss=1.0),
}
BY_INPUTS, SECOND = {"agop", "egop", "summary"}, {"exact", "summary"}
SECOND |= {name for name in PROBES if "hessian" in name or name == "spectral_density"}
REFUSED = {  # in one line: PyTorch has no such derivatives
    "padded": BY_INPUTS,
    "sparse": BY_INPUTS,
    "bag": BY_INPUTS | SECOND | {"kernel_operator"},
    "bag of the largest": BY_INPUTS | SECOND | {"kernel_operator"},
}
ONE_LINE = r"\A[A-Za-z]+(?:\['kernel'\])?: [^\n]*allowed[^\n]*\Z"


def step(module: Any) -> None:
    """One step of a training loop; gradients stay."""
    optimizer = torch.optim.SGD([w for w in module.parameters() if w.requires_grad], lr=0.1)
    optimizer.zero_grad()
    (0.5 * ((module(X.clone()) - Y) ** 2).sum(1).mean()).backward()
    optimizer.step()


@pytest.mark.parametrize("name", MODULES)
def test_the_module_is_what_it_was(name, capsys):
    module, twin = made(name), made(name)
    x, y = X.clone(), Y.clone()
    for what, probe in PROBES.items():
        before = state(module)
        refused = what in REFUSED.get(name, ())
        with pytest.raises(ValueError, match=ONE_LINE) if refused else contextlib.nullcontext():
            probe(module)
        assert state(module) == before, what
    assert torch.equal(x, X) and torch.equal(y, Y)
    for _ in range(2):
        step(module)
        step(twin)
    mine, theirs = dict(module.state_dict()), dict(twin.state_dict())
    assert all(torch.equal(mine[n], theirs[n]) for n in theirs)
    assert any(not torch.equal(mine[n], made(name).state_dict()[n]) for n in mine)  # it learns


def brute_force(module: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Jacobian and Hessian of the mean loss by autograd, from one call of the module itself."""
    for part in module.modules():  # these change gradients
        part._backward_hooks.clear()
        part._backward_pre_hooks.clear()
    weights = [w for w in module.parameters() if w.requires_grad]
    for w in weights:
        w._backward_hooks = None
    if isinstance(module, Wrapped) and hasattr(module, "embedding"):
        module.embedding.sparse = False
    pull = lambda value, create=False: torch.cat([
        torch.zeros(w.numel()).double() if g is None else g.reshape(-1)
        for g, w in zip(
            torch.autograd.grad(
                value, weights, retain_graph=True, create_graph=create, allow_unused=True
            ) if value.requires_grad else [None] * len(weights), weights, strict=True)
    ])  # fmt: skip
    outputs = module(X.clone())
    J = torch.stack([pull(value) for value in outputs.reshape(-1)])
    if any(isinstance(part, nn.EmbeddingBag) for part in module.modules()):
        return J.numpy(), None  # PyTorch has no second derivative of it
    if any(type(part).__name__ == "_WeightNorm" for part in module.modules()):
        return (
            J.numpy(),
            None,
        )  # PyTorch's own is wrong: tests/pytorch/test_probes.py has it by hand
    gradient = pull(0.5 * ((outputs - Y) ** 2).sum(1).mean(), create=True)
    return J.numpy(), torch.stack([pull(value) for value in gradient]).numpy()


# Checkpoints and compiled modules are compared with the modules that they are made of.
SAME_AS = {"reentrant checkpoints": "plain", "checkpoints": "plain", "compiled": "plain"}
MODULES_OF = {**MODULES, "plain": lambda: nn.Sequential(nn.Sequential(dense(), nn.Tanh()), dense())}


@pytest.mark.parametrize("name", MODULES)
def test_derivatives_are_those_of_autograd(name):
    module = made(name)
    torch.manual_seed(3)
    J, H = brute_force(MODULES_OF[SAME_AS.get(name, name)]().double())
    model, size = ld.as_model(module), np.abs(J).max()
    close = lambda found, expected: np.testing.assert_allclose(
        found, expected, rtol=0, atol=EXACT * max(1, np.abs(expected).max())
    )
    assert size > 0.01
    close(p.ntk(module, X).reshape(N * D, N * D), J @ J.T)
    units = np.eye(model.size)
    close(np.stack([model.vjp(X, u) for u in np.eye(N * D)]), J)
    if H is not None:
        operator = p.hessian_operator(module, X, Y)
        close(np.stack([operator @ v for v in units]), H)
        close(np.stack([model.jvp(X, v).ravel() for v in units], 1), J)


class Failing(nn.Module):
    """Changes everything it can, and then fails at a given call."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.list = dense(), 0, []
        self.again = nn.Sequential(self.layer, nn.Tanh())
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        h = self.again(self.layer(x))
        self.count.add_(1)
        self.calls, self.layer = self.calls + 1, nn.Identity()
        self.list.append(h)
        ALL_CALLS.append(1)
        if len(ALL_CALLS) == FAILS_AT[0]:
            torch.rand(1)
            raise KeyError("in the middle")
        return h


ALL_CALLS, FAILS_AT = [], [0]


@pytest.mark.parametrize("what", ["ntk", "kernel_operator", "hessian_operator", "agop"])
def test_a_call_that_fails_is_undone(what):
    torch.manual_seed(0)
    module = Failing().double()
    before, failed = state(module), True
    FAILS_AT[0] = 0
    while failed:
        FAILS_AT[0] += 1
        ALL_CALLS.clear()
        try:
            PROBES[what](module)
            failed = False
        except KeyError:
            pass
        assert state(module) == before
    assert FAILS_AT[0] >= 3  # it failed at every call in turn


def changing() -> Any:
    def forward(self, x):
        self.layer.weight.data.clamp_(-0.1, 0.1)
        return self.layer(x)

    return Wrapped(forward, layer=dense())


def enclosed() -> Any:
    layer = dense()
    weight = layer.weight
    return Wrapped(lambda self, x: self.layer(x) @ weight, layer=layer)


def embedded(**options: Any) -> Any:
    forward = lambda self, x: self.part[0]((x > 0).long()).sum(1)
    return Wrapped(forward, part=nn.Sequential(nn.Embedding(2, D, **options)))


def autocasting() -> Any:
    def forward(self, x):
        torch.set_autocast_enabled("cpu", True)
        try:
            return self.layer(x)
        finally:
            torch.set_autocast_enabled("cpu", False)

    return Wrapped(forward, layer=dense())


def scripted() -> Any:
    with warnings.catch_warnings():  # it is deprecated
        warnings.simplefilter("ignore")
        return torch.jit.script(dense())


def gate(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * x


def with_scripted_function(calls: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.script(types.FunctionType(gate.__code__, globals(), f"gate{calls}"))
    module = Wrapped(lambda self, x: made(self.layer(x)), layer=dense())
    for _ in range(calls):
        module(torch.ones(2, D)).sum().backward()
    return module


def traced() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(dense(), torch.jit.trace(dense(), torch.ones(2, D)))


UNFIT = {
    "autocast set inside": (autocasting, "set_autocast_enabled"),
    "scripted": (scripted, "scripted"),
    "traced": (traced, "TopLevelTracedModule '1'"),
    "a scripted function": (lambda: with_scripted_function(3), "torch.jit"),
    "parallel inside": (lambda: nn.Sequential(nn.DataParallel(dense())), "DataParallel '0'"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(D)), "LazyLinear '0'"),
    "changing": (changing, "changes its weights"),
    "enclosed": (enclosed, "closure"),
    "max_norm": (lambda: embedded(max_norm=0.1), "Embedding 'part.0', .*max_norm"),
    "scaled": (lambda: embedded(scale_grad_by_freq=True), "'part.0', .*scale_grad_by_freq"),
    "max_norm of a bag": (lambda: nn.EmbeddingBag(3, D, max_norm=0.1), "EmbeddingBag, .*max_norm"),
    "scaled bag": (lambda: nn.EmbeddingBag(3, D, scale_grad_by_freq=True), "scale_grad_by_freq"),
    "functional max_norm": (
        lambda: Wrapped(
            lambda s, x: nn.functional.embedding((x > 0).long(), s.layer.weight, max_norm=0.1),
            layer=dense(),
        ),
        "max_norm",
    ),
    "a tuple": (lambda: Wrapped(lambda s, x: (s.layer(x), x), layer=dense()), "a tuple"),
    "a dict": (lambda: Wrapped(lambda s, x: {"y": s.layer(x)}, layer=dense()), "a dict"),
    "other inputs": (lambda: nn.Linear(D + 1, D), "shape \\(4, 3\\)"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_modules_that_cannot_be_probed_are_refused_in_one_line(name):
    torch.manual_seed(0)
    make, why = UNFIT[name]
    module = make()
    lazy = any(nn.parameter.is_lazy(w) for w in module.parameters())
    kept = [] if lazy else [w.detach().clone() for w in module.parameters()]
    for what, probe in PROBES.items():
        with pytest.raises(ValueError, match=ONE_LINE) as caught:
            probe(module)
        if what not in BY_INPUTS | {"output_hessian_norm"}:  # of another module, or of indices
            assert re.search(why, str(caught.value)), (what, caught.value)
        assert all(torch.equal(a, b) for a, b in zip(kept, module.parameters(), strict=not lazy))


@pytest.mark.parametrize("what", ["ntk", "kernel_operator", "hessian_operator", "agop"])
def test_settings_of_the_caller_do_not_matter(what):
    module = made("tied").float()
    expected = PROBES[what](module)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = PROBES[what](module)
        assert torch.is_autocast_enabled("cpu")
    np.testing.assert_array_equal(found, expected)
    with torch.inference_mode():
        np.testing.assert_array_equal(PROBES[what](module), expected)
    with torch.no_grad():
        np.testing.assert_array_equal(PROBES[what](module), expected)


def test_lanczos_iteration_has_the_precision_of_the_weights_under_autocast():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(X.shape[1], 20), nn.Tanh(), nn.Linear(20, 2))
    module.append(nn.Linear(2, Y.shape[1]))
    expected = p.hessian_top(module, X, Y, k=2)
    density = p.spectral_density(module, X, Y, draws=1, steps=5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = p.hessian_top(module, X, Y, k=2)
        same = p.spectral_density(module, X, Y, draws=1, steps=5)
        assert torch.is_autocast_enabled("cpu")
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    np.testing.assert_array_equal(same.values, density.values)


@pytest.mark.parametrize("calls", [0, 1])
def test_scripted_functions_that_are_not_yet_optimised(calls):
    torch.manual_seed(0)
    module = with_scripted_function(calls).double()
    plain = Wrapped(lambda self, x: gate(self.layer(x)), layer=module.layer)
    expected = p.hessian_top(plain, X, Y, tolerance=0).values
    for _ in range(3):
        np.testing.assert_allclose(
            p.hessian_top(module, X, Y, tolerance=0).values, expected, rtol=1e-10
        )


def test_a_model_does_not_follow_the_module():
    module = made("tied")
    operator, v = p.hessian_operator(module, X, Y), ones(module)
    before = operator @ v
    step(module)
    np.testing.assert_array_equal(operator @ v, before)


def test_shared_layers_conserve_nothing():
    with pytest.raises(ValueError, match=ONE_LINE):
        p.conserved(shared())
