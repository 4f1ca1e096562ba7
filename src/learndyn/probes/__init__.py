"""Looks at a network without changing it: functions of a `Model` and of examples."""

from learndyn.probes.activity import participation_ratio as participation_ratio
from learndyn.probes.perturbation import MeasuredCosine as MeasuredCosine
from learndyn.probes.perturbation import UpdateCosine as UpdateCosine
from learndyn.probes.perturbation import measured_update_cosine as measured_update_cosine
from learndyn.probes.perturbation import update_cosine as update_cosine
from learndyn.probes.update_noise import LossChange as LossChange
from learndyn.probes.update_noise import UpdateCovariance as UpdateCovariance
from learndyn.probes.update_noise import loss_change as loss_change
from learndyn.probes.update_noise import update_covariance as update_covariance
