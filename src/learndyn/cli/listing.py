"""`learndyn list`."""

from learndyn.studies import registry


def list_studies() -> None:
    """Lists the studies, one per line."""
    for name in registry.names():
        print(f"{name}  {registry.title(name)}")
