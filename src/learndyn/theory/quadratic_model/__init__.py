"""Models that are quadratic in their weights, under gradient descent."""
