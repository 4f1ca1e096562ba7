"""The loss on sets of examples, and the accuracy if they have labels."""

import math
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractLoss, Examples
from learndyn.problems.losses import is_labels, is_right
from learndyn.records import Variable
from learndyn.runtime.types import Array, Weights
from learndyn.system import System

BLOCK = 2**22  # largest number of input entries evaluated at once


class Blocks(eqx.Module):
    """A set of examples in blocks of equal size; the last one is padded.

    Attributes:
        x: inputs, (blocks, size, …).
        y: targets, likewise.
        share: weight of each example in the mean, (blocks, size); 0 for padding and for labels
            that the loss leaves out.
    """

    x: Array
    y: Array
    share: Array

    def __init__(self, examples: Examples, size: int, loss: AbstractLoss):
        x, y, count = np.asarray(examples.x), np.asarray(examples.y), len(examples.x)
        index = np.arange(-(-count // size) * size)
        cut = lambda a: jnp.asarray(a.reshape(-1, size, *a.shape[1:]))
        taken = np.minimum(index, count - 1)
        whole = len(index) == count
        self.x, self.y = (cut(a if whole else a[taken]) for a in (x, y))
        counted = loss.counted(y)
        counts = np.ones(count, bool) if counted is None else np.asarray(counted)
        self.share = cut((index < count) & counts[taken]) / counts.sum()


class OnExamples(eqx.Module):
    """Reads the loss on sets of examples, and the accuracy if they have labels.

    The sets are cut into blocks of equal size, so that the activations of a large set need not
    fit into memory at once.

    Args:
        system: the system.
        sets: prefix of the observables' names ("", "test_", …) → the set.
        dtype: precision of the weights.
        error: whether to read the loss on the set without a prefix, which a theory may predict.
        together: the number of runs read at once.
    """

    network: AbstractNetwork
    loss: AbstractLoss
    blocks: dict[str, Blocks]
    names: tuple[str, ...] = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(
        self, system: System, sets: Mapping[str, Examples], dtype, *, error: bool, together: int
    ):
        self.network, self.loss = system.network, system.problem.loss
        self.dtype = str(np.dtype(dtype))
        longest = max((len(e.x) for e in sets.values()), default=1)
        entries = together * math.prod(system.problem.input_shape)
        size = min(longest, max(1, BLOCK // entries))
        named = {p: labels(p, e, error or p != "") for p, e in sets.items()}
        self.blocks = {p: Blocks(e, size, self.loss) for p, e in sets.items() if named[p]}
        self.names = tuple(name for each in named.values() for name in each)

    def __call__(
        self, weights: Weights, known: Mapping[str, Array], *, looped: bool = True
    ) -> dict[str, Array]:
        """Loss and accuracy, except those known; the blocks as a compiled loop, or one by one."""
        values = dict(known)
        for prefix, blocks in self.blocks.items():
            if not {f"{prefix}error", f"{prefix}accuracy"} & set(self.names) - known.keys():
                continue
            if looped:
                losses, right = jax.lax.map(lambda block: self._sums(weights, block), blocks)
            else:
                each = (jax.tree.map(lambda a, i=i: a[i], blocks) for i in range(len(blocks.x)))
                losses, right = np.transpose([_one(self, weights, block) for block in each])
            values |= {f"{prefix}error": losses.sum(), f"{prefix}accuracy": right.sum()}
        return {name: values[name] for name in self.names}

    def _sums(self, weights: Weights, block: Blocks) -> tuple[Array, Array]:
        """The loss and the correct labels, summed with the examples' shares."""
        x, y = Examples(block.x, block.y, "").take(slice(None), self.dtype)
        output = self.network(weights, x)
        losses = self.loss.each(output, y, output.ndim - 1)
        right = is_right(output, y) if is_labels(y) else jnp.zeros(len(y))
        return jnp.sum(block.share * losses), jnp.sum(block.share * right)


@eqx.filter_jit
def _one(on: OnExamples, weights: Weights, block: Blocks) -> tuple[Array, Array]:
    return on._sums(weights, block)


def labels(prefix: str, examples: Examples, error: bool) -> dict[str, Variable]:
    """The labels in the record of what is read on a set."""
    long_names = {"error": f"error on {examples.name}"} if error else {}
    if is_labels(examples.y):
        long_names["accuracy"] = f"share of labels found on {examples.name}"
    return {prefix + name: Variable((), text, "") for name, text in long_names.items()}
