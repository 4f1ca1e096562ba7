import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from learndyn.networks.solvable import matrix_product

STATIC = ("blocks", "form")
compiled = jax.jit(matrix_product.natural_direction, static_argnames=STATIC)
inverse_power = jax.jit(matrix_product.inverse_power, static_argnames=("power", "form"))
map_kernel, sides = jax.jit(matrix_product.map_kernel), jax.jit(matrix_product.sides)
compiled_for_power = jax.jit(matrix_product.natural_direction, static_argnames=("power", *STATIC))

SIZES = [(3, 4, 2), (4, 2, 5), (2, 3, 5), (3, 3, 3, 3), (4, 3, 5, 2), (5, 2, 4, 3, 4), (4, 3)]
POWERS = [0, 1 / 3, 1 / 2, 2 / 3, 1]

# Computed independently by explicit Hessians: weights and target det(…), last layer of −direction,
# by (power, blocks, damping).
REFERENCE = {
    (3, 4, 2): {
        (0, False, 0.0): [
            [-0.28849140018843, -0.58692644582455, 0.62730972051226, -0.26692075701954],
            [0.86428861661258, 1.6775385658221, -1.3394420589277, 1.0708343493803],
        ],
        (1 / 3, False, 0.0): [
            [-0.12834587622483, -0.36394171136427, 0.40781530430727, -0.13793249852125],
            [0.4190661876797, 0.9829456775441, -0.76979792059289, 0.61083280857686],
        ],
        (1 / 2, False, 0.0): [
            [-0.076674850116268, -0.2881670772067, 0.33197563860103, -0.095747967385045],
            [0.28116468419292, 0.75591728663465, -0.58659875792778, 0.46083570718756],
        ],
        (1, False, 0.0): [
            [0.010412729127256, -0.14741548783464, 0.18759648684589, -0.022368374815511],
            [0.056741890624092, 0.35207101669573, -0.26799531451511, 0.19558482364557],
        ],
        (1, False, 0.1): [
            [0.0065307064697119, -0.15722395626171, 0.19839870577797, -0.026336837857065],
            [0.06689111052726, 0.37781335876443, -0.28715700837104, 0.21198359427435],
        ],
        (1 / 2, True, 0.0): [
            [0.061978696038662, -0.25203771901968, 0.40953979745434, 0.033064609983614],
            [0.081853804079691, 0.70243167311334, -0.55554892724323, 0.36712219972705],
        ],
        (1, True, 0.0): [
            [0.2872012206463, -0.15855237357999, 0.45615083887024, 0.22542596549503],
            [-0.25444901685415, 0.36628094053058, -0.37122186465647, 0.048336539777471],
        ],
    },
    (3, 3, 3, 3, 3): {
        (0, False, 0.0): [
            [0.96469012185883, -0.70871307260564, -0.78255828442089],
            [3.0121669051274, -2.151271125122, -2.5547885129992],
            [-1.6819231512631, 0.92204026076254, 1.6021013702772],
        ],
        (1 / 3, False, 0.0): [
            [0.111293070484, -0.076651805454419, 0.024856926448931],
            [1.2372538192798, -0.60146317704232, -1.1576412840602],
            [-0.35971901168611, 0.036869811872626, 0.54567996176493],
        ],
        (1 / 2, False, 0.0): [
            [0.041719806161137, 0.0018924044357024, 0.19225547612744],
            [0.84843689522394, -0.29081232131633, -0.807922159366],
            [-0.070542305127796, -0.050259211528842, 0.37166127188362],
        ],
        (1, False, 0.0): [
            [0.85372125173563, 0.25926640125476, 0.79861502735985],
            [0.55933390541564, 0.13791727062081, -0.1757734293481],
            [1.0298719387936, 0.24081209033144, 0.74018926332798],
        ],
        (1, False, 0.1): [
            [0.0022255728632836, 0.0001949390579145, 0.28753938592742],
            [0.34965497018102, 0.018542825604391, -0.34792197648434],
            [0.14312180330307, -0.063994232120959, 0.17048743329788],
        ],
        (1 / 2, True, 0.0): [
            [0.46452064045409, -0.11387696063975, -0.22093458785302],
            [1.080642906194, -0.48467782934066, -1.0512341766686],
            [-0.4392970372898, 0.24668995565721, 0.81991191164513],
        ],
        (1, True, 0.0): [
            [1.4640218554845, 0.51825699359073, 0.98072239658161],
            [0.42981753238776, -0.064288461846487, -0.42070446134321],
            [1.7443637647564, 0.81536092233922, 1.9400667301298],
        ],
    },
}
KERNEL_EIGENVALUES = [
    0.015608797814039937,
    0.6174319371192861,
    1.4691710147688608,
    2.679268496920156,
    3.726514768373202,
    6.6650183516505646,
    6.816145247587224,
    13.712799658375815,
    42.02107374636857,
]
# w_1 after the unit time of a flow of three 3 × 3 layers, by (power, blocks).
FLOWS = {
    (0, False): [
        [1.312194342333, 0.5706216685674, -0.003356737189862],
        [0.3612509979419, 1.155184466821, -0.3734179806831],
        [-0.01225790022819, -0.441888787905, 1.513191428746],
    ],
    (1, False): [
        [1.333392850396, 0.4568338610613, -0.05254413970568],
        [0.3716801254903, 1.132046371641, -0.3831375803788],
        [-0.09710855496953, -0.3580029875152, 1.47598512151],
    ],
    (1, True): [
        [1.378870236111, 0.3437199527767, 0.02086497886072],
        [0.6625572661086, 1.409536279806, -0.7499250253868],
        [-0.2070042186641, -0.4013890977094, 1.722257760059],
    ],
    (1 / 2, True): [
        [1.36402249896, 0.4386843685647, 0.01765852967016],
        [0.5181641643989, 1.233682239081, -0.5404509902084],
        [-0.1092122131323, -0.3664824513207, 1.608284479127],
    ],
}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def det(n, m, k, scale):
    i, j = np.ogrid[:n, :m]
    return scale * np.sin(k + 0.7 * i * i + 1.3 * j + 0.37 * i * j)


