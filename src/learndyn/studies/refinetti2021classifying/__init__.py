"""Classifying high-dimensional Gaussian mixtures: where kernel methods fail."""
