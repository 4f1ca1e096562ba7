"""Wide networks under gradient descent, and their limit of infinite width."""
