"""The population risk of quadratic committees: its Hessian, stationary points and minima."""
