"""Networks of vectors: fully connected layers, residual and dense links, graphs of layers."""
