"""Networks with theories, and teachers: committees, deep linear and quadratic networks."""