def draw(sizes, seed=0, columns=None):
    """Weights, a gradient of the map and a root that is not symmetric."""
    rng = np.random.default_rng([seed, *sizes])
    weights = tuple(rng.standard_normal((m, n)) for n, m in itertools.pairwise(sizes))
    columns = sizes[0] if columns is None else columns
    root = np.eye(sizes[0], columns) + 0.3 * rng.standard_normal((sizes[0], columns))
    return weights, rng.standard_normal((sizes[-1], columns)), root


def jacobians(weights, root=None):
    """∂vec(w_d ⋯ w_1 R)/∂vec w_i: the product is linear in each weight."""
    root = np.eye(weights[0].shape[1]) if root is None else root

    def product(changed):
        return np.linalg.multi_dot([np.eye(len(changed[-1])), *changed[::-1], root])

    found = []
    for i, w in enumerate(weights):
        columns = []
        for b, a in np.ndindex(w.shape[::-1]):
            unit = np.zeros_like(w)
            unit[a, b] = 1
            columns.append(product([*weights[:i], unit, *weights[i + 1 :]]).ravel(order="F"))
        found.append(np.array(columns).T)
    return found


def dense(weights, G, power, root=None, blocks=False, damping=0.0, form="paper"):
    """H^(−power) g by the eigenvalues of JᵀJ, or of each layer's block."""
    parts, scale = jacobians(weights, root), (1 + damping) ** power if form == "paper" else 1.0
    if not blocks:
        parts = [np.hstack(parts)]
    else:
        scale /= len(weights) ** power
    moves = []
    for J in parts:
        values, vectors = np.linalg.eigh(J.T @ J)
        keep = (values > 1e-11 * values[-1]) | (damping > 0)
        inner = vectors[:, keep].T @ J.T @ G.ravel(order="F")
        moves.append(vectors[:, keep] @ (inner * (values[keep] + damping) ** -power))
    flat, ends = scale * np.concatenate(moves), np.cumsum([w.size for w in weights])[:-1]
    pieces = np.split(flat, ends)
    return [v.reshape(w.shape, order="F") for v, w in zip(pieces, weights, strict=True)]


def traced_direction(weights, G, power, root=None, blocks=False, damping=0.0, form="paper"):
    return compiled(weights, G, power, root=root, blocks=blocks, damping=damping, form=form)


