"""The recorder in a loop of PyTorch: modules are read in eval mode and keep their own modes."""

import numpy as np
import pytest
import torch
from torch import nn

import learndyn as ld

X = torch.ones(2, 3)


class Frozen(nn.BatchNorm1d):
    """One that stays in eval mode, as many a fine-tuned network has it."""

    def train(self, mode=True):
        return super().train(False)


def module():
    torch.manual_seed(0)
    parts = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 4), Frozen(4)
    made = nn.Sequential(*parts, nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 1)))
    made[3].eval()  # one part in another mode than the whole
    return made.requires_grad_(True)


def modes(module):
    return [part.training for part in module.modules()]


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: ld.as_model(m.eval())])
def test_a_module_in_training_mode_is_read_in_eval_mode_and_left_as_it_was(wrap):
    trained, seen = module(), []
    model = wrap(trained)
    trained.train()
    trained[3].eval()
    before, statistics = modes(trained), trained[1].running_mean.clone()

    def rate(model):
        seen.append(modes(trained))
        return ld.probes.critical_learning_rate(model, X)

    recorder = ld.Recorder({"rate": rate}, every=2)
    for step in range(3):
        recorder(step, model, loss=torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True))
        assert modes(trained) == before and any(before) and not all(before)
    assert len(seen) == 2 and not np.any(seen)
    record = recorder.record()
    assert np.all(record["rate"].dropna("time") > 0) and np.all(record["loss"] == 0.5)
    assert torch.equal(trained[1].running_mean, statistics)
    expected = ld.probes.critical_learning_rate(trained.eval(), X)
    np.testing.assert_allclose(record["rate"][0, 0], float(expected), rtol=1e-6)


def test_a_module_is_left_in_its_mode_where_a_probe_fails_or_changes_it():
    def fails(model):
        raise KeyboardInterrupt

    for probe, raised in ((fails, KeyboardInterrupt), (lambda m: m.train().training, None)):
        trained = module()
        before = modes(trained)
        recorder = ld.Recorder({"probe": probe})
        if raised is None:
            recorder(0, trained)
        else:
            with pytest.raises(raised):
                recorder(0, trained)
        assert modes(trained) == before


def test_the_record_of_a_run_with_adam_has_its_critical_rate():
    """It decides what counts as above, from the first step on."""
    torch.manual_seed(0)
    module, y = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.ones(2, 1)
    optimiser = torch.optim.Adam(module.parameters(), 0.3, eps=0.1)
    rate = lambda model, optimiser: ld.critical_learning_rate(model, X, y, optimiser=optimiser)
    recorder, expected = ld.Recorder({"critical_rate": rate}), []
    for step in range(6):
        loss = ((module(X) - y) ** 2).mean() / 2
        if step:
            expected.append(float(rate(module, optimiser)))
        recorder(step, module, optimiser=optimiser, loss=loss, rate=optimiser.param_groups[0]["lr"])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    record = recorder.record()
    read = record["critical_rate"].values[0]
    assert np.isnan(read[0])
    np.testing.assert_allclose(read[1:], expected, rtol=1e-6)
    found = ld.analysis.find_catapults(record)
    assert found.steps_above == sum(each + 1e-8 < 0.3 for each in expected)
