"""Networks that are linear in their weights: `theory.py` is the theory, `modes.py` its formulas."""
