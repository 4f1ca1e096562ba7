"""Critical rate, kernel and split of the loss at every step, in one pass over the examples."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.models import Model
from learndyn.models.model import inputs_of
from learndyn.numerics.subspace import followed, top_of
from learndyn.probes.arguments import MeanLoss, output_shape
from learndyn.probes.critical import curvature_roots, weighted
from learndyn.probes.optimisers.rules import Threshold, moved_by, threshold_of
from learndyn.problems import AbstractProblem, SquaredLoss
from learndyn.records import Variable
from learndyn.rules.watching import AbstractStepProbe, Step
from learndyn.runtime.checks import positive_int
from learndyn.runtime.types import Array
from learndyn.tangent.kernel import as_matrix, critical_rate, kernel

Vectors = dict[str, Array]  # from which the next iteration starts


class Watched(AbstractStepProbe):
    """Records what `analysis.find_catapults` needs at every step, for `simulate(probes=…)`.

    All values follow from one tangent kernel K of all examples: its norm, the split of the loss by
    its top s eigenvectors, and η_crit of the examples that the next step sees, from their block of
    A^½ K A^½ with A = ∂²loss/∂output²: b/(scale · λ_max(K_batch)) for the squared loss of b
    examples. Row t of a record describes the weights after t steps and the next step:

        rate, critical_rate             η, and η_crit of the batch
        kernel_norm                     ‖K‖ on all examples
        loss_top, loss_rest             the loss in the top s eigenspaces of K, and outside
        batch_loss, batch_loss_after    of the batch; of the last step's batch, after that step

    The rate is that of the rule: with momentum, decay, and the preconditioner of Adam and other
    transformations of optax as in `critical_learning_rate`, which costs a second kernel, of the
    preconditioned network. If weights have different rates, `rate` is 1 and η_crit their common
    factor. η_crit is NaN before such an optimiser has a state, and for one that cannot be read, as
    for rules such as `NaturalGradient`, whose steps are not along the gradient.
    Losses other than `SquaredLoss` are not sums over eigenspaces: both parts are NaN.

    For s = 1 eigenvectors follow from those of the last reading, by four products or as many as
    they need for a relative residual of 10⁻⁵. For s > 1 kernels are stored and decomposed
    together, up to rounding. The probe needs a `Dataset`.

    Args:
        s: number of eigenvectors, up to examples × outputs.

    Raises:
        ValueError: if `s` is not a positive integer.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> rng = np.random.default_rng(0)
        >>> data = ld.Dataset(rng.normal(size=(8, 3)), rng.normal(size=8), loss_scale=1.0)
        >>> system = ld.System(data, ld.MLP([3, 16, 1], "relu"), ld.SGD(0.1, batch=2))
        >>> record = ld.simulate(system, np.arange(5), probes={"watched": ld.probes.Watched(s=1)})
        >>> bool(np.all(record["loss_top"] <= record["error"] * (1 + 1e-5)))
        True
    """

    s: int = eqx.field(static=True)

    def __init__(self, s: int = 1):
        self.s = positive_int("s", s)

    @property
    def variables(self) -> dict[str, Variable]:
        captions = {
            "rate": "learning rate of the next step",
            "critical_rate": "critical learning rate of its batch",
            "kernel_norm": "norm of the tangent kernel",
            "loss_top": f"loss in the top {self.s} eigenspaces",
            "loss_rest": "loss outside of them",
            "batch_loss": "loss of the next batch",
            "batch_loss_after": "loss of the last batch, after its step",
        }
        return {name: Variable((), text, "") for name, text in captions.items()}

    def check(self, problem: AbstractProblem, outputs: int) -> None:
        every = problem.examples()
        if every is None:
            came = type(problem).__name__
            raise ValueError(
                f"probes: got Watched for a {came}; allowed is a problem of type Dataset"
            )
        if self.s > len(every.x) * outputs:
            allowed = f"1 to {len(every.x) * outputs}, the rows of the kernel"
            raise ValueError(f"s: got {self.s}; allowed is {allowed}")

    def begin(self, model: Model, problem: AbstractProblem) -> Vectors:
        """Vectors of all examples and outputs, for the kernel and for the curvature."""
        if self.s > 1:
            return {}
        x, _ = _examples(problem, model)
        # Not constant, or the first product could be 0; the reading adds a random vector.
        ones = jnp.ones(jax.eval_shape(model.outputs, x).size, model.dtype)
        return {"kernel": ones, "curvature": ones}

    def __call__(self, model: Model, step: Step) -> dict[str, Array]:
        return self.finish(self.read(model, step, self.begin(model, step.problem))[0])

    def read(self, model: Model, step: Step, memory: Vectors) -> tuple[dict[str, Array], Vectors]:
        problem = step.problem
        x, y = _examples(problem, model)
        output_shape(model, x)  # raises an error if examples depend on each other
        output, K, limit = model(x), as_matrix(model.kernel(x)), threshold_of(model, step)
        losses, counted = problem.losses(output, x, y), problem.loss.counted(y)
        part = lambda array, index: array if index is None or array is None else array[index]
        mean = lambda index: _mean(part(losses, index), part(counted, index))
        own = K if limit.root is None else as_matrix(kernel(*_preconditioned(model, limit, x)))
        values = {
            "error": mean(None),
            "rate": limit.rate.astype(K.dtype),
            "numerator": jnp.asarray(limit.numerator).astype(K.dtype),
            "shift": jnp.asarray(limit.shift).astype(K.dtype),
            "residual": _residual(problem, output, x, y),
            "batch_loss": mean(step.batch),
            "batch_loss_after": jnp.where(step.first, jnp.nan, mean(step.before)),
        }
        parts = {"kernel": K}
        if step.batch is None and limit.root is None and isinstance(problem.loss, SquaredLoss):
            # The curvature is a multiple of the kernel.
            values["factor"] = jnp.asarray(2 * problem.loss.scale / len(x), K.dtype)
        else:
            parts["curvature"] = _curvature(problem, own, output, y, step.batch)
        if self.s > 1:  # decomposed later, with those of other readings
            return values | parts, memory
        rows = _rows(step.batch, len(K), len(x))
        values["top"], vector = followed(K, memory["kernel"])
        memory |= {"kernel": vector}
        if "curvature" in parts:
            values["largest"], bent = followed(parts["curvature"], memory["curvature"][rows])
            # Of the size of the others, of which a batch has only a part.
            bent = bent * jnp.sqrt(len(rows)).astype(K.dtype)
            memory |= {"curvature": memory["curvature"].at[rows].set(bent)}
        return values | {"vector": vector}, memory

    def finish(self, values: dict[str, Array]) -> dict[str, Array]:
        if self.s > 1:
            top, vectors = top_of(values["kernel"], self.s)
        else:
            top, vectors = values["top"][None], values["vector"][:, None]
        if "factor" in values:
            largest = values["factor"] * top[0]
        else:
            largest = top_of(values["curvature"], 1)[0][0] if self.s > 1 else values["largest"]
        residual = values["residual"]
        inside = vectors @ (residual @ vectors)  # the projection on the top eigenspaces
        return values | {
            "critical_rate": critical_rate(largest + values["shift"], values["numerator"]),
            "kernel_norm": top[0],
            "loss_top": jnp.sum(inside**2),
            "loss_rest": jnp.sum((residual - inside) ** 2),
        }


def _examples(problem: AbstractProblem, model: Model) -> tuple[Array, Array]:
    every = problem.examples()
    assert every is not None
    return every.take(slice(None), model.dtype)


def _mean(losses: Array, counted: Array | None) -> Array:
    """The mean over the examples that count."""
    if counted is None:
        return jnp.mean(losses)
    return jnp.sum(losses) / jnp.maximum(jnp.sum(counted), 1).astype(losses.dtype)


def _residual(problem: AbstractProblem, output: Array, x: Array, y: Array) -> Array:
    """The vector whose square is the mean loss, by example and output; NaN if there is none."""
    if not isinstance(problem.loss, SquaredLoss):
        return jnp.full(output.size, jnp.nan, output.dtype)
    slope = jax.grad(lambda f: jnp.sum(problem.losses(f, x, y)))(output).reshape(-1)
    scale = jnp.asarray(problem.loss.scale, output.dtype)
    return slope / jnp.sqrt(4 * scale * len(x))  # slope = 2 scale · (output − target)


def _rows(batch: Array | None, size: int, examples: int) -> Array:
    """The rows of a kernel that belong to some examples: by example, then output."""
    each = jnp.arange(examples) if batch is None else batch
    outputs = size // examples
    return (each[:, None] * outputs + jnp.arange(outputs)).reshape(-1)


def _curvature(
    problem: AbstractProblem,
    K: Array,
    output: Array,
    y: Array,
    batch: Array | None,
) -> Array:
    """A^½ K A^½ with the curvature A of the mean loss: it has the Gauss-Newton eigenvalues."""
    if batch is not None:
        rows = _rows(batch, len(K), len(output))
        K, output, y = K[rows][:, rows], output[batch], y[batch]
    if isinstance(problem.loss, SquaredLoss):
        return K * (2 * jnp.asarray(problem.loss.scale, K.dtype) / len(output))
    roots = curvature_roots(MeanLoss(problem.loss, y).blocks(output))
    shape = len(output), len(K) // len(output)
    return weighted(K.reshape(*shape, *shape), roots)


def _preconditioned(model: Model, limit: Threshold, x: Array) -> tuple[Any, Any, Array]:
    """The network as a function of weights that a preconditioner has scaled."""
    zero = jax.tree.map(jnp.zeros_like, limit.root)
    return moved_by(model, limit.root), zero, inputs_of(model, x)
