"""Rules for loops of PyTorch. Import it where PyTorch is there: it is an extra."""

from learndyn.rules.pytorch.scheduler import CatapultLR as CatapultLR
