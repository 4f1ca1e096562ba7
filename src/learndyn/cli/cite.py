"""`learndyn cite`."""

from learndyn.studies.references import PAPERS


def cite(paper: str) -> None:
    """Prints the BibTeX entry of a paper."""
    if paper not in PAPERS:
        raise ValueError(f"paper: got {paper!r}; allowed are {', '.join(PAPERS)}")
    print(PAPERS[paper].bibtex())
