"""Rules for PyTorch training loops. It needs PyTorch, which is an optional dependency."""

from learndyn.rules.pytorch.scheduler import CatapultLR as CatapultLR
