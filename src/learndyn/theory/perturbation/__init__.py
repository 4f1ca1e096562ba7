"""Two linear layers under node perturbation and SGD: traces, Gram matrix and exact chain."""
