"""Derivatives of a function `apply(weights, x)`: nodes, Jacobians, kernels. Knows no network."""

from learndyn.tangent.taps import forward as forward
from learndyn.tangent.taps import revisit as revisit
from learndyn.tangent.taps import tap as tap