def known_direction(weights, G, power, root=None, blocks=False, damping=0.0):
    return compiled_for_power(weights, G, power, root=root, blocks=blocks, damping=damping)


def relative_error(found, expected):
    found = np.concatenate([np.ravel(w) for w in found])
    expected = np.concatenate([np.ravel(w) for w in expected])
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("sizes", SIZES)
def test_products_and_sides(sizes):
    weights, _, root = draw(sizes, columns=3)
    whole = matrix_product.product(weights)
    expected = np.linalg.multi_dot([np.eye(sizes[-1]), *weights[::-1], np.eye(sizes[0])])
    np.testing.assert_allclose(whole, expected, atol=1e-12)
    for R in (None, root):
        lefts, rights = sides(weights, R)
        for left, w, right in zip(lefts, weights, rights, strict=True):
            whitened = whole if R is None else whole @ R
            np.testing.assert_allclose(left @ w @ right, whitened, atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_kernel_is_the_jacobians(sizes):
    weights, _, root = draw(sizes, columns=3)
    for R in (None, root):
        J = np.hstack(jacobians(weights, R))
        found = map_kernel(weights, R)
        np.testing.assert_allclose(found, J @ J.T, rtol=1e-12, atol=1e-12 * np.sum(J**2))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("blocks", [False, True])
def test_directions_against_the_dense_hessian(sizes, blocks):
    weights, G, root = draw(sizes)
    roots, dampings = (None, root, root @ root.T), (0.0, 0.02, 0.3)
    for power, R, damping in itertools.product(POWERS, roots, dampings):
        expected = dense(weights, G, power, R, blocks, damping)
        found = traced_direction(weights, G, power, R, blocks, damping)
        assert relative_error(found, expected) < 1e-10


@pytest.mark.parametrize("sizes", [(4, 3), (3, 4, 2), (3, 3, 3, 3), (5, 2, 4, 3, 4)])
def test_powers_that_are_known_take_the_same_direction(sizes):
    weights, G, root = draw(sizes)
    for power, damping in itertools.product((0, 1), (0.0, 0.02)):
        expected = dense(weights, G, power, root, damping=damping)
        found = known_direction(weights, G, power, root, damping=damping)
        assert relative_error(found, expected) < 1e-10


@pytest.mark.parametrize("columns, sizes", [(2, (3, 4, 2)), (7, (3, 4, 2)), (7, (3, 3, 3, 3))])
@pytest.mark.parametrize("blocks", [False, True])
def test_rectangular_roots(sizes, columns, blocks):
    # Fewer and more samples than inputs: Σ = R Rᵀ, G = Δ R.
    weights, G, root = draw(sizes, columns=columns)
    for power in (0.5, 1):
        expected = dense(weights, G, power, root, blocks)
        found = traced_direction(weights, G, power, root, blocks)
        assert relative_error(found, expected) < 1e-10


@pytest.mark.parametrize("sizes", [(3, 4, 2), (3, 3, 3, 3)])
@pytest.mark.parametrize("blocks", [False, True])
def test_levenberg_drops_a_factor(sizes, blocks):
    weights, G, _ = draw(sizes)
    for power in POWERS:
        found = traced_direction(weights, G, power, None, blocks, 0.3, "levenberg")
        expected = dense(weights, G, power, None, blocks, 0.3, "levenberg")
        assert relative_error(found, expected) < 1e-10


def test_large_damping_is_the_gradient_in_the_papers_form():
    weights, G, _ = draw((3, 3, 3, 3))
    gradient = matrix_product.natural_direction(weights, G, 0)
    for power in (0.5, 1):
        found = traced_direction(weights, G, power, damping=1e10)
        assert relative_error(found, gradient) < 1e-7
        found = traced_direction(weights, G, power, damping=1e10, form="levenberg")
        assert relative_error([1e10**power * w for w in found], gradient) < 1e-7


@pytest.mark.parametrize("sizes", SIZES)
def test_directions_have_the_least_norm(sizes):
    weights, G, _ = draw(sizes)
    J = np.hstack(jacobians(weights))
    _, s, Vt = np.linalg.svd(J)
    null = Vt[np.sum(s > 1e-10 * s[0]) :]
    for power, damping in ((0.5, 0.0), (1, 0.0), (1, 0.1)):
        found = traced_direction(weights, G, power, damping=damping)
        flat = np.concatenate([np.ravel(w, order="F") for w in found])
        assert np.linalg.norm(null @ flat) < 1e-12 * np.linalg.norm(flat)
        if (power, damping) == (1, 0.0):  # the map moves along G as far as it can
            reached = J @ np.linalg.pinv(J) @ G.ravel(order="F")
            np.testing.assert_allclose(J @ flat, reached, atol=1e-10)


@pytest.mark.parametrize("sizes", list(REFERENCE))
def test_reference_updates(sizes):
    pairs = enumerate(itertools.pairwise(sizes), 1)
    weights = tuple(det(m, n, i, 0.9) for i, (n, m) in pairs)
    Delta = np.asarray(matrix_product.product(weights)) - det(sizes[-1], sizes[0], 7.0, 1.1)
    for (power, blocks, damping), expected in REFERENCE[sizes].items():
        found = traced_direction(weights, Delta, power, blocks=blocks, damping=damping)
        np.testing.assert_allclose(-found[-1], expected, rtol=2e-12, atol=2e-12)
        if power == 1 / 2:  # every block and the kernel have full rank: |ẇ| = |Δ| (Eq. 16)
            norm = np.sqrt(sum(np.sum(w**2) for w in found))
            assert abs(norm - np.linalg.norm(Delta)) < 1e-13 * norm
    if len(weights) == 4:
        values = np.linalg.eigvalsh(map_kernel(weights))
        np.testing.assert_allclose(values, KERNEL_EIGENVALUES, rtol=1e-12)


@pytest.mark.parametrize("power, blocks", list(FLOWS))
def test_reference_flows(power, blocks):
    start = np.array([det(3, 3, i, 0.4) + np.eye(3) for i in (1, 2, 3)])
    target = det(3, 3, 7.0, 0.6) + 1.5 * np.eye(3)

    @jax.jit
    def rate(flat):
        weights = tuple(flat.reshape(3, 3, 3))
        Delta = matrix_product.product(weights) - target
        moves = matrix_product.natural_direction(weights, Delta, power, blocks=blocks)
        return -jnp.stack(moves).ravel()

    run = solve_ivp(
        lambda _, y: np.asarray(rate(y)), (0, 1), start.ravel(), "DOP853", rtol=1e-11, atol=1e-12
    )
    w = run.y[:, -1].reshape(3, 3, 3)
    np.testing.assert_allclose(w[0], FLOWS[power, blocks], atol=1e-10)
    if power == 1:  # the map forgets its start at rate 1, with or without blocks
        first, last = start[2] @ start[1] @ start[0], w[2] @ w[1] @ w[0]
        np.testing.assert_allclose(last - target, (first - target) / np.e, atol=1e-10)
    balance = [v[:-1] @ v[:-1].mT - v[1:].mT @ v[1:] for v in (start, w)]
    drift = np.linalg.norm(balance[1] - balance[0])
    assert drift > 0.4 if blocks else drift < 1e-10  # Eq. 4


@pytest.mark.parametrize("power", [0, 1])
@pytest.mark.parametrize("blocks", [False, True])
def test_integer_powers_and_damping(power, blocks):
    weights, G, _ = draw((3, 4, 2))
    found = traced_direction(weights, G, power, blocks=blocks, damping=2)
    expected = traced_direction(weights, G, float(power), blocks=blocks, damping=2.0)
    assert relative_error(found, expected) < 1e-12


def test_batches_and_loops():
    weights, G, _ = draw((3, 3, 3, 3))
    target = np.asarray(matrix_product.product(weights)) - G

    def step(_, weights):
        Delta = matrix_product.product(weights) - target
        moves = matrix_product.natural_direction(weights, Delta, 1, damping=0.1)
        return tuple(w - 0.01 * move for w, move in zip(weights, moves, strict=True))

    looped = jax.jit(lambda weights: jax.lax.fori_loop(0, 3, step, weights))(weights)
    by_hand, once = weights, jax.jit(step)
    for _ in range(3):
        by_hand = once(0, by_hand)
    assert relative_error(looped, by_hand) < 1e-12
    batch = tuple(np.stack([w, 2 * w, 0 * w]) for w in weights)
    found = jax.vmap(lambda weights: known_direction(weights, G, 1))(batch)
    for i, scale in enumerate((1, 2)):
        alone = known_direction(tuple(scale * w for w in weights), G, 1)
        assert relative_error([w[i] for w in found], alone) < 1e-10
    assert all(np.all(w[2] == 0) for w in found)


@pytest.mark.parametrize("sizes", [(4, 3), (4, 2, 5), (3, 3, 3, 3), (5, 2, 4, 3, 4)])
@pytest.mark.parametrize("blocks", [False, True])
def test_zero_and_rank_deficient_weights(sizes, blocks):
    weights, G, _ = draw(sizes)
    zero = tuple(np.zeros_like(w) for w in weights)
    rank_one = tuple(np.outer(w[:, 0], w[0]) for w in weights)
    one_zero = (np.zeros_like(weights[0]), *weights[1:])
    cases = itertools.product((zero, rank_one, one_zero), (0, 0.5, 1), (0.0, 1e-5))
    for case, power, damping in cases:
        options = {"blocks": blocks, "damping": damping}
        moves = [traced_direction(case, G, power, **options)]
        if power == 1:
            moves.append(known_direction(case, G, 1, **options))
        for found in moves:
            if len(weights) > 1 and case is zero:
                assert all(np.all(w == 0) for w in found)
            else:
                assert relative_error(found, dense(case, G, power, **options)) < 1e-9


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("columns", [None, 3])
def test_both_solvers_of_power_one(condition, columns):
    rng = np.random.default_rng(1)
    n = 12
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.geomspace(1, 1 / condition, n)
    v = rng.standard_normal(n if columns is None else (n, columns))
    exact = U @ ((U.T @ v).T / values).T
    found = inverse_power(U * values @ U.T, v, 1)
    assert np.linalg.norm(found - exact) < 1e-15 * condition * n * np.linalg.norm(exact)


def test_singular_matrices_take_the_pseudo_inverse():
    rng = np.random.default_rng(2)
    factor = rng.standard_normal((30, 20))
    K, v = factor @ factor.T, rng.standard_normal(30)
    expected = np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ v
    np.testing.assert_allclose(inverse_power(K, v, 1), expected, atol=1e-11)
    np.testing.assert_allclose(inverse_power(K, v, 0), v, atol=0)
    traced = jax.jit(lambda power: matrix_product.inverse_power(K, v, power))
    np.testing.assert_allclose(traced(0.0), v, atol=1e-13)  # no projection on the range of K
    assert np.all(inverse_power(np.zeros((4, 4)), np.ones(4), 1) == 0)


def test_the_cut_off_is_relative_to_the_largest_eigenvalue():
    K, v = np.diag([1e8, 1.0, 1e-3, 0.0]), np.ones(4)
    np.testing.assert_allclose(inverse_power(K, v, 1), [1e-8, 1, 1e3, 0], rtol=1e-12)
    for power in (1, 0.5):
        found = inverse_power(K, v, power, cutoff=1e-9)
        np.testing.assert_allclose(found, [1e-8**power, 1, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(
        inverse_power(K, v, 1, damping=0.5, form="levenberg"), 1 / (np.diag(K) + 0.5), rtol=1e-12
    )


def test_bad_input():
    weights, G, _ = draw((3, 2))
    with pytest.raises(ValueError, match="form: got 'other'; allowed is one of 'paper'"):
        matrix_product.natural_direction(weights, G, 1, form="other")
    with pytest.raises(ValueError, match=r"damping: got -0\.1; allowed is a non-negative"):
        matrix_product.inverse_power(np.eye(2), np.ones(2), 1, damping=-0.1)


def test_block_condition_is_that_of_the_dense_blocks():
    rng = np.random.default_rng(0)
    weights = tuple(rng.standard_normal((3, 3)) for _ in range(3))
    lefts, rights = matrix_product.sides(weights)
    blocks = [np.kron(r @ r.T, l.T @ l) for l, r in zip(lefts, rights, strict=True)]
    dense = max(np.linalg.cond(block) for block in blocks)
    np.testing.assert_allclose(matrix_product.block_condition(weights), dense, rtol=1e-6)
