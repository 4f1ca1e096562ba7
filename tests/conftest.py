"""Types are checked at run time in the tests, and only there; caches do not pile up."""

import contextlib
import ctypes
import gc
import os
import pathlib
import re
from collections.abc import Callable

import jax
import pytest
from jaxtyping import install_import_hook

os.environ["LEARNDYN_CACHE"] = "0"  # the tests leave a developer's own cache alone
STATUS = pathlib.Path("/proc/self/status")
install_import_hook("learndyn", "beartype.beartype").__enter__()


MOST = 1300  # MB that a worker may hold before it forgets what it compiled
GROWTH = 300  # MB that it may grow by before it does so again
_limit = [MOST]
# What takes long and has siblings in the default run.
LONG = {
    "test_images.py::test_wide_resnet_by_equinox",
    "test_images.py::test_myrtle_by_equinox",
    "test_quadratic_tasks.py::test_rates_are_of_the_kernel_and_the_linear_twin_knows_them",
    "test_curvature.py::test_output_hessians_in_a_ball[attention]",
    "test_taylor.py::test_against_finite_differences_and_the_dense_hessian[attention]",
    "test_kernel.py::test_the_operator_takes_batches[attention]",
    "test_theory.py::test_flow_of_weights_against_reference[SGD]",
    "test_theory.py::test_flow_of_weights_against_reference[sqrtNGD-d]",
    "test_theory.py::test_drift_is_the_average_of_real_steps[2-linear]",
    "test_watching.py::test_watched_values_equal_those_of_the_probes[schedule]",
    "test_watching.py::test_the_examples_and_the_rate_of_a_step_explain_it[schedule]",
    "test_starting.py::test_law_of_the_state_is_that_of_sampled_weights[init1-counts2]",
    *(
        f"test_matrix_product.py::test_directions_against_the_dense_hessian[{full}-sizes{i}]"
        for full in (True, False)
        for i in (0, 1, 2, 5)
    ),
    "test_optax.py::test_full_batches_are_those_of_a_loop_by_hand[line search]",
    "test_optax.py::test_full_batches_are_those_of_a_loop_by_hand[momentum]",
    "test_optax.py::test_a_clipped_transformation_is_no_longer_than_its_clip[0.0001]",
    "test_theory.py::test_flow_of_weights_against_reference[NGD]",
    "test_theory.py::test_erf_solution_by_level[L4]",
    "test_theory.py::test_quadratic_solution[p3]",
    "test_theory.py::test_asymmetry_of_rounding_does_not_grow",
    "test_risk.py::test_derivatives_are_those_of_autodiff[7-3-2]",
    "test_catapult.py::test_the_rule_does_what_the_control_does_on_the_closed_map[42]",
    "test_catapult.py::test_the_rule_does_what_the_control_does_on_the_closed_map[43]",
    "test_networks.py::test_battery[transformer-tangent_kernel_is_the_product_of_jacobians]",
    "test_networks.py::test_battery[Myrtle-tangent_kernel_is_the_product_of_jacobians]",
    "test_curvature.py::test_output_hessians_in_a_ball[convolution]",
    "test_curvature.py::test_critical_rates[attention]",
    "test_kernel.py::test_spectra[attention]",
    "test_kernel.py::test_the_operator_takes_batches[convolution]",
    "test_perturbation.py::test_optax_transformations_learn_digits_from_it[adam]",
    "test_levels.py::test_a_large_first_level_makes_the_limit_approximate",
    "test_solve.py::test_flow_is_the_limit_of_small_learning_rates",
    "test_theories.py::test_battery[erf-drift_is_the_slope_of_its_own_solution]",
    "test_theories.py::test_battery[clipped-both_roads_give_one_schema]",
    "test_catapult.py::test_large_kernels_are_followed_by_products",
    "test_fluctuations.py::test_linear_student_without_noise[400-full]",
    "test_erf.py::test_escape_of_the_true_trajectory",
    "test_erf_hessian.py::test_curve_approaches_the_ode_where_the_linear_law_does_not",
    "test_recursions.py::test_one_step_means_against_brute_force[sgd]",
    "test_theory.py::test_drawn_grams_have_the_law_of_weights",
    "test_quadratic.py::test_second_order_terms",
    "test_taylor.py::test_twins_train_under_every_kind_of_rule[equinox]",
    "test_noise.py::test_degenerate_rows[gelu-gelu-equal]",
    "test_noise.py::test_degenerate_rows[abs-sign-equal]",
    "test_noise.py::test_degenerate_rows[leaky_relu-tanh-equal]",
    "test_noise.py::test_a_unit_without_weights[gelu]",
    "test_noise.py::test_a_unit_without_weights[quadratic]",
    "test_noise.py::test_a_unit_without_weights[tanh]",
    "test_noise.py::test_derivative_against_differences[gelu]",
    *(
        f"test_pairs.py::test_pairs_against_quadrature[{pair}]"
        for pair in ("sine-relu", "quadratic-relu", "linear-gelu", "sine-gelu", "softplus-relu")
    ),
    "test_pairs.py::test_large_pre_activations[10.0-gelu]",
    "test_curvature.py::test_products_and_top[attention]",
    "test_curvature.py::test_products_and_top[convolution]",
    "test_curvature.py::test_critical_rates[convolution]",
    "test_curvature.py::test_the_linear_twin_diverges_above_the_kernels_rate",
    "test_catapult.py::test_the_rule_does_what_the_control_does_on_the_closed_map[41]",
    "test_range.py::test_theory_and_networks_agree[erf-erf-units0-spectrum0]",
    "test_range.py::test_theory_and_networks_agree[erf-erf-units1-spectrum1]",
    "test_landmarks.py::test_landmarks_are_what_trained_twins_do[3000]",
    "test_natural.py::test_a_block_is_a_layer_with_its_biases[ntk]",
    "test_natural.py::test_a_block_is_a_layer_with_its_biases[convolution]",
    "test_natural.py::test_a_step_is_that_by_the_jacobian[1.0-0.01-7]",
    "test_general.py::test_the_exact_chain_extrapolates_to_the_solution[mixed]",
    "test_theory.py::test_the_map_is_what_training_does[relu, on a line]",
    "test_theory.py::test_the_map_is_what_training_does[relu, on the axis]",
    "test_kernel.py::test_it_is_the_product_of_dense_jacobians[attention]",
    "test_kernel.py::test_blocks_do_not_change_it[attention]",
    "test_kernel.py::test_products_and_gradients_of_a_model[attention]",
    "test_kernel.py::test_spectra[convolution]",
    "test_kernels.py::test_sampled_networks_have_this_mean_kernel[biases]",
    "test_kfac.py::test_an_mlp_with_biases[ntk]",
    "test_kfac.py::test_a_convolution_with_biases",
    "test_arguments.py::test_they_are_refused_while_tracing_too[six]",
    "test_features.py::test_agop_is_that_of_the_dense_jacobian[attention]",
    "test_along.py::test_a_network_against_a_fine_grid_of_rates[0]",
    "test_natural.py::test_a_block_is_a_layer_with_its_biases[flat]",
    "test_natural.py::test_a_block_is_a_layer_with_its_biases[standard]",
    "test_natural.py::test_a_step_is_that_by_the_jacobian[1.0-0.0-40]",
    "test_natural.py::test_a_step_is_that_by_the_jacobian[0.5-0.1-7]",
    "test_kfac.py::test_deep_linear_networks_have_the_step_of_the_natural_gradient_of_layers[0.0]",
    "test_suggesting.py::test_a_plateau_is_waited_for",
    "test_noise.py::test_degenerate_rows[leaky_relu-tanh-parallel]",
    "test_noise.py::test_degenerate_rows[abs-sign-parallel]",
    "test_noise.py::test_degenerate_rows[gelu-gelu-parallel]",
    "test_noise.py::test_degenerate_rows[relu-relu-equal]",
    "test_noise.py::test_reference_values[softplus]",
    "test_noise.py::test_reference_values[swish]",
    "test_pairs.py::test_sums_of_erfs[gelu-sigmoid]",
    "test_pairs.py::test_pairs_against_quadrature[quadratic-gelu]",
    "test_watching.py::test_rates_are_those_of_the_optimiser[AdamW]",
    "test_watching.py::test_rates_are_those_of_the_optimiser[optax's momentum]",
    "test_watching.py::test_rates_are_those_of_the_optimiser[decay]",
    "test_watching.py::test_every_loss_has_a_critical_rate[2-2]",
    "test_own_loss.py::test_losses_against_dense_derivatives[a function]",
    "test_batches.py::test_mean_losses_are_those_of_many_runs[changing rates-2000]",
    "test_general.py::test_the_solution_is_that_of_an_independent_implementation[mixed]",
    "test_inertia.py::test_the_chain_is_that_of_real_networks[plain]",
    "test_accuracy.py::test_a_finer_computation_is_asked_for_by_accuracy",
    "test_compare.py::test_false_alarms_are_as_rare_as_promised",
    "test_starting.py::test_law_of_the_state_is_that_of_sampled_weights[init0-counts2]",
    "test_mixtures.py::test_networks_approach_the_theory_as_1_over_N[constants]",
    "test_mixtures.py::test_networks_approach_the_theory_as_1_over_N[teacher]",
    "test_mixtures.py::test_a_rate_that_changes_is_known_to_both",
    "test_mixtures.py::test_the_chain_is_that_of_real_networks[1-constants]",
    "test_mixtures.py::test_the_chain_is_that_of_real_networks[1-teacher]",
    "test_mixtures.py::test_the_chain_is_that_of_real_networks[2-teacher]",
    "test_mixtures.py::test_the_chain_is_that_of_real_networks[4-constants]",
    "test_general.py::test_real_networks_follow_the_solution[mixed]",
    "test_cache.py::test_the_next_process_does_not_compile",
    "test_own_loss.py::test_losses_against_dense_derivatives[tokens]",
    "test_watching.py::test_rates_are_those_of_the_optimiser[momentum]",
    "test_watching.py::test_rates_are_those_of_the_optimiser[Nesterov]",
    "test_watching.py::test_watched_values_equal_those_of_the_probes[epochs]",
    "test_watching.py::test_one_eigenvector_follows_the_kernel[all]",
    "test_curvature.py::test_the_exact_trace[convolution]",
    "test_noise.py::test_degenerate_rows[leaky_relu-tanh-all equal]",
    "test_noise.py::test_degenerate_rows[gelu-gelu-all equal]",
    "test_noise.py::test_degenerate_rows[relu-relu-parallel]",
    "test_pairs.py::test_large_pre_activations[30.0-gelu]",
    "test_own.py::test_a_network_and_a_rule_of_ones_own_do_what_ours_do",
    "test_perturbation.py::test_the_chain_has_the_law_of_the_rule[labels-5-4000]",
    "test_kernel.py::test_a_compiled_program_has_the_kernel_of_a_wide_twin",
    "test_optax.py::test_plain_sgd_is_that_of_the_rule",
    "test_landmarks.py::test_erf_plateau[2-0.9-0.4-1.3]",
    "test_erf.py::test_escape_rates_are_eigenvalues_of_the_jacobian[2]",
    "test_general.py::test_the_solution_is_that_of_an_independent_implementation[relu]",
    "test_range.py::test_degenerate_rows_are_solved_and_simulated[erf]",
    "test_theory.py::test_drift_is_the_average_of_real_steps[2-erf]",
    "test_mixtures.py::test_the_chain_is_that_of_real_networks[2-constants]",
    "test_noise.py::test_reference_values[gelu]",
    "test_noise.py::test_degenerate_rows[leaky_relu-tanh-in a plane]",
    "test_noise.py::test_degenerate_rows[abs-sign-all equal]",
    "test_noise.py::test_derivative_against_differences[relu]",
    "test_noise.py::test_many_units[relu-4]",
    "test_noise.py::test_a_unit_without_weights[relu]",
    *(
        f"test_noise.py::test_noise_against_quadrature[{pair}]"
        for pair in ("relu-tanh-1e-06", "quadratic-gelu-1e-06", "leaky_relu-sign-1e-10")
    ),
    "test_noise.py::test_noise_against_quadrature[leaky_relu-abs-1e-10]",
    "test_noise.py::test_noise_against_quadrature[abs-linear-1e-10]",
    "test_general.py::test_the_exact_chain_extrapolates_to_the_solution[relu]",
    "test_curvature.py::test_moments_of_the_density_are_exact_for_its_draws[convolution]",
    "test_curvature.py::test_the_exact_trace[attention]",
    *(
        f"test_pairs.py::test_pairs_against_quadrature[{pair}]"
        for pair in ("gelu-abs", "relu-gelu", "gelu-sign", "linear-relu")
    ),
    "test_pairs.py::test_derivatives_of_tables_are_finite[gelu]",
    "test_pairs.py::test_pairs_with_biases[relu-gelu]",
    "test_pairs.py::test_price[gelu-relu]",
    "test_schedules.py::test_networks_follow_the_schedule[direct-100]",
    "test_rules.py::test_battery[catapults-small_steps_lower_the_loss]",
    "test_rules.py::test_battery[perturbation-a_step_keeps_shape_and_precision]",
    "test_networks.py::test_battery[wide ResNet-tangent_kernel_is_the_product_of_jacobians]",
    "test_random.py::test_chi_squares_of_no_degree_are_zero_and_do_not_meet[Philox4x32-10]",
    "test_gauss_newton.py::test_blocks_add_up[150]",
    "test_inputs.py::test_several_inputs[logits-by name]",
    "test_diffusion.py::test_closed_forms_are_exact[quadratic-2-1-1-1]",
    "test_landmarks.py::test_erf_plateau_at_the_own_learning_rate[2-0.9-0.4-rule1-0.1]",
    "test_kernels.py::test_sampled_networks_have_this_mean_kernel[residual]",
    "test_batches.py::test_a_step_of_moments_is_the_average_over_all_batches[False]",
    "test_taylor.py::test_against_finite_differences_and_the_dense_hessian[dense net]",
    "test_dense.py::test_values_alone_and_under_vmap[lead2-triangular]",
    "test_moments.py::test_field_is_that_of_the_levels[erf]",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.rpartition("/")[2] in LONG:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _forget():
    """Compiled programs pile up to gigabytes; while there is room, the next tests share them."""
    yield
    if _held("VmRSS") > _limit[0]:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # not every C library has it
            ctypes.CDLL(None).malloc_trim(0)
        # What remains is not compiled programs: to forget at every test would help nobody.
        _limit[0] = max(MOST, _held("VmRSS") + GROWTH)


def _held(what: str) -> float:
    """MB that the process holds, as the system counts them; 0 where it does not say."""
    if not STATUS.exists():
        return 0.0
    found = re.search(rf"{what}:\s+(\d+)", STATUS.read_text())
    return int(found[1]) / 1024 if found else 0.0


@pytest.fixture
def peak_memory() -> Callable[[Callable[[], object]], float]:
    """By how many MB the process grows at its peak during some work, XLA's buffers included."""
    reset = pathlib.Path("/proc/self/clear_refs")
    if not reset.exists():
        pytest.skip("needs /proc to see what XLA holds")

    def grown(work: Callable[[], object]) -> float:
        gc.collect()
        reset.write_text("5")  # the peak so far is forgotten
        before = _held("VmRSS")
        work()
        return _held("VmHWM") - before

    return grown
