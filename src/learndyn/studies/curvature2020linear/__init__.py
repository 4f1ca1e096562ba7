"""Curvature-corrected learning dynamics in deep linear neural networks."""
