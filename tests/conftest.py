"""Types are checked at run time in the tests, and only there."""

from jaxtyping import install_import_hook

install_import_hook("learndyn", "beartype.beartype").__enter__()
