"""Readers of the files of public data sets."""
