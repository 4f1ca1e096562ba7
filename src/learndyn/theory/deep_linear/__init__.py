"""Deep linear networks under curvature-corrected rules: singular modes and the learned map."""
