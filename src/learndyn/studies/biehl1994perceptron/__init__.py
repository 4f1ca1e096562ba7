"""On-line learning with a perceptron: how the error of each rule falls."""
