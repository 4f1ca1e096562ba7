"""What the theory covers, and the states that it draws, takes and gives back."""

import numpy as np
import pytest

import learndyn as ld

NP = ld.NodePerturbation


def test_covers_with_what_is_left_out(two_layers):
    it = two_layers.system(100, 10_000, 10, NP(1e-5, sigma=1e-3))
    level, reason = ld.theory_of(it).covers(it)
    assert level == "approximate" and "L_h^(−1/2) = 0.01" in reason
    assert "2/L_y = 0.2" in reason and "sigma² = 1e-06" in reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: ld.System(s.problem, ld.DeepLinear([4, 6, 6, 3]), s.rule), "3 layers"),
        (lambda s: ld.System(s.problem, ld.MLP([4, 6, 3], "relu"), s.rule), "not DeepLinear"),
        (lambda s: ld.System(s.problem, s.network, ld.GradientDescent(0.1)), "does not sample"),
        (
            lambda s: ld.System(
                ld.TeacherStudent(ld.Spectrum([2.0], [4]), s.problem.teacher), s.network, s.rule
            ),
            "not white with unit variance",
        ),
        (
            lambda s: ld.System(ld.Dataset(np.eye(4), np.eye(4)[:, :3]), s.network, s.rule),
            "not a LinearTeacher",
        ),
    ],
)
def test_refuses_the_rest(change, said, two_layers):
    it = change(two_layers.system(4, 6, 3, NP(0.1)))
    assert said in ld.theory.PerturbationTheory.covers(it).reason


def test_rules_that_break_the_symmetry_have_no_chain(two_layers):
    """Optimisers that look at single weights, or rows of them, are not the rule's own law."""
    import optax

    it = two_layers.system(4, 60, 3, NP(0.1))
    other = ld.System(it.problem, it.network, ld.Optax(optax.normalize_by_update_norm(), batch=1))
    with pytest.raises(ValueError, match="all directions of the hidden layer alike"):
        ld.simulate(other, [1], method="reduced")


@pytest.mark.parametrize(
    "rule", [NP(1e-3, batch=4), NP(1e-3, perturbations=2), ld.SGD(1e-3, batch=4)]
)
def test_batches_are_covered_and_simulated_but_not_solved(rule, two_layers):
    it = two_layers.system(4, 60, 3, rule)
    assert ld.theory_of(it).name == "perturbation"
    said = r"\Asystem: got one that the perturbation theory does not solve at any order, as the "
    said += (
        r"equations are for one example[^\n]*, and the rule is [^\n]*; allowed here is `simulate`\Z"
    )
    with pytest.raises(ValueError, match=said) as caught:
        ld.solve(it, [1])
    assert repr(rule) in str(caught.value)
    with pytest.raises(ValueError, match=r"\Asystem: [^\n]*one example[^\n]* is `simulate`\Z"):
        ld.theory_of(it).drift(ld.start(it).state)
    assert ld.simulate(it, [3], method="reduced").attrs["method"] == "reduced"
    assert ld.theory_of(it).landmarks() == {}


def test_drawn_grams_have_the_law_of_weights(two_layers):
    """Means and variances of all entries of G over 4000 draws of either kind."""
    it = two_layers.system(3, 4, 2, NP(1e-3), init=ld.Xavier(0.7))
    theory, rng = ld.theory_of(it), np.random.default_rng(1)
    drawn = np.array([theory.sample(key)[0].matrix for key in range(4000)])
    sampled = []
    for _ in range(4000):
        W_1, W_2 = it.network.sample(rng, (3,))
        U = np.concatenate([W_2.T, W_1], axis=1)
        sampled.append(U.T @ U)
    sampled = np.array(sampled)
    for power in (1, 2):
        a, b = (m**power for m in (drawn, sampled))
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 4000)
        assert np.max(np.abs(a.mean(axis=0) - b.mean(axis=0)) / error) < 4.2
    # Narrower than the Gram matrix is large: of rank 4.
    assert np.all(np.abs(np.linalg.eigvalsh(drawn)[:, 0]) < 1e-12)


def test_other_initialisations_are_drawn_as_weights(two_layers):
    it = two_layers.system(4, 6, 3, NP(1e-3), init=ld.SmallRandom(0.1))
    begin = ld.start(it, key=3)
    assert np.linalg.norm(begin.weights[0], 2) == pytest.approx(0.1)
    assert ld.theory_of(it).landmarks() == {}
    assert "critical_learning_rate" in ld.theory_of(it).landmarks(state=begin.state)


def test_error_is_the_loss(two_layers):
    it = two_layers.system(4, 6, 3, NP(1e-3), loss_scale=0.7, noise=0.3)
    begin = ld.start(it, key=3)
    gap = begin.weights[1] @ begin.weights[0] - begin.teacher
    found = ld.theory_of(it).observe(begin.state)
    assert found["error"] == pytest.approx(0.7 * np.sum(gap**2))
    assert found["error"] == pytest.approx(0.7 * 12 * found["epsilon"])


def test_teachers_that_are_drawn(two_layers):
    problem = ld.TeacherStudent(ld.Isotropic(40), ld.LinearTeacher(30))
    it = ld.System(problem, ld.DeepLinear([40, 500, 30]), NP(1e-6))
    begin = ld.start(it, key=2)
    np.testing.assert_array_equal(begin.teacher, begin.state.A)
    assert np.mean(begin.teacher**2) == pytest.approx(1 / 40, rel=0.15)
    other = ld.start(it, key=3)
    assert np.max(np.abs(other.teacher - begin.teacher)) > 0.1


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ld.Traces(1.0, -1.0, 0.1, 0.0), "state: got beta = -1.0; allowed is a non-negative"),
        (ld.Traces(1.0, 1.0, 0.1, np.nan), "state: got phi = nan; allowed is a number"),
        (ld.Gram(np.eye(2), np.eye(4), np.zeros((2, 4)), np.zeros((2, 4))), "P of shape"),
        (ld.Gram(np.eye(3), np.eye(4), 2 * np.eye(3, 4), np.zeros((3, 4))), "eigenvalue"),
        (ld.Gram(np.eye(3), np.eye(4), np.zeros((3, 4)), np.eye(3, 4)), "another A"),
        (ld.Gram(np.eye(3), np.triu(np.ones((4, 4))), np.zeros((3, 4)), np.eye(3, 4)), "symmetric"),
    ],
)
def test_wrong_states_say_what_is_wrong(state, said, two_layers):
    it = two_layers.system(4, 6, 3, NP(1e-3))
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        ld.start(it, state=state)
    assert said in str(caught.value)


def test_shapes_of_a_gram():
    with pytest.raises(ValueError, match=r"N: got shape \(3, 3\); allowed beside P"):
        ld.Gram(np.eye(3), np.eye(3), np.zeros((3, 4)), np.zeros((3, 4)))


def test_too_narrow_a_layer_has_no_weights(two_layers):
    it = two_layers.system(4, 2, 3, NP(1e-3))
    state = ld.Gram(np.eye(3), np.eye(4), np.zeros((3, 4)), it.problem.teacher.matrix)
    with pytest.raises(ValueError, match="rank 7; allowed is at most the width 2"):
        ld.start(it, state=state).weights  # noqa: B018
