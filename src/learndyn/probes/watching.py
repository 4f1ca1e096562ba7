"""Critical rate, kernel and split of the loss at every step, in one pass over the examples."""

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.models import Model
from learndyn.numerics.subspace import top_of, top_subspace, whole
from learndyn.probes.arguments import output_shape
from learndyn.problems import AbstractProblem
from learndyn.records import Variable
from learndyn.rules.critical import squared_loss
from learndyn.rules.watching import AbstractStepProbe, Step
from learndyn.runtime.checks import positive_int
from learndyn.runtime.types import Array
from learndyn.tangent.kernel import as_matrix, critical_rate

BESIDE, TURNS = 4, 30  # subspace iteration: additional vectors, and number of products
WHOLE = 256  # rows up to which a full eigendecomposition is as fast as iteration (on an H200)
FEW = 16  # vectors up to which iteration is used: gaps between more are too small for TURNS


class Watched(AbstractStepProbe):
    """Records what `analysis.find_catapults` needs at every step, for `simulate(probes=…)`.

    All values follow from one tangent kernel K of all examples: its norm, the split of the loss by
    its top s eigenvectors, and η_crit = b/(scale · λ_max(K_batch)) of the b examples that the next
    step sees, from their block of K. Row t of a record describes the weights after t steps and the
    next step:

        rate, critical_rate             η, and η_crit of the batch
        kernel_norm                     ‖K‖ on all examples
        loss_top, loss_rest             the loss in the top s eigenspaces of K, and outside
        batch_loss, batch_loss_after    of the batch; of the last step's batch, after that step

    Eigenvectors are exact up to rounding on a CPU. On accelerators, where that is slow, up to `FEW`
    eigenvectors of a kernel of more than `WHOLE` rows come from subspace iteration. The probe needs
    a `Dataset` with a `SquaredLoss`.

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
        squared_loss(problem)
        if self.s > len(every.x) * outputs:
            allowed = f"1 to {len(every.x) * outputs}, the rows of the kernel"
            raise ValueError(f"s: got {self.s}; allowed is {allowed}")

    def __call__(self, model: Model, step: Step) -> dict[str, Array]:
        every, problem = step.problem.examples(), step.problem
        assert every is not None
        x, y = every.take(slice(None), model.dtype)
        output_shape(model, x)  # raises an error if examples depend on each other
        output = model(x)
        losses = problem.losses(output, x, y)
        K = as_matrix(model.kernel(x))
        values, vectors = _top(K, self.s)
        residual = jax.grad(lambda f: jnp.sum(problem.losses(f, x, y)))(output).reshape(-1)
        scale = jnp.asarray(squared_loss(problem).scale, K.dtype)
        top = vectors @ (residual @ vectors)  # the residual's projection on the top eigenspaces
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
    """η_crit of some examples, from their block of the kernel."""
    if batch is None:
        return critical_rate(scale * top, examples)
    outputs = len(K) // examples
    # Rows of the kernel are ordered by example, then output.
    rows = (batch[:, None] * outputs + jnp.arange(outputs)).reshape(-1)
    return critical_rate(scale * _top(K[rows][:, rows], 1)[0][0], len(batch))


def _top(K: Array, s: int) -> tuple[Array, Array]:
    """The top eigenvalues, descending, and their vectors."""
    elsewhere = iterated if s <= FEW and len(K) > WHOLE else whole
    return jax.lax.platform_dependent(
        K, cpu=lambda K: top_of(K, s), default=lambda K: elsewhere(K, s)
    )


def iterated(K: Array, s: int) -> tuple[Array, Array]:
    """The top eigenvalues and vectors, by subspace iteration.

    Products with a stored matrix are cheap compared with the network, so that it starts from random
    vectors each time.
    """
    begin = jax.random.normal(jax.random.key(0), (len(K), min(s + BESIDE, len(K))), K.dtype)
    values, vectors = top_subspace(lambda V: K @ V, begin, TURNS)
    return values[:s], vectors[:, :s]
