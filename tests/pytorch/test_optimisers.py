"""Critical rates of PyTorch's optimisers, on a quadratic loss on which they really step."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import learndyn as ld  # noqa: E402

RNG = np.random.default_rng(1)
X = RNG.standard_normal((16, 5))
H = X.T @ X / 16


def module_of():
    layer = torch.nn.Linear(5, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(RNG.standard_normal((1, 5))))
    return torch.nn.Sequential(layer, torch.nn.Flatten(0))


def train(module, optimiser, steps):
    x = torch.as_tensor(X)
    for _ in range(steps):
        optimiser.zero_grad()
        (module(x) ** 2).mean().div(2).backward()
        optimiser.step()
    return float(module[0].weight.detach().abs().max())


def rate_of(module, optimiser):
    zeros = np.zeros(16)
    return ld.critical_learning_rate(
        module, X, zeros, exact=True, optimiser=optimiser, tolerance=1e-10
    )


def broken(module):
    optimiser = torch.optim.RMSprop(module.parameters())
    train(module, optimiser, 1)
    optimiser.state[module[0].weight]["square_avg"][0, 1] = torch.nan
    return optimiser


def loaded(module, other):
    """Adam with the state of another module's Adam."""
    first, own = (torch.optim.Adam(m.parameters()) for m in (other, module))
    other(torch.ones(2, other[0].in_features).double()).sum().backward()
    first.step()
    own.load_state_dict(first.state_dict())
    return own


def switched(module):
    optimiser = loaded(module, module_of())
    optimiser.param_groups[0]["amsgrad"] = True  # after the steps
    return optimiser


def changed(module, **settings):
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    optimiser.param_groups[0].update(settings)
    return optimiser


SGD = {
    "descent": {},
    "heavy ball": {"momentum": 0.9},
    "dampening": {"momentum": 0.8, "dampening": 0.5},
    "Nesterov": {"momentum": 0.9, "nesterov": True},
    "decay": {"momentum": 0.5, "weight_decay": 0.4},
}


@pytest.mark.parametrize("name", SGD)
def test_sgd_diverges_above_the_rate_and_not_below(name):
    rate = float(
        rate_of(module := module_of(), torch.optim.SGD(module.parameters(), 1e-3, **SGD[name]))
    )
    ends = []
    for share in (0.99, 1.01):
        module = module_of()
        optimiser = torch.optim.SGD(module.parameters(), share * rate, **SGD[name])
        ends.append(train(module, optimiser, 2500))
    assert ends[0] < 10 and ends[1] > 1e3


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "AMSGrad", "RMSprop", "Adagrad"])
def test_preconditioned_rates_are_those_of_the_state(kind):
    """The formulas, with the preconditioner computed here from the state."""
    module = module_of()
    made = {
        "Adam": lambda p: torch.optim.Adam(p, 1e-3, betas=(0.8, 0.95), eps=1e-4),
        "AdamW": lambda p: torch.optim.AdamW(p, 1e-3, betas=(0.8, 0.95), weight_decay=0.3),
        "AMSGrad": lambda p: torch.optim.Adam(p, 1e-3, betas=(0.8, 0.95), amsgrad=True),
        "RMSprop": lambda p: torch.optim.RMSprop(p, 1e-3, alpha=0.9, momentum=0.6),
        "Adagrad": lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.1),
    }
    optimiser = made[kind](module.parameters())
    train(module, optimiser, 5)
    state = optimiser.state[module[0].weight]
    array = lambda name: state[name].numpy().ravel()
    if kind in ("Adam", "AdamW", "AMSGrad"):
        second = array("max_exp_avg_sq" if kind == "AMSGrad" else "exp_avg_sq")
        eps = 1e-4 if kind == "Adam" else 1e-8
        P = (1 - 0.8**5) * (np.sqrt(second / (1 - 0.95**5)) + eps)
        top = np.linalg.eigvalsh(H / np.sqrt(np.outer(P, P)))[-1]
        decay = 1.8 * 0.3 if kind == "AdamW" else 0.0
        expected = 3.6 / (0.2 * top + decay)
    elif kind == "RMSprop":
        P = np.sqrt(array("square_avg")) + 1e-8
        expected = 3.2 / np.linalg.eigvalsh(H / np.sqrt(np.outer(P, P)))[-1]
    else:
        P = (np.sqrt(array("sum")) + 1e-10) * (1 + 4 * 0.1)
        expected = 2 / np.linalg.eigvalsh(H / np.sqrt(np.outer(P, P)))[-1]
    before = {name: p.clone() for name, p in module.named_parameters()}
    assert float(rate_of(module, optimiser)) == pytest.approx(expected, rel=1e-6)
    assert all(torch.equal(before[name], p) for name, p in module.named_parameters())


def test_groups_frozen_weights_and_the_common_factor():
    module = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    module = module.double()
    module[0].bias.requires_grad_(False)
    groups = [
        {"params": [*module[0].parameters()], "lr": 0.1, "momentum": 0.9},
        {"params": [*module[1].parameters()], "lr": 0.4},
    ]
    optimiser = torch.optim.SGD(groups, lr=1.0)
    found = rate_of(module, optimiser)
    dense = np.asarray(ld.probes.hessian_operator(module, X, np.zeros(16)) @ np.eye(19))
    scale = np.sqrt(np.r_[np.full(15, 0.1 / 1.9), np.full(4, 0.4)])
    top = np.linalg.eigvalsh(scale[:, None] * (dense + dense.T) / 2 * scale)[-1]
    assert found.factor == float(found) == pytest.approx(2 / top, rel=1e-6)
    assert "factor of all learning rates" in found.convention


