"""Compiled programs are kept, shared, bounded, and left alone when they should be."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import learndyn as ld
from learndyn.cli import options
from learndyn.runtime import cache as caching

NAMES = [
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
]
# Prints whether JAX found the program of `solve` on disk.
SOLVE = """
import sys
from jax._src import monitoring  # JAX has no public way to count what its cache served
events = []
monitoring.register_event_listener(lambda event, **more: events.append(event))
import learndyn as ld
ld.cache(sys.argv[1])
data = ld.TeacherStudent(ld.Isotropic(30), ld.Committee(1, "erf"))
record = ld.solve(ld.System(data, ld.Committee(1, "erf"), ld.SGD(0.1)), [0.0, 1.0])
print(events.count("/jax/compilation_cache/cache_hits"), repr(float(record.error[1])))
"""


@pytest.fixture
def settings(monkeypatch):
    """Sets JAX's settings back, in this process and for those that it starts."""
    before = {name: getattr(jax.config, name) for name in NAMES}
    for name in NAMES:
        monkeypatch.setenv(name.upper(), os.environ.get(name.upper(), ""))
    for name in NAMES:
        monkeypatch.delenv(name.upper())
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def solved(folder):
    """Two processes side by side, whatever EQX_ON_ERROR says: hits and the error of each."""
    environment = {**os.environ, "EQX_ON_ERROR": "raise"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    start = lambda: subprocess.Popen(
        [sys.executable, "-c", SOLVE, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    results = [process.communicate(timeout=300) for process in (start(), start())]
    assert not any(errors for _, errors in results), results
    return [out.split() for out, _ in results]


def test_the_next_process_does_not_compile(tmp_path):
    first = solved(tmp_path)
    second = solved(tmp_path)
    assert all(int(hits) >= 1 for hits, _ in second)
    assert len({error for _, error in first + second}) == 1


def test_the_folder_in_use_is_filled(tmp_path, settings):
    folder = ld.cache(tmp_path / "new")
    assert folder.is_dir() and folder.parent == tmp_path / "new"
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert jax.config.jax_compilation_cache_max_size == caching.MOST_BYTES
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)  # what child processes see
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.jit(lambda x: x * 3.25 + 1)(2.0)
    assert list(folder.glob("*-cache"))  # although JAX had compiled before


def test_the_folder_of_the_user(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ld.cache().parent == tmp_path / "learndyn"


def test_programs_whose_writing_was_interrupted_are_removed(tmp_path, settings):
    folder = ld.cache(tmp_path)
    for name in ("whole-cache", "whole-atime", "half-cache"):
        (folder / name).write_bytes(b"x")
    ld.cache(tmp_path)
    assert {p.name for p in folder.glob("[wh]*")} == {"whole-cache", "whole-atime"}


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, settings):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^folder: got '.*' \(.*\); allowed is a folder that can"):
        ld.cache(tmp_path / "file")
    assert getattr(jax.config, NAMES[0]) != str(tmp_path / "file")


@pytest.mark.parametrize(
    ("variables", "used"),
    [
        ({"LEARNDYN_CACHE": "0"}, False),
        ({"LEARNDYN_CACHE": "{}/c"}, True),
        ({"LEARNDYN_CACHE": ""}, True),
        ({"LEARNDYN_CACHE": "", "JAX_COMPILATION_CACHE_DIR": "{}/own"}, False),
    ],
)
def test_the_command_line_keeps_a_cache_unless_told_otherwise(
    variables, used, tmp_path, settings, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    options.use_cache()
    folder = jax.config.jax_compilation_cache_dir
    assert (folder is not None) == used
    assert not used or pathlib.Path(folder).is_relative_to(tmp_path)


def test_a_user_without_a_home_is_one_line(settings, monkeypatch):
    """As in containers, whose users may have no name: a command then compiles without a cache."""

    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", unknown)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", options.CACHE):
        monkeypatch.delenv(name, raising=False)
    for call in (caching.user_folder, ld.cache):
        with pytest.raises(
            ValueError, match=r"\AHOME: got none, nor has this user one; allowed is"
        ):
            call()
    with pytest.raises(ValueError, match=r"\Afolder: got '~nobody-here/x', and no such user"):
        ld.cache("~nobody-here/x")
    before = jax.config.jax_compilation_cache_dir
    options.use_cache()
    assert jax.config.jax_compilation_cache_dir == before
    if sys.platform != "darwin":
        name = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
        monkeypatch.setenv(name, "kept")
        assert caching.user_folder() == pathlib.Path("kept", "learndyn")
