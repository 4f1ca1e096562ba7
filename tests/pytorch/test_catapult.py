"""The scheduler of PyTorch has the rates of the control."""

import pytest
import torch

import learndyn as ld
from learndyn.rules.pytorch import CatapultLR

CRITICAL = (2.0, 2.0, 2.0, 3.5, 1.0, 5.0, float("inf"), 5.0, 5.0, 5.0)


@pytest.mark.parametrize("period", [None, 4])
def test_rates_are_those_of_the_control(period):
    groups = [
        {"params": [torch.nn.Parameter(torch.ones(2))], "lr": 1.0},
        {"params": [torch.nn.Parameter(torch.ones(2))], "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups)
    scheduler = CatapultLR(optimizer, rest=2, period=period)
    control = ld.rules.CatapultControl(1.0, rest=2, period=period)
    now = control.begin(float("inf"))
    for critical in CRITICAL:
        optimizer.step()
        scheduler.step(critical)
        now = control.advance(now, critical)
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([float(now.rate), 0.1 * float(now.rate)])
    assert scheduler.steering.raised == int(now.raised) >= 2
    again = CatapultLR(torch.optim.SGD(groups), rest=2, period=period)
    again.load_state_dict(scheduler.state_dict())
    for each in (scheduler, again):
        each.step(7.0)
    assert again.steering == scheduler.steering


def test_a_module_is_catapulted_by_its_own_critical_rate():
    """Two linear layers on one example, ½ r²: 2/λ is measured, 1.5 of it triggers a spike."""
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.Linear(4, 40, bias=False), torch.nn.Linear(40, 1, False))
    x, y = torch.ones(1, 4), torch.zeros(1, 1)
    first = 0.2 * float(ld.probes.critical_learning_rate(module, x))
    optimizer = torch.optim.SGD(module.parameters(), lr=first)
    scheduler, losses, rates = CatapultLR(optimizer, rest=5, catapults=1), [], []
    for _ in range(60):
        optimizer.zero_grad()
        loss = 0.5 * ((module(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        critical = float(ld.probes.critical_learning_rate(module, x))
        scheduler.step(critical)
        rates.append(optimizer.param_groups[0]["lr"] / critical)
    assert max(rates) == pytest.approx(1.5) and scheduler.steering.raised == 1
    found = ld.analysis.find_catapults(losses, noise=1.0)
    assert len(found.spikes) >= 1 and found.spikes[0].onset >= 5
