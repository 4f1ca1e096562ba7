"""More examples than fit into memory: batches that are read anew for every product."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from learndyn.models import as_model
from learndyn.models.inputs import is_array
from learndyn.probes.arguments import (
    LossLike,
    as_array,
    checked_inputs,
    fitted,
    is_own,
    loss_for,
    mean_of,
    output_shape,
)
from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import full_precision
from learndyn.runtime.progress import Report, reporting


class Batches:
    """Labelled examples in batches, and sums over them.

    Args:
        model: of which the examples are inputs; its outputs are checked on the first batch.
        source: what `is_batches` takes; every batch is a pair (x, y), or a dict with "labels".
        loss: as probes take it.
        total: the number of products that are expected, for progress.
        report: is called with the fraction done.

    Attributes:
        first: inputs of the first batch.
        terms: the number of terms of the mean loss.
        loss: the loss.
    """

    def __init__(self, model: Any, source: Any, loss: LossLike):
        self.model, self.source, self.loss = model, repeatable(source), loss_for(model, loss)
        self.report, self.total, self._done = None, 1, 0
        self.count, self._parts, self.terms, self._shape = 0, 0, 0, None
        for x, mean in self:
            if self.count == 0:
                self.first = x
            self.count += len(x)
            self._parts += 1
            self.terms += mean.terms
        if not self._parts:
            raise ValueError("x: got no batches with examples that count; allowed is at least one")

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Inputs of every batch, with the mean loss over it as a function of the outputs."""
        for batch in each_of(self.source):
            x, y = _pair(batch)
            x, y = checked_inputs("x", x), as_array("y", y)
            if y.ndim == 0 or len(y) != len(x):
                raise ValueError(
                    f"y: got shape {y.shape}; allowed is one target for each of {len(x)} examples"
                )
            if self._ignores(y):
                continue
            first = self._shape is None
            if self._shape is None:
                self._shape = output_shape(self.model, x)
            shape = self._shape
            if first or not is_own(self.loss):
                # Batches of texts have lengths of their own.
                if 1 < len(shape) <= y.ndim:
                    shape = (*y.shape[1 : len(shape)], shape[-1])
                x, y = fitted(self.model, x, y, self.loss, shape)
            yield x, mean_of(self.loss, y)

    def mean(self, part: Callable[[Any, Any], Any]) -> Any:
        """Σ_b s_b part(x_b, mean loss of b), with the share s_b of the terms that b has."""
        total, terms = 0.0, 0
        with full_precision():
            for x, mean in self:
                total = total + mean.terms / self.terms * part(x, mean)
                terms += mean.terms
                self._count()
        if not np.isclose(terms, self.terms):
            raise ValueError(
                f"x: got {terms:g} labels in one pass and {self.terms:g} in another; allowed are "
                "batches that have the same examples in every pass"
            )
        return total

    def _ignores(self, y: Any) -> bool:
        """Whether the loss leaves out all of a batch, as it may be with padding."""
        if is_own(self.loss):
            return not mean_of(self.loss, y).terms
        counted = self.loss.counted(y)
        return counted is not None and not np.any(counted)

    def reporting(self, report: Report, products: int) -> None:
        """Reports progress to a function, for a work of so many products."""
        self.report, self.total, self._done = report, products * self._parts, 0

    def _count(self) -> None:
        self._done += 1
        if self.report is not None:
            self.report(min(1.0, self._done / self.total))


def is_batches(x: Any) -> bool:
    """Whether it is a source of batches, rather than inputs.

    That is an iterable of pairs (x, y) or of dicts, such as a DataLoader or a generator, or a
    function that returns one.
    """
    if is_array(x) or isinstance(x, tuple | Mapping | str | bytes) or x is None:
        return False
    if isinstance(x, list):
        arrays = lambda each: isinstance(each, tuple | list) and any(map(is_array, each))
        return len(x) > 0 and all(isinstance(each, Mapping) or arrays(each) for each in x)
    return callable(x) or hasattr(x, "__iter__")


def repeatable(source: Any) -> Any:
    """A source that can be read repeatedly: what a generator yields is kept in memory."""
    return list(source) if isinstance(source, Iterator) else source


def each_of(source: Any) -> Iterable[Any]:
    """The batches of a source."""
    batches: Any = source() if callable(source) else source
    if not hasattr(batches, "__iter__"):
        raise ValueError(
            f"x: got a function that returns {a_kind(batches)}; allowed is one that returns an "
            "iterable of batches"
        )
    return batches


def inputs_of_each(source: Any) -> Iterator[Any]:
    """The inputs of every batch, whose targets are left out if it has some."""
    for batch in each_of(source):
        pair = isinstance(batch, tuple | list) and len(batch) == 2
        yield checked_inputs("x", _pair(batch)[0] if pair or isinstance(batch, Mapping) else batch)


def batches_or_array(model: Any, x: Any, y: Any, loss: LossLike) -> "Batches | None":
    """The batches, or None if x is not a source of any."""
    if y is not None or not is_batches(x):
        return None
    return Batches(as_model(model).placed(), x, loss)


@contextlib.contextmanager
def progressing(
    product: Callable[[Any], Any], x: Any, progress: Any, what: str, products: int
) -> Iterator[Callable[[Any], Any]]:
    """Shows progress of a work of at most so many products.

    Args:
        product: v ↦ A v.
        x: the examples, an array or `Batches`.
        progress: as `runtime.progress.reporting` takes it.
        what: the work, in a word or two.
        products: how many there are at most.

    Yields:
        The product, which reports what is done.
    """
    done = 0
    with reporting(progress, f"{what}, at most {products} products") as report:
        if isinstance(x, Batches):
            x.reporting(report, products)
            yield product
            return

        def counted(v: Any) -> Any:
            nonlocal done
            found, done = product(v), done + 1
            report(min(1.0, done / products))
            return found

        yield counted


def _pair(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, Mapping):
        rest = {name: value for name, value in batch.items() if name != "labels"}
        return rest, batch.get("labels")
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    raise ValueError(
        f"x: got a batch that is {a_kind(batch)}; allowed is a pair (x, y), or a dict with the "
        'key "labels"'
    )
