"""The verdicts of a run: how many claims hold, and whether that is what the study expects."""

from collections.abc import Mapping, Sequence

from learndyn.studies.claims import KINDS, STATUSES, Claim


def tally(claims: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """The numbers of claims that hold, fail and are open, for each kind that occurs."""
    of = lambda kind: [claim.status for claim in claims if claim.kind == kind]
    return {
        kind: {status: of(kind).count(status) for status in STATUSES} for kind in KINDS if of(kind)
    }


def complaints(claims: Sequence[Claim], listed: Mapping[str, str], *, own: bool) -> list[str]:
    """Differences between the verdicts of a run and those that the study expects.

    Args:
        claims: the claims of one run.
        listed: name → reason, for the claims that are known to fail.
        own: whether the run had exactly the preset's parameters, including the key. With others, a
            claim that is listed as failing may hold by chance.

    Returns:
        One line for each failing claim that is not listed, for each listed claim that does not
        fail, and for each listed claim that is our own: only a paper's claims may be listed.
    """
    failing = {claim.name for claim in claims if claim.status == "fails"}
    ours = {claim.name for claim in claims if claim.kind in ("finding", "theorem")}
    lines = [f"fails and is not listed: {name}" for name in sorted(failing - set(listed))]
    lines += [f"is ours and listed as failing: {name}" for name in sorted(ours & set(listed))]
    if own:
        wrong = sorted(set(listed) - failing)
        lines += [f"listed as failing and does not fail: {name}" for name in wrong]
    return lines


def repeated(claims: Sequence[Claim]) -> list[str]:
    """Names that occur more than once."""
    names = [claim.name for claim in claims]
    return sorted({name for name in names if names.count(name) > 1})
