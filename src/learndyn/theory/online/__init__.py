"""Online learning of committees beyond a squared loss and a teacher at rest."""
