"""Probes in a training loop of one's own."""

import os
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr

from learndyn.networks import as_model
from learndyn.numerics import checks
from learndyn.numerics.checks import function, mapping, positive_int
from learndyn.numerics.divergence import bound_of, has_diverged
from learndyn.probes.log import Log

SMALL = 1.0  # weights of this size are not large, however small they began, as in `simulate`
RESERVED = ("time", "step", "run", "outcome", "diverged_at")
Probe = Callable[[Any], Any]


class Recorder:
    """Records probes of a model while a loop, of JAX or of PyTorch, trains it.

    Call it once a step; every `every`-th step it reads. `record()` may be taken at any time, also
    after the loop was interrupted. With a `path` what was recorded is saved now and then, when the
    `with` block is left, however, and when Python ends.

    Where the weights or what was given beside them are no longer finite, or the weights outgrow
    their first size 10⁵ times, the run has diverged: from there on nothing is recorded. A probe
    that fails after it has worked once leaves a gap, which the attribute `failed` explains.

    Args:
        probes: name → function of the model, whose value is a number or an array.
        every: steps between two readings; steps that it divides are read.
        path: the file to save to, by custom ending in `.nc`; None for none.
        attributes: what else the record is to say: `size`, say, without which `compare` does not
            hold it against a theory.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> recorder = ld.Recorder({"size": lambda model: abs(model.weights).max()}, every=2)
        >>> for step in range(5):
        ...     model = ld.Model(ld.Committee(1, "linear"), np.full((1, 3), 0.5**step))
        ...     recorder(step, model, loss=0.25**step)
        >>> record = recorder.record()
        >>> record["step"].values.tolist(), record["size"].values[0].tolist()
        ([0, 2, 4], [1.0, 0.25, 0.0625])
    """

    def __init__(
        self,
        probes: Any,
        *,
        every: int = 1,
        path: str | os.PathLike | None = None,
        attributes: Mapping[str, Any] | None = None,
    ):
        for name, probe in mapping("probes", probes, "a dict name → function of a model").items():
            function(f"probes[{name!r}]", probe)
            if name in RESERVED:
                raise ValueError(f"probes: got {name!r}; allowed are names but {RESERVED}")
        self._probes: dict[str, Probe] = dict(probes)
        self._every = positive_int("every", every)
        about = {} if attributes is None else mapping("attributes", attributes, "a dict, or None")
        self._log = Log(None if path is None else checks.path("path", path), dict(about))
        self._last, self._bound = -1, None
        self._end = weakref.finalize(self, self._log.save)

    def __call__(self, step: Any, model: Any, **values: Any) -> None:
        """Reads the model, if it is time to.

        Args:
            step: the number of steps taken, an integer, larger at every call.
            model: as probes take it.
            **values: what else is to be recorded: the loss, a rate, any number or array.

        Raises:
            ValueError: for steps out of order, and where a probe fails that never worked.
        """
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
        if not whole or step <= self._last:
            allowed = f"an integer above {self._last}, steps in order"
            raise ValueError(f"step: got {step!r}; allowed is {allowed}")
        self._last = int(step)
        self._log.tick()
        if step % self._every or self._log.outcome.what == "diverged":
            return
        _wait(model)
        with self._log.timed():
            given = {name: _array(name, value) for name, value in values.items()}
            if self._has_diverged(model, given):
                self._log.diverge(self._last)
            else:
                self._log.add(self._last, given | self._read(model))
        self._log.tick()
        self._log.save_now_and_then()

    def record(self) -> xr.Dataset:
        """What was recorded so far, as `simulate` gives it, with one run.

        Its attributes say how many seconds the loop and the probes in it took, and their share.
        """
        return self._log.record()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self._log.interrupt()
        self._log.save()

    def _has_diverged(self, model: Any, given: dict[str, np.ndarray]) -> bool:
        weights = np.asarray(as_model(model).vector())
        if self._bound is None:
            self._bound = bound_of(weights, least=SMALL)
        finite = all(np.all(np.isfinite(value)) for value in given.values())
        return not finite or bool(has_diverged(weights, self._bound))

    def _read(self, model: Any) -> dict[str, np.ndarray]:
        found = {}
        for name, probe in self._probes.items():
            try:
                found[name] = _array(name, probe(model))
            except Exception as error:
                if not self._log.has(name):
                    raise
                self._log.failed.setdefault(name, f"step {self._last}: {error}")
        return found


def _wait(model: Any) -> None:
    """Until the loop's own work is done, which JAX and accelerators leave for later."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    jax.block_until_ready(jax.tree.leaves(eqx.filter(model, eqx.is_array)))


def _array(name: str, value: Any) -> np.ndarray:
    given = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        came = type(value).__name__
        raise ValueError(f"{name}: got a {came}; allowed is a number or an array") from None
