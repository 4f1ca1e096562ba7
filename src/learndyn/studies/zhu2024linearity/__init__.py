"""Toward understanding the dynamics of over-parameterized neural networks, chapter 2."""
