"""Networks of which N_l directions are trained, on Gaussian inputs or on images, for Fig. 3."""

from typing import Any

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.worschech2024scaling._linear import step_times
from learndyn.studies.worschech2024scaling._model import committee_system
from learndyn.theory.committee.dynamics import linear
from learndyn.theory.committee.power_law import features
from learndyn.theory.committee.setting import CommitteeSetting


def curves(params: Any, n: int, spectrum: ld.Spectrum, horizon: float, x) -> xr.Dataset:
    """One N_l: every network with the flow from its start, and the means of the theory."""
    eta, sigma_J = params.eta, params.sigma_J
    system = committee_system("linear", spectrum, eta=eta, sigma_J=sigma_J, trainable=n)
    times = step_times(horizon, params.points, system)
    keys = range(params.key * params.starts, (params.key + 1) * params.starts)
    starts = [ld.start(system, key=key) for key in keys]
    flows = [ld.solve(system, times, start=start, order="flow")["error"].values for start in starts]
    if x is None:
        found = ld.simulate(system, times, starts=starts, key=keys[0], method="direct")
        networks = found["error"].isel(run=0).values
    else:
        pairs = zip(starts, keys, strict=True)
        networks = np.stack([_on_images(x, system, times, start, key) for start, key in pairs])
    setting, lam = CommitteeSetting.of(system), np.repeat(spectrum.values, spectrum.counts)
    return xr.Dataset(
        {
            "networks": (("start", "time"), networks),
            "flow": (("start", "time"), np.stack(flows)),
            "theory": ("time", features.error(times, lam, n, eta=eta, sigma_J=sigma_J)),
            "finite_eta": ("time", linear.mean_curve(setting, times)["error"]),
            "margin": linear.finite_size_margin(setting),
        },
        {"time": ("time", times, {"long_name": "α = steps / N"})},
    )


def _on_images(x: np.ndarray, system: ld.System, times, start: ld.Start, key: int) -> np.ndarray:
    """The errors of the same student, teacher and rule, with images for inputs."""
    y = system.network(start.teacher, x)  # with K = M = 1 the teacher is the same function
    real = ld.System(ld.Dataset(x, np.asarray(y)), system.network, system.rule)
    weights = ld.Start(None, lambda: (start.weights, None))  # the labels are the teacher
    # Where the spectrum is the images' own, the error by overlaps is that on all images.
    measure = ld.theory_of(system).measure
    probes = {"all_images": lambda model: measure(model.weights, start.teacher)["error"]}
    run = ld.simulate(real, times, start=weights, key=key, method="direct", probes=probes)
    return run["all_images"].isel(run=0).values
