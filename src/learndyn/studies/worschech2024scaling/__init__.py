"""Neural scaling laws in two-layer networks with power-law data spectra."""
