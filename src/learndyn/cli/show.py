"""`learndyn show`."""

import inspect

from learndyn.cli.options import STUDY


def show(study: STUDY) -> None:
    """Shows a study: title, parameters of its presets, time, data, claims."""
    from learndyn.studies import registry, sources, times

    found = registry.find(study)
    print(f"{study}  {found.TITLE}\n\n{inspect.getdoc(found)}\n\nParameters")
    for row in _parameters(found.PRESETS):
        print(f"  {row}")
    read = sources.readers(study)
    print(f"\nTime: quick under 1 min on two cores; paper {times.of_paper(study)}")
    print(f"Data: quick reads no files; paper {_data(read)}\n\nClaims")
    claims = sources.claims(study)
    told = [(said, source) for said, source in claims if any(map(str.isalpha, said))]
    for statement, source in told:
        print(f"  {statement} ({source})")
    if len(told) < len(claims):
        print("  and others, whose sentences are made of data alone")


def _parameters(presets) -> list[str]:
    """Name and value in every preset, in columns."""
    names = list(vars(next(iter(presets.values()))))
    rows = [["", *presets], *([n, *(str(getattr(p, n)) for p in presets.values())] for n in names)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _data(readers: list[str]) -> str:
    files = [name for name in readers if name != "digits"]
    if not files:
        return "neither"
    return f"may read {', '.join(files)} from --data-dir or LEARNDYN_DATA"
