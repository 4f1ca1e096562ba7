"""`CatapultControl` as a scheduler of PyTorch."""

from typing import Any

import numpy as np
from torch.optim import Optimizer  # pyright: ignore[reportMissingImports]
from torch.optim.lr_scheduler import LRScheduler  # pyright: ignore[reportMissingImports]

from learndyn.numerics.types import Number
from learndyn.rules.control import CatapultControl, Steering


class CatapultLR(LRScheduler):
    """Sets an optimiser's rate by `CatapultControl`, which says what its arguments mean.

    Call `step(critical_rate)` after every step of the optimiser, with η_crit at the weights that it
    led to, say by `float(ld.probes.critical_learning_rate(module, x, y, loss=…))`. The first
    group's rate is controlled; those of others keep their ratio to it.

    Args:
        optimizer: of PyTorch, such as `torch.optim.SGD`.
        critical_rate: η_crit at the first weights; without it the first rate is not held below the
            limit.
        times: what the rate is raised to, in units of η_crit.
        rest: steps in a row with η ≤ η_crit before it is raised.
        catapults: how often; None for no end.
        period: steps of a cycle; None raises the rate and leaves it.
        limit: what diverges, in units of η_crit.
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
        super().__init__(optimizer)

    def step(self, critical_rate: Any = None) -> None:  # pyright: ignore
        """Sets the rate of the optimiser's next step.

        Args:
            critical_rate: η_crit at the present weights; None, as PyTorch calls it once when the
                scheduler is made, leaves the rate.
        """
        if critical_rate is not None:
            now = Steering(*map(np.asarray, self._now))
            self._now = _plain(self._control.advance(now, float(critical_rate)))
        super().step()

    @property
    def steering(self) -> Steering:
        """Where the control stands."""
        return Steering(*self._now)

    def get_lr(self) -> list[Any]:
        """The rates of all groups."""
        return [self._now[0] * base / self.base_lrs[0] for base in map(float, self.base_lrs)]


def _plain(now: Steering) -> tuple[Any, ...]:
    """As plain numbers, which `state_dict` holds."""
    return tuple(np.asarray(part).item() for part in now)
