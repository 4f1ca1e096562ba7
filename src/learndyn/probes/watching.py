"""Every step's critical rate, kernel and split of the loss, in one pass over the examples."""

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.networks import Model
from learndyn.numerics.checks import positive_int
from learndyn.numerics.subspace import top_of, top_subspace, whole
from learndyn.numerics.types import Array
from learndyn.problems import AbstractProblem
from learndyn.records import Variable
from learndyn.rules.critical import kernel_matrix, squared_loss
from learndyn.rules.watching import AbstractStepProbe, Step

BESIDE, TURNS = 4, 30  # of subspace iteration: vectors beside those asked for, and products
WHOLE = 256  # rows of a matrix that an accelerator decomposes as fast as it iterates, on an H200
FEW = 16  # vectors up to which it is taken: among more, neighbours lie too close for so few turns


class Watched(AbstractStepProbe):
    """What `analysis.find_catapults` reads, at every recorded step: `simulate(probes=…)` takes it.

    One tangent kernel K of all examples a reading serves all of it: its norm; the split of the loss
    by its top s eigenvectors; and, by the block of the examples that the next step sees, η_crit of
    that batch, b/(scale · λ_max(K_batch)). Row t of a record is about the weights after t steps and
    the step that follows:

        rate, critical_rate             η, and η_crit of the batch
        kernel_norm                     ‖K‖ on all examples
        loss_top, loss_rest             the loss in the top s eigenspaces of K, and outside
        batch_loss, batch_loss_after    of the batch; of the last step's batch, after that step

    Eigenvectors are exact to rounding on a CPU; elsewhere, where that is slow, up to `FEW` of a
    kernel of more than `WHOLE` rows come from subspace iteration. It needs a `Dataset` with a
    `SquaredLoss`.

    Args:
        s: number of eigenvectors, up to examples × outputs.

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
        said = {
            "rate": "learning rate of the next step",
            "critical_rate": "critical learning rate of its batch",
            "kernel_norm": "norm of the tangent kernel",
            "loss_top": f"loss in the top {self.s} eigenspaces",
            "loss_rest": "loss outside of them",
            "batch_loss": "loss of the next batch",
            "batch_loss_after": "loss of the last batch, after its step",
        }
        return {name: Variable((), text, "") for name, text in said.items()}

    def check(self, problem: AbstractProblem, outputs: int) -> None:
        every = problem.examples()
        if every is None:
            came = type(problem).__name__
            raise ValueError(f"probes: got Watched for a {came}; allowed with a Dataset")
        squared_loss(problem)
        if self.s > len(every.x) * outputs:
            allowed = f"1 to {len(every.x) * outputs}, the rows of the kernel"
            raise ValueError(f"s: got {self.s}; allowed is {allowed}")

    def __call__(self, model: Model, step: Step) -> dict[str, Array]:
        every, problem = step.problem.examples(), step.problem
        assert every is not None
        x, y = every.take(slice(None), model.dtype)
        output = model(x)
        losses = problem.losses(output, x, y)
        K = kernel_matrix(model.network, model.weights, x)
        values, vectors = _top(K, self.s)
        residual = jax.grad(lambda f: jnp.sum(problem.losses(f, x, y)))(output).reshape(-1)
        scale = jnp.asarray(squared_loss(problem).scale, K.dtype)
        top = vectors @ (residual @ vectors)
        size = lambda part: jnp.sum(part**2) / (4 * scale * len(x))  # residual = 2 scale · r
        part = lambda index: losses if index is None else losses[index]
        return {
            "error": jnp.mean(losses),
            "rate": jnp.asarray(step.rate, K.dtype),
            "critical_rate": _critical(K, values[0], step.batch, len(x), scale),
            "kernel_norm": values[0],
            "loss_top": size(top),
            "loss_rest": size(residual - top),
            "batch_loss": jnp.mean(part(step.batch)),
            "batch_loss_after": jnp.where(step.first, jnp.nan, jnp.mean(part(step.before))),
        }


def _critical(K: Array, top: Array, batch: Array | None, examples: int, scale: Array) -> Array:
    """η_crit of some examples, by the block of the kernel that belongs to them."""
    if batch is None:
        return examples / (scale * top)
    outputs = len(K) // examples
    rows = (batch[:, None] * outputs + jnp.arange(outputs)).reshape(-1)
    return len(batch) / (scale * _top(K[rows][:, rows], 1)[0][0])


def _top(K: Array, s: int) -> tuple[Array, Array]:
    """The top eigenvalues, descending, and their vectors."""
    elsewhere = iterated if s <= FEW and len(K) > WHOLE else whole
    return jax.lax.platform_dependent(
        K, cpu=lambda K: top_of(K, s), default=lambda K: elsewhere(K, s)
    )


def iterated(K: Array, s: int) -> tuple[Array, Array]:
    """The top eigenvalues and vectors alone, by products.

    Those with a matrix that is held cost nothing beside the network's: a cold start does.
    """
    begin = jax.random.normal(jax.random.key(0), (len(K), min(s + BESIDE, len(K))), K.dtype)
    values, vectors = top_subspace(lambda V: K @ V, begin, TURNS)
    return values[:s], vectors[:, :s]
