"""On-line learning in soft committee machines."""
