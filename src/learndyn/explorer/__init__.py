"""The explorer: local pages on which sliders move a theory, and networks train on top."""
