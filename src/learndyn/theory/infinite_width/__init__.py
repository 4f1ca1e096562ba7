"""Networks of infinite width: Gaussian processes that learn with a fixed kernel."""
