"""On-line learning from finite training sets."""
