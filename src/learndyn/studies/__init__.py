"""One folder per paper, one file per figure or result; studies have numbers and calls only."""
