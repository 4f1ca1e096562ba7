"""The committee's chain against one step of SGD on weights and inputs that are written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.rules.base import moved
from learndyn.runtime.precision import to_numpy


def system(activation, spectrum, K=3, M=2, eta=0.7, batch=1, noise=0.2, loss_scale=0.5):
    teacher = ld.Committee(M, activation, scale=0.8)
    data = ld.TeacherStudent(spectrum, teacher, label_noise=noise, loss_scale=loss_scale)
    return ld.System(data, ld.Committee(K, activation, scale=0.6), ld.SGD(eta, batch=batch))


def trained(activation, spectrum, batch=1, biased=False, K=3):
    """Outputs of both signs that learn, decay, a teacher with outputs that were drawn."""
    biases, extra = ([0.3, -0.2, 0.1], ("biases",)) if biased else (None, ())
    law = ld.Normal(0.5)
    teacher = ld.Committee(
        2, activation, scale=0.8, outputs=ld.Normal(1.0), biases=law if biased else None
    )
    student = ld.Committee(
        K, activation, scale=0.6, outputs=[0.7, -0.4, 0.5], biases=biases,
        train=("inputs", "outputs", *extra),
    )  # fmt: skip
    data = ld.TeacherStudent(spectrum, teacher, label_noise=0.2)
    rule = ld.SGD(0.3, batch=batch, output_rate=0.5, decay=0.7, output_decay=0.4)
    return ld.System(data, student, rule)


def frame(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def root(S):
    """Cholesky without pivoting of a semidefinite matrix, zero columns kept."""
    S, V, diagonal = S.copy(), np.zeros_like(S), np.diag(S).copy()
    for j in range(len(S)):
        if S[j, j] > 1e-13 * diagonal[j]:
            V[:, j] = S[:, j] / np.sqrt(S[j, j])
            S -= np.outer(V[:, j], V[:, j])
    return V


class Explicit:
    """Weights and inputs in N dimensions that have the coordinates and draws of a chain."""

    def __init__(self, it, state, normals, chi_squares, rng):
        self.it, self.chain = it, ld.theory_of(it).chain()
        spectrum = it.problem.inputs.spectrum
        K, M, b, L = it.network.units, it.problem.teacher.units, it.rule.batch, spectrum.levels
        self.noise = normals[-b:]
        g = normals[: b * (K + M) * L].reshape(b, K + M, L)
        below = normals[b * (K + M) * L : len(normals) - b]
        fixed, moving = self.chain.begin(state)
        m = min(b, K)
        A = np.zeros((m, m, L))
        A[np.tril_indices(m, -1)] = below.reshape(-1, L)
        A[range(m), range(m)] = np.sqrt(chi_squares.reshape(m, L))
        rows, inputs, self.rests = [], [], []
        for l, (n, lam) in enumerate(zip(spectrum.counts, spectrum.values, strict=True)):
            V = root(moving.S[..., l])
            used = np.flatnonzero(np.diag(V) > 0)
            spare = [j for j in range(K) if j not in used]
            axes = sorted([*used, *spare][: max(min(n - M, K), 0)])  # the axes that there are
            teacher = np.concatenate([fixed.B[..., l, 0], np.zeros((M, len(axes)))], axis=1)
            student = np.concatenate([moving.U[..., l], V[:, axes]], axis=1)
            span = min(n, M + len(axes))
            E = frame(rng, n)
            rows.append(np.sqrt(it.dim) * np.concatenate([student, teacher])[:, :span] @ E[:span])
            along = np.concatenate([g[:, :M, l], g[:, M:, l][:, axes]], axis=1)[:, :span]
            inputs.append(np.sqrt(lam) * along @ E[:span])
            self.rests.append((np.sqrt(lam), A[..., l][:, : n - span], E[span:]))
        self.rows, self.inputs = np.concatenate(rows, axis=1), np.concatenate(inputs, axis=1)
        self.W, self.B = self.rows[:K], self.rows[K:]
        self.weights = it.network.joined(self.W, state.outputs, state.biases)
        labels = state.teacher_outputs, state.teacher_biases
        self.teacher = it.problem.teacher.joined(self.B, *labels)

    def full_inputs(self):
        """Inputs with the part that the weights do not see, (b, N)."""
        b, K = self.it.rule.batch, self.it.network.units
        mix = np.eye(b)
        if b > K:  # examples whose rests have D rest = F A
            D = self.slopes()
            mix = np.linalg.pinv(D) @ root(D @ D.T)
        unseen = []
        for scale, A, E in self.rests:
            rest = np.zeros((len(A), len(E)))
            rest[:, : A.shape[1]] = A[:, : len(E)]
            unseen.append(scale * mix @ rest @ E)
        return self.inputs + np.concatenate(unseen, axis=1)

    def targets(self, x):
        teacher = self.it.problem.teacher
        return np.asarray(teacher(self.teacher, x)) + self.it.problem.label_noise * self.noise

    def slopes(self):
        """δ of every example, (K, b)."""
        _, v, b = self.it.network.parts_of(self.weights)
        x = self.inputs / np.sqrt(self.it.dim) @ self.W.T + (0 if b is None else b)
        g = self.it.network.g
        slope = jax.jvp(g, (jnp.asarray(x),), (jnp.ones(x.shape),))[1]
        gap = self.targets(self.inputs) - np.asarray(self.it.network(self.weights, self.inputs))
        return np.asarray(slope * (1 if v is None else v)).T * gap

    def after(self):
        """The state after one step of SGD."""
        x = self.full_inputs()
        y = self.targets(x)
        loss = lambda w: self.it.problem.mean_loss(self.it.network, w, x, y)
        weights = jax.tree.map(jnp.asarray, self.weights)
        gradient = jax.jit(jax.grad(loss))(weights)
        direction = self.it.rule.step_law.direction(self.it.network, weights, gradient)
        weights = to_numpy(moved(weights, direction, -self.it.rule.learning_rate))
        return ld.theory_of(self.it).project(weights, self.teacher)


@eqx.filter_jit
def stepped_by(chain, fixed, moving, normals, chi_squares):
    after = chain.step(fixed, moving, normals, chi_squares)
    return chain.state(fixed, jax.tree.map(lambda leaf: leaf[..., 0], after))


def compare_one_step(it, state, seed=0, moves="Q"):
    rng = np.random.default_rng(seed)
    chain = ld.theory_of(it).chain()
    normals = rng.standard_normal(chain.normals)
    chi_squares = np.where(chain.degrees > 0, rng.chisquare(np.maximum(chain.degrees, 1)), 0.0)
    with jax.enable_x64(True):
        fixed, moving = chain.begin(state)
        moving = jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], moving)
        stepped = stepped_by(chain, fixed, moving, normals[:, None], chi_squares[:, None])
        ours = to_numpy(stepped)
        theirs = Explicit(it, state, normals, chi_squares, rng).after()
    for found, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12)
    change = np.abs(getattr(ours, moves) - getattr(state, moves))
    assert np.max(change) > 1e-4  # something has moved


SPECTRA = {
    "one level": ld.Isotropic(20),
    "levels": ld.Spectrum([2.0, 0.5], [8, 12]),
    "exactly d": ld.Spectrum([2.0, 0.5], [5, 6]),
    "scarce": ld.Spectrum([4.0, 2.0, 1.0, 0.5], [1, 2, 4, 9]),
}


@pytest.mark.parametrize(
    ("activation", "spectrum", "batch"),
    [
        ("linear", "one level", 1),
        ("quadratic", "levels", 1),
        ("erf", "exactly d", 1),
        ("erf", "scarce", 1),
        ("erf", "levels", 3),
        ("quadratic", "scarce", 2),
        ("erf", "scarce", 7),
        ("linear", "levels", 7),
    ],
)
def test_one_step_is_a_step_of_sgd(activation, spectrum, batch):
    it = system(activation, SPECTRA[spectrum], eta=0.3, batch=batch)
    compare_one_step(it, ld.start(it, key=1).state)


@pytest.mark.parametrize(
    ("activation", "spectrum", "batch", "biased"),
    [
        ("erf", "one level", 1, False),
        ("quadratic", "scarce", 1, True),
        ("erf", "levels", 3, True),
        ("erf", "scarce", 7, True),
    ],
)
def test_one_step_with_outputs_and_biases_that_learn(activation, spectrum, batch, biased):
    it = trained(activation, SPECTRA[spectrum], batch, biased)
    compare_one_step(it, ld.start(it, key=1).state)


def test_one_step_of_outputs_alone():
    teacher = ld.Committee(2, "erf")
    data = ld.TeacherStudent(SPECTRA["levels"], teacher)
    student = ld.Committee(3, "erf", train="outputs")
    it = ld.System(data, student, ld.SGD(1.0, decay=0.5))
    state = ld.start(it, key=1).state
    compare_one_step(it, state, moves="outputs")


def test_one_step_where_not_every_level_learns():
    teacher = ld.Committee(2, "erf")
    data = ld.TeacherStudent(SPECTRA["levels"], teacher)
    it = ld.System(data, ld.Committee(3, "erf", trainable=8), ld.SGD(1.0))
    compare_one_step(it, ld.start(it, key=1).state)


def test_one_step_from_singular_overlaps():
    """Rows that vanish or coincide, in levels that do and do not have room."""
    it = system("erf", ld.Spectrum([2.0, 1.0], [4, 12]))
    rng = np.random.default_rng(3)
    W = rng.standard_normal((3, 16))
    B = rng.standard_normal((2, 16))
    W[0, :4] = 0.5 * B[0, :4]  # no axis of its own in the scarce level
    W[1, 4:] = W[2, 4:]
    state = ld.theory_of(it).project(W, B)
    compare_one_step(it, state)
    B[1] = 0.0
    compare_one_step(it, ld.theory_of(it).project(W, B))
    W[:, :4] = 0.0
    compare_one_step(it, ld.theory_of(it).project(W, B))


def test_many_units():
    """More rows than are unrolled."""
    it = system("erf", ld.Isotropic(40), K=18)
    compare_one_step(it, ld.start(it, key=1).state)


def test_begin_keeps_the_state():
    it = system("erf", SPECTRA["scarce"])
    state = ld.start(it, key=4).state
    chain = ld.theory_of(it).chain()
    with jax.enable_x64(True):
        again = to_numpy(chain.state(*chain.begin(state)))
    for name in ("Q", "R", "T"):
        np.testing.assert_allclose(getattr(again, name), getattr(state, name), atol=1e-13)


@pytest.mark.parametrize("spectrum", ["levels", "scarce"])
def test_begin_keeps_rows_of_every_length_and_dependent_ones(spectrum):
    it = system("erf", SPECTRA[spectrum])
    W, B = np.split(np.random.default_rng(0).standard_normal((5, it.dim)), [3])
    W *= np.array([1e-9, 1e-4, 1.0])[:, None]
    W[2] = B[0] - 2 * B[1]  # inside the teacher's span
    state = ld.theory_of(it).project(W, B)
    chain = ld.theory_of(it).chain()
    with jax.enable_x64(True):
        fixed, moving = chain.begin(state)
        again = to_numpy(chain.state(fixed, moving))
    lengths = np.sqrt(np.einsum("lii->li", state.gram))
    scale = lengths[:, :, None] * lengths[:, None]
    assert np.all(np.abs(again.gram - state.gram) <= 1e-13 * scale)
    assert np.all(moving.S[2, 2] <= 1e-26 * state.Q[:, 2, 2])
    for l, count in enumerate(it.problem.inputs.spectrum.counts):  # axes from the first on
        assert not np.any(fixed.B[:, count:, l]) and not np.any(moving.U[:, count:, l])


def test_overlaps_of_too_high_a_rank_are_refused():
    it = system("erf", ld.Isotropic(4))
    chain = ld.theory_of(it).chain()
    with pytest.raises(ValueError, match="state: the overlaps of a level have rank 5"):
        chain.begin(ld.Overlaps(np.eye(3), np.zeros((3, 2)), np.eye(2)))


def test_only_sampling_has_a_chain():
    data = ld.TeacherStudent(ld.Isotropic(9), ld.Committee(1, "erf"))
    descent = ld.System(data, ld.Committee(1, "erf"), ld.GradientDescent(0.1))
    assert "does not sample" in ld.theory_of(descent).chain().reason
