"""PyTorch modules as models. Imported only where one is given: PyTorch is an extra."""
