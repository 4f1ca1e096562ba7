"""Claims and replications as tables of a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from learndyn.studies.claims import COUNTED, Claim, tally
from learndyn.studies.replication import Row

PLURALS = {"claim": "claims", "erratum": "errata", "finding": "findings", "theorem": "theorems"}


def show_claims(claims: Sequence[Claim], listed: Mapping[str, str]) -> None:
    """Prints one row a claim.

    Args:
        claims: the claims.
        listed: name → reason, of those known to fail.
    """
    table = Table("", "statement", "source", "expected", "measured", "tolerance")
    for claim in claims:
        table.add_row(*map(escape, _cells(claim, listed)))  # square brackets are markup to rich
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
        f"{claim.measured:.6g}",
        allowed,
    )


def tally_line(claims: Sequence[Claim]) -> str:
    """How many hold, fail and are open, by kind."""
    return "; ".join(
        f"{PLURALS[kind]}{'' if kind in COUNTED else ' (checks of the code, not counted)'}: "
        f"{n['holds']} hold, {n['fails']} fail, {n['open']} open"
        for kind, n in tally(claims).items()
    )


def show_replication(rows: Iterable[Row], listed: Mapping[str, str]) -> None:
    """Prints how often each claim held.

    Args:
        rows: one a claim.
        listed: name → reason, of those known to fail.
    """
    table = Table("", "claim", "kind", "held", "95 % interval", "promised")
    for row in rows:
        verdict = f"{row.verdict}, listed" if row.name in listed else row.verdict
        interval = f"{row.low:.3f} … {row.high:.3f}"
        held = f"{row.held}/{row.count}"
        table.add_row(verdict, escape(row.name), row.kind, held, interval, f"{row.rate:g}")
    _print(table)


def show_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints texts in columns.

    Args:
        heads: of the columns.
        rows: their cells.
    """
    table = Table(*heads)
    for row in rows:
        table.add_row(*row)
    _print(table)


def _print(table: Table) -> None:
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
