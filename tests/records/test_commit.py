"""The commit that a record names, and whether it says that files were changed."""

import subprocess

import pytest

from learndyn.records.commit import commit, commit_of, tree, tree_of


@pytest.fixture
def checkout(tmp_path):
    git = lambda *arguments: subprocess.run(
        ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    git("init", "-q")
    (tmp_path / "src").mkdir()
    for name in ("src/code.py", "result.json"):
        (tmp_path / name).write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    return tmp_path, git("rev-parse", "HEAD")[:12]


def test_changes_outside_of_the_named_files_do_not_count(checkout):
    folder, head = checkout
    assert commit(folder) == commit(folder / "src", of=".") == head
    (folder / "result.json").write_text("2\n")
    (folder / "untracked.json").write_text("2\n")
    assert commit(folder) == commit(folder / "src") == f"{head}-dirty"
    assert commit(folder / "src", of=".") == head
    (folder / "src" / "code.py").write_text("2\n")
    assert commit(folder / "src", of=".") == f"{head}-dirty"


def test_there_is_no_commit_outside_a_checkout(tmp_path):
    assert commit(tmp_path) == commit(tmp_path / "missing") == ""
    assert commit_of(len) == ""


def test_the_tree_of_a_folder_is_that_of_git(checkout):
    folder, head = checkout
    for name in ("a.b", "a", "a-b"):  # git sorts them as a-b, a.b, a/
        (folder / "src" / name).mkdir() if name == "a" else (folder / "src" / name).write_text(name)
    (folder / "src" / "a" / "empty").write_bytes(b"")
    assert tree(folder / "src") != tree_of(head, folder / "src")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "second"], check=True)
    (folder / "src" / "a" / "__pycache__").mkdir()
    assert tree(folder / "src") == tree_of("HEAD", folder / "src")
    assert tree_of(head, folder / "src") != tree_of("HEAD", folder / "src") != ""
    assert tree_of("0123456789ab", folder / "src") == tree_of("HEAD", folder / "none") == ""
