"""Probes in your own training loop."""

import contextlib
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr

from learndyn.models import as_model
from learndyn.probes.optimisers import NoState
from learndyn.records import Outcome, check_attributes
from learndyn.records.log import Log
from learndyn.runtime import checks
from learndyn.runtime.checks import a_kind, function, mapping, one_of, positive_int
from learndyn.runtime.divergence import bound_of, has_diverged

# Weights up to this size never count as diverged, however small they were initially.
SMALL = 1.0
RESERVED = ("time", "step", "run", "outcome", "diverged_at")
MODES = ("x", "a", "w")
Probe = Callable[..., Any]


class Recorder:
    """Records probes of a model in your own training loop, in JAX or PyTorch.

    Call it once per step. Every call records the values that you pass, such as the loss; every
    `every`-th step the probes are evaluated as well, and are NaN in between. `record()` may be
    called at any time, also after the loop was interrupted. With a `path` the record is saved from
    time to time, when the `with` block ends for any reason, and when Python exits.

    A PyTorch module is evaluated in eval mode, an equinox module in inference mode; afterwards each
    part of the module has its previous mode. The run has diverged if the weights are no longer
    finite, or 10⁵ times larger than initially: that step, without probes, is then the last of the
    record. Values may be infinite or NaN; values that are None or missing become NaN. A probe that
    fails after it has worked once leaves a gap, which the attribute `failed` explains.

    Args:
        probes: name → function of the model that returns a number or an array. One with an argument
            `optimiser` also gets the optimiser that is passed at the call; it is NaN before the
            optimiser has a state.
        every: probes are evaluated at the steps that are multiples of it.
        path: the file to save to, usually ending in `.nc`; None to save nothing.
        mode: what to do if the file exists, as in `open`: "x" raises an error, "a" continues its
            log, "w" replaces it. A resumed loop may start at an earlier step than the log ended:
            the log is continued from the first step of the new loop, and later entries are dropped.
        attributes: further attributes of the record, for example `size`, which `compare` needs to
            compare it with a theory.

    Raises:
        ValueError: for a path that cannot be written or, with mode "x", exists already.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> recorder = ld.Recorder({"size": lambda model: abs(model.weights).max()}, every=2)
        >>> for step in range(5):
        ...     model = ld.Model(ld.Committee(1, "linear"), np.full((1, 3), 0.5**step))
        ...     recorder(step, model, loss=0.25**step)
        >>> record = recorder.record()
        >>> record["loss"].values[0].tolist()
        [1.0, 0.25, 0.0625, 0.015625, 0.00390625]
        >>> record["size"].dropna("time").values[0].tolist()
        [1.0, 0.25, 0.0625]
    """

    def __init__(
        self,
        probes: Any,
        *,
        every: int = 1,
        path: str | os.PathLike | None = None,
        mode: str = "x",
        attributes: Mapping[str, Any] | None = None,
    ):
        for name, probe in mapping("probes", probes, "a dict name → function of a model").items():
            function(f"probes[{name!r}]", probe)
            _check_name("probes", name)
        self._probes: dict[str, Probe] = dict(probes)
        self._of_optimisers = {name for name, probe in probes.items() if _takes_optimiser(probe)}
        self._every = positive_int("every", every)
        about = {} if attributes is None else mapping("attributes", attributes, "a dict, or None")
        check_attributes(about)
        one_of("mode", mode, MODES)
        self._log = Log(None if path is None else checks.path("path", path), mode, dict(about))
        self._last, self._bound, self._names = -1, None, set[str]()
        # Saves also at exit; it refers to the log only, or the recorder would never be freed.
        self._end = weakref.finalize(self, self._log.save)

    def __call__(self, step: Any, model: Any, *, optimiser: Any = None, **values: Any) -> None:
        """Records the values, and evaluates the probes if the step is a multiple of `every`.

        Args:
            step: the number of steps taken, an integer that increases from call to call.
            model: the model or module, as probes take it.
            optimiser: for probes that take it: a `torch.optim.Optimizer`, or `(optax
                transformation, its state)`.
            **values: other numbers or arrays to record, such as the loss or a learning rate; None
                for a value that is missing at this call.

        Raises:
            ValueError: for steps out of order, for names that are taken, and if a probe fails that
                has never worked.
        """
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
        if not whole or step <= self._last:
            allowed = f"an integer above {self._last}, the last step"
            raise ValueError(f"step: got {step!r}; allowed is {allowed}")
        self._check_names(values)
        if self._log.continues:
            self._log.go_on(int(step))
        self._last = int(step)
        self._log.tick()
        if self._log.outcome.what == "diverged":
            return
        row = {name: _array(name, value) for name, value in values.items() if value is not None}
        if step % self._every == 0:
            self._read(model, optimiser, row)
        elif row:
            self._log.table.add(self._last, row)
        self._log.tick()
        self._log.save_now_and_then()

    def record(self) -> xr.Dataset:
        """The record so far, in the format of `simulate`, with one run.

        Its attributes state the seconds that the loop and its probes took, and the probes' share.
        """
        return self._log.record()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self._log.interrupt()
        self._log.save()

    def _check_names(self, values: Mapping[str, Any]) -> None:
        for name in values.keys() - self._names:
            _check_name("values", name)
            if name in self._probes:
                raise ValueError(
                    f"values: got {name!r}, a probe's name; allowed are names that no probe has"
                )
            self._names.add(name)

    def _read(self, model: Any, optimiser: Any, row: dict[str, np.ndarray]) -> None:
        _wait(model)
        with self._log.timed(), _evaluating(model) as model:
            if self._has_diverged(model):
                self._log.outcome = Outcome("diverged", float(self._last))
            else:
                row |= self._probed(model, optimiser)
            self._log.table.add(self._last, row)

    def _has_diverged(self, model: Any) -> bool:
        weights = np.asarray(as_model(model).vector())
        if self._bound is None:
            self._bound = bound_of(weights, least=SMALL)
        return bool(has_diverged(weights, self._bound))

    def _probed(self, model: Any, optimiser: Any) -> dict[str, np.ndarray]:
        if optimiser is None and self._of_optimisers:
            name = min(self._of_optimisers)
            raise ValueError(
                f"optimiser: got None, but probes[{name!r}] takes it; allowed is an optimiser"
            )
        values = {}
        for name, probe in self._probes.items():
            argument = f"probes[{name!r}]"
            more = {"optimiser": optimiser} if name in self._of_optimisers else {}
            try:
                values[name] = _array(argument, probe(model, **more))
            except NoState:
                continue
            except Exception as error:
                why = str(error).partition("\n")[0]
                if name not in self._log.table and why.startswith(argument):
                    raise
                if name not in self._log.table:
                    raise ValueError(
                        f"{argument}: got one that raises {type(error).__name__} ({why}); allowed "
                        "is a function of the model that returns numbers"
                    ) from error
                self._log.failed.setdefault(name, f"{name} (step {self._last}: {why})")
        return values


