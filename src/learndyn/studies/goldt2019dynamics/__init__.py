"""Dynamics of stochastic gradient descent for two-layer networks, teacher and student."""
