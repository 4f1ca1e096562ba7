"""`CatapultControl` as a PyTorch learning-rate scheduler."""

from typing import Any

import numpy as np
from torch.optim import Optimizer  # pyright: ignore[reportMissingImports]
from torch.optim.lr_scheduler import LRScheduler  # pyright: ignore[reportMissingImports]

from learndyn.rules.control import CatapultControl, Steering
from learndyn.runtime.types import Number


class CatapultLR(LRScheduler):
    """Sets an optimiser's learning rate by `CatapultControl`, which explains the arguments.

    Call `step(critical_rate)` after every step of the optimiser, with η_crit at the new
    weights, for example `float(ld.probes.critical_learning_rate(module, x, y, loss=…))`. The rate
    of the first parameter group is controlled; the rates of others keep their ratio to it.

    Args:
        optimizer: a PyTorch optimiser, such as `torch.optim.SGD`.
        critical_rate: η_crit at the first weights; without it the first rate is not kept below
            the limit.
        times: the rate is raised to `times` · η_crit.
        rest: steps in a row with η ≤ η_crit before it is raised.
        catapults: how many times it is raised; None for no limit.
        period: steps of a cycle; None raises the rate and keeps it.
        limit: the rate from which on training diverges, in units of η_crit.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        critical_rate: Number = np.inf,
        times: Number = 1.5,
        rest: int = 10,
        catapults: int | None = None,
        period: int | None = None,
        limit: Number = 2.0,
    ):
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._control = CatapultControl(
            rates[0], times=times, rest=rest, catapults=catapults, period=period, limit=limit
        )
        self._now = _plain(self._control.begin(float(critical_rate)))
        super().__init__(optimizer)  # last, since it calls `step()`, which needs the state

    def step(self, critical_rate: Any = None) -> None:  # pyright: ignore
        """Sets the rate of the optimiser's next step.

        Args:
            critical_rate: η_crit at the present weights; None leaves the rate as it is (PyTorch
                calls `step()` once when the scheduler is created).
        """
        if critical_rate is not None:
            now = Steering(*map(np.asarray, self._now))
            self._now = _plain(self._control.advance(now, float(critical_rate)))
        super().step()

    @property
    def steering(self) -> Steering:
        """The state of the control."""
        return Steering(*self._now)

    def get_lr(self) -> list[Any]:
        """The rates of all groups."""
        return [self._now[0] * base / self.base_lrs[0] for base in map(float, self.base_lrs)]


def _plain(now: Steering) -> tuple[Any, ...]:
    """The state as plain numbers, which `state_dict` can hold."""
    return tuple(np.asarray(part).item() for part in now)
