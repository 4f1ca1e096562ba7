"""Learning drifting concepts with neural networks."""
