"""The names of the package: imported on first use, all there, none hidden by a room."""

import importlib.metadata
import pathlib
import pkgutil
import subprocess
import sys
import types

import pytest

import learndyn as ld

ROOT = pathlib.Path(ld.__file__).parent


def test_every_public_name_is_there():
    for name in ld.__all__:
        assert getattr(ld, name) is not None and name in dir(ld)
    assert ld.__version__ == importlib.metadata.version("learndyn")
    assert (ROOT / "py.typed").exists()


def test_no_public_name_is_that_of_a_room():
    """Importing a room sets its name in the package, over a function of that name."""
    rooms = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    for name in rooms & set(ld.__all__):
        assert isinstance(getattr(ld, name), types.ModuleType), name


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'learndyn' has no attribute 'nothing'"):
        _ = ld.nothing


def test_the_import_alone_imports_nothing_else():
    code = "import sys, learndyn; assert not {'jax', 'xarray', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
