"""PyTorch modules as models. Imported only when needed: PyTorch is an optional dependency."""
