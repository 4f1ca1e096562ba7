"""How computations are run: checks, precision, progress, interruption, memory. No mathematics."""