def _takes_optimiser(probe: Probe) -> bool:
    try:
        parameters = inspect.signature(probe).parameters
    except (TypeError, ValueError):  # some callables have no signature
        return False
    # One with a default value is the probe's own.
    return "optimiser" in parameters and parameters["optimiser"].default is inspect.Parameter.empty


def _check_name(argument: str, name: str) -> None:
    """Raises a ValueError for names that the record reserves, or that its file cannot hold."""
    if not name or "/" in name or name in RESERVED:
        allowed = f"names without '/' other than {', '.join(RESERVED)}"
        raise ValueError(f"{argument}: got {name!r}; allowed are {allowed}")


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[Any]:
    """The model without dropout and batch statistics, inside the `with` block.

    The flags of a PyTorch module are set and restored one by one: `module.train()` would make them
    all equal, and modules may override it.
    """
    torch = sys.modules.get("torch")
    kind = torch.nn.Module if torch is not None else ()
    module: Any = model if isinstance(model, kind) else getattr(model, "module", None)
    if not isinstance(module, kind):
        yield eqx.nn.inference_mode(model) if isinstance(model, eqx.Module) else model
        return
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield model
    finally:
        for part, mode in modes:
            part.training = mode


def _wait(model: Any) -> None:
    """Waits for asynchronous work of the loop, so that its time does not count for the probes."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
    jax.block_until_ready(jax.tree.leaves(eqx.filter(model, eqx.is_array)))


def _array(name: str, value: Any) -> np.ndarray:
    """A number or an array as float64, in which NaN can stand for missing values."""
    number = value
    if hasattr(value, "detach"):
        number = value.detach().cpu()
        number = number.double() if number.is_floating_point() else number
    try:
        numbers = np.asarray(number)
        if value is not None and numbers.dtype.kind not in "USmMc":
            return numbers.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name}: got {a_kind(value)}; allowed is a number or an array of them")