@pytest.mark.parametrize("kind", ["Adam", "Adagrad"])
def test_weights_without_a_gradient_do_not_move(kind):
    """A part that the loss does not reach has no state; the rate is that without it."""
    module = module_of()
    module.register_module("unused", torch.nn.Linear(2, 2).double())
    module.forward = lambda x: torch.nn.Sequential(module[0], module[1])(x)
    optimiser = getattr(torch.optim, kind)(module.parameters(), 1e-2)
    train(module, optimiser, 3)
    alone = torch.nn.Sequential(module[0], module[1])
    own = getattr(torch.optim, kind)(alone.parameters(), 1e-2)
    own.load_state_dict({**own.state_dict(), "state": {0: optimiser.state[module[0].weight]}})
    assert float(rate_of(module, optimiser)) == pytest.approx(float(rate_of(alone, own)), rel=1e-9)


def test_a_learning_rate_of_zero_as_when_a_schedule_begins():
    module = module_of()
    found = rate_of(module, torch.optim.SGD(module.parameters(), 0.0, momentum=0.9))
    assert float(found) == pytest.approx(3.8 / np.linalg.eigvalsh(H)[-1], rel=1e-9)
    assert found.factor == np.inf


def test_adamw_of_releases_whose_groups_do_not_name_its_decay():
    module = module_of()
    optimiser = torch.optim.AdamW(module.parameters(), 1e-2, weight_decay=0.3)
    train(module, optimiser, 3)
    expected = float(rate_of(module, optimiser))
    del optimiser.param_groups[0]["decoupled_weight_decay"]
    assert float(rate_of(module, optimiser)) == expected


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda m: torch.optim.Adam(m.parameters()), "optimiser: got Adam without a state"),
        (lambda m: torch.optim.Adagrad(m.parameters()), "optimiser: got Adagrad without a state"),
        (
            lambda m: torch.optim.SGD(module_of().parameters(), 0.1),
            "optimiser: got parameters of another",
        ),
        (
            lambda m: torch.optim.NAdam(m.parameters()),
            "optimiser: got NAdam; allowed are SGD, Adam",
        ),
        (lambda m: torch.optim.SGD(m.parameters(), 0.1, maximize=True), "optimiser: got maximize"),
        (lambda m: (1, 2), "optimiser: got a tuple"),
        (
            lambda m: type("Adam", (), {"param_groups": [], "__module__": "other"})(),
            "optimiser: got Adam; allowed are SGD, Adam, AdamW, RMSprop, Adagrad of torch.optim",
        ),
        (lambda m: broken(m), "optimiser: got a state with NaN or infinities"),
        (
            lambda m: loaded(m, torch.nn.Sequential(torch.nn.Linear(4, 1, bias=False)).double()),
            "optimiser: got a state of another model; allowed is",
        ),
        (lambda m: switched(m), "optimiser: got a state without 'max_exp_avg_sq'; allowed is"),
        (lambda m: changed(m, lr=-0.1), "optimiser: got lr=-0.1; allowed is a non-negative"),
        (lambda m: changed(m, lr=np.nan), "optimiser: got lr=nan; allowed is a non-negative"),
        (lambda m: changed(m, momentum=1.5), "optimiser: got momentum=1.5; allowed is a number"),
    ],
)
def test_unreadable_optimisers_raise_a_one_line_error(made, line):
    module = module_of()
    with pytest.raises(ValueError) as error:
        rate_of(module, made(module))
    assert str(error.value).startswith(line) and "\n" not in str(error.value)


def test_batch_norm_in_training_mode_is_refused_with_the_reason():
    module = torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.BatchNorm1d(2)).double()
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    with pytest.raises(ValueError) as error:
        ld.critical_learning_rate(module, X, np.zeros((16, 2)), optimiser=optimiser)
    line = str(error.value)
    assert (
        line.startswith("model: got BatchNorm1d '1', which in training mode") and "\n" not in line
    )
    assert "the loss that is trained" in line and "module.eval()" in line
    module = torch.nn.BatchNorm1d(5, track_running_stats=False).double().eval()
    with pytest.raises(ValueError, match=r"no running statistics and .* allowed is track_runn"):
        ld.critical_learning_rate(module, X, X)


def test_along_an_update_costs_ten_forward_passes():
    """All else are checks on one or two examples; batches give the same."""
    module, seen = module_of(), []
    module.register_forward_hook(lambda part, given, outputs: seen.append(len(outputs)))
    update, y = {"0.weight": torch.ones(1, 5)}, np.ones(16)
    whole = ld.probes.critical_rate_along(module, X, y, update=update)
    assert seen.count(16) == whole.passes == 10 and sorted(seen)[-11] <= 2 and len(seen) <= 14
    batches = lambda: ((X[first : first + 6], y[first : first + 6]) for first in (0, 6, 12))
    found = ld.probes.critical_rate_along(module, batches, update=update)
    assert float(found) == pytest.approx(float(whole), rel=1e-9)
    with torch.no_grad():
        module[0].weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="weights: entry"):
        ld.probes.critical_rate_along(module, X, y, update=update)


def test_along_an_update_by_name():
    module = module_of()
    w = module[0].weight.detach().numpy().ravel()
    gradient = H @ w
    update = {"0.weight": torch.as_tensor(gradient[None])}
    found = ld.probes.critical_rate_along(module, X, np.zeros(16), update=update)
    expected = 2 * gradient @ gradient / (gradient @ H @ gradient)
    assert float(found) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(ValueError, match=r"update: got .'weight'.; allowed is name → tensor for"):
        ld.probes.critical_rate_along(module, X, np.zeros(16), update={"weight": gradient})
