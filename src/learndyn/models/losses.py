"""Checks of a loss that a user wrote, whatever library computes it."""

from typing import Any

import numpy as np


def unfit(outputs: Any, y: Any, error: Exception) -> ValueError:
    """The error for a loss that fails."""
    why = str(error).strip().partition("\n")[0]
    return ValueError(
        f"loss: it fails for outputs of shape {tuple(outputs.shape)} and targets of shape "
        f"{tuple(np.shape(y))} ({why}); allowed is a loss that takes these"
    )


def check_each(came: Any, count: int) -> None:
    """Raises a ValueError if the loss of so many examples is not one number for each."""
    if tuple(came) != (count,):
        shown = f"shape {tuple(came)}" if tuple(came) else "one number, such as a mean,"
        raise ValueError(
            f"loss: got {shown} for {count} examples; allowed is one loss per example, as with "
            "reduction='none', or a module of torch.nn with reduction='mean'"
        )
