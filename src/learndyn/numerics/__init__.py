"""Mathematics that knows no network, data set or rule."""
