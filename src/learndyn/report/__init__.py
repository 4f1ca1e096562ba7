"""A page about a folder of results, in one file: figures, claims, errata, provenance."""

from learndyn.report.page import page as page
