"""What architectures are made of: affine maps, activations, initialisations."""
