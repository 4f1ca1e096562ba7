"""Committees on mixtures of Gaussians, and committees with several outputs."""
