"""On the stability and scalability of node perturbation learning (its supplement)."""
