"""One folder for each paper, one file for each figure or result: numbers and calls."""
