"""Every study in its quick preset, computed once for all tests of it."""

from typing import Any, NamedTuple

import pytest
import xarray as xr

from learndyn.studies import registry

# More than eight seconds on two free cores: `make test-all` runs them too.
LONG = {
    "biehl1993drifting/tracking",
    "biehl1994perceptron/exponents",
    "sollich1997finite/passes",
    "refinetti2021classifying/xor",
    "saad1995online/outputs",
    "bocchi2026escape/bias",
    "bocchi2026escape/escape",
    "bocchi2026escape/fig2",
    "bocchi2026escape/fig4",
    "bocchi2026escape/phase_diagram",
    "bocchi2026escape/phases",
    "bocchi2026escape/plateau",
    "bocchi2026escape/regimes",
    "bocchi2026escape/stability",
    "bocchi2026escape/student_overlaps",
    "bocchi2026escape/tail",
    "curvature2020linear/effective_depth",
    "curvature2020linear/fig2",
    "curvature2020linear/figS1",
    "curvature2020linear/figS2",
    "curvature2020linear/stability",
    "hiratani2022perturbation/approximations",
    "hiratani2022perturbation/equations",
    "hiratani2022perturbation/figS1",
    "hiratani2022perturbation/figS2",
    "worschech2024scaling/fig4",
    "bocchi2026escape/fig1",
    "bocchi2026escape/jitter",
    "curvature2020linear/fig1",
    "curvature2020linear/fig3",
    "hiratani2022perturbation/fig1",
    "hiratani2022perturbation/fig2",
    "hiratani2022perturbation/fig3",
    "worschech2024scaling/best_rate",
    "worschech2024scaling/equations",
    "worschech2024scaling/fig1",
    "worschech2024scaling/fig15",
    "worschech2024scaling/fig17",
    "worschech2024scaling/fig18",
    "worschech2024scaling/fig19",
    "worschech2024scaling/fig2",
    "worschech2024scaling/fig20",
    "worschech2024scaling/fig3",
    "worschech2024scaling/fig5",
    "worschech2024scaling/fig6",
    "worschech2024scaling/plateau_exact",
    "hiratani2022perturbation/closing_the_gap",
    "hiratani2022perturbation/fig4",
    "hiratani2022perturbation/fig5",
    "hiratani2022perturbation/figS3",
    "hiratani2022perturbation/figS4",
    "hiratani2022perturbation/figS5",
    "zhu2024catapults/fig4_10",
    "zhu2024catapults/fig4_5",
    "zhu2024quadratic/figB_2",
    "zhu2024catapults/fig4_11",
    "zhu2024catapults/fig4_8",
    "zhu2024catapults/fig4_9",
    "zhu2024catapults/figC_14",
    "zhu2024catapults/figC_15",
    "zhu2024catapults/figC_18",
    "zhu2024catapults/figC_22",
    "zhu2024catapults/alignment_scatter",
    "zhu2024catapults/schedule_or_noise",
    "zhu2024catapults/table4_1",
    "zhu2024catapults/fig4_3",
    "zhu2024catapults/fig4_4",
    "zhu2024catapults/fig4_6",
    "zhu2024catapults/fig4_7",
    "zhu2024catapults/table4_2",
    "lee2019wide/largest_rate",
    "lee2019wide/widths",
    "goldt2019dynamics/final_error",
    "goldt2019dynamics/other_activation",
    "saad1995online/plateau",
    "saad1995online/momentum",
    "worschech2024scaling/best_schedule",
    "zhu2024linearity/fig2_2",
    "zhu2024linearity/fig2_3",
    "zhu2024linearity/hessian_norm",
    "zhu2024linearity/linearity_ball",
    "zhu2024linearity/pl_condition",
    "zhu2024quadratic/equations",
    "zhu2024quadratic/fig3_1",
    "zhu2024quadratic/fig3_2",
    "zhu2024quadratic/fig3_3",
    "zhu2024quadratic/fig3_4",
    "zhu2024quadratic/figB_10",
    "zhu2024quadratic/figB_4",
    "zhu2024quadratic/figB_8",
    "zhu2024quadratic/phase_diagram",
}


class Ran(NamedTuple):
    name: str
    study: Any
    data: xr.Dataset
    reported: list[float]


# Of the session's scope: pytest brings the tests of one study together, and one worker with them.
@pytest.fixture(
    scope="session",
    params=[pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in registry.names()],
)
def ran(request) -> Ran:
    study, reported = registry.find(request.param), []
    data = registry.compute(study, study.PRESETS["quick"], reported.append)
    return Ran(request.param, study, data, reported)
