"""Prints claims and replications as tables in the terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from learndyn.studies.claims import COUNTED, Claim
from learndyn.studies.replication import Row
from learndyn.studies.verdicts import tally

PLURALS = {"claim": "claims", "erratum": "errata", "finding": "findings", "theorem": "theorems"}


def show_claims(claims: Sequence[Claim], listed: Mapping[str, str]) -> None:
    """Prints one row per claim.

    Args:
        claims: the claims.
        listed: name → reason, for claims that are known to fail.
    """
    table = Table("", "statement", "source", "expected", "measured", "tolerance")
    for claim in claims:
        table.add_row(*map(escape, _cells(claim, listed)))  # rich reads square brackets as markup
    _print(table)


def _cells(claim: Claim, listed: Mapping[str, str]) -> tuple[str, ...]:
    known = listed.get(claim.name, "") if claim.status == "fails" else ""
    status = f"{claim.status}, listed" if known else claim.status
    why = claim.why_open or known
    printed = f" (printed: {claim.printed})" if claim.printed else ""
    allowed = "" if claim.tolerance is None else f"{claim.tolerance:.3g}: {claim.tolerance_from}"
    return (
        status if claim.kind == "claim" else f"{status}, {claim.kind}",
        claim.statement + (f" [{claim.status}: {why}]" if why else ""),
        claim.source,
        f"{claim.relation} {claim.expected:.6g}{printed}",
        f"{claim.measured:.6g}" + _interval(claim),
        allowed,
    )


def _interval(claim: Claim) -> str:
    return "" if claim.low is None else f" ({claim.low:.3g} … {claim.high:.3g})"


def tally_line(claims: Sequence[Claim]) -> str:
    """The numbers of claims that hold, fail and are open, by kind, in one line."""
    return "; ".join(
        f"{PLURALS[kind]}{'' if kind in COUNTED else ' (checks of the code, not counted)'}: "
        f"{n['holds']} hold, {n['fails']} fail, {n['open']} open"
        for kind, n in tally(claims).items()
    )


def show_replication(rows: Iterable[Row], listed: Mapping[str, str]) -> None:
    """Prints how often each claim held.

    Args:
        rows: one per claim.
        listed: name → reason, for claims that are known to fail.
    """
    table = Table("", "claim", "kind", "held", "95 % interval", "promised")
    for row in rows:
        verdict = f"{row.verdict}, listed" if row.name in listed else row.verdict
        interval = f"{row.low:.3f} … {row.high:.3f}"
        held = f"{row.held}/{row.count}"
        table.add_row(verdict, escape(row.name), row.kind, held, interval, f"{row.rate:g}")
    _print(table)


def show_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table of texts.

    Args:
        heads: the headings of the columns.
        rows: the cells of each row.
    """
    table = Table(*heads)
    for row in rows:
        table.add_row(*row)
    _print(table)


def _print(table: Table) -> None:
    console = Console()
    # In a pipe rich assumes 80 columns, which leaves statements a few words per line.
    console.width = max(console.width, 120)
    console.print(table)
