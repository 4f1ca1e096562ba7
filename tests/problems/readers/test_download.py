"""Downloads, from a file server of this computer."""

import errno
import functools
import gzip
import hashlib
import http.server
import io
import math
import os
import tarfile
import threading

import pytest

from learndyn import cli
from learndyn.cli.app import app
from learndyn.problems.readers import download
from learndyn.problems.readers.files import cifar10
from learndyn.problems.readers.idx import mnist

pytest.importorskip("pooch")
RECORD = bytes([7]) + bytes(3072)


def idx(*shape):
    """A gzipped IDX file of zeros."""
    header = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4) for n in shape)
    return gzip.compress(header + bytes(math.prod(shape)))


def archive():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name in (*download.SOURCES["cifar10"][0].members, "../outside.bin"):
            info = tarfile.TarInfo(name)
            info.size = len(RECORD)
            packed.addfile(info, io.BytesIO(RECORD))
    return buffer.getvalue()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder that a file server shows, and to which all addresses lead, with its checksums."""
    folder = tmp_path / "served"
    folder.mkdir()
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": print})
    handler = functools.partial(quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def serve(name, contents):
            remotes = []
            for remote, content in zip(download.SOURCES[name], contents, strict=True):
                file = remote.url.rsplit("/", 1)[1]
                (folder / file).write_bytes(content)
                checksum = "md5:" + hashlib.md5(content).hexdigest()
                url = f"http://127.0.0.1:{server.server_port}/{file}"
                remotes.append(remote._replace(url=url, hash=checksum))
            monkeypatch.setitem(download.SOURCES, name, tuple(remotes))

        yield serve, folder
        server.shutdown()


def test_fetched_files_are_read_from_the_cache_folder(served, tmp_path, monkeypatch, capsys):
    serve, _ = served
    serve("mnist", [idx(2, 28, 28), idx(2), idx(1, 28, 28), idx(1)])
    monkeypatch.delenv("LEARNDYN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    app(["data", "get", "mnist"], standalone_mode=False)
    assert "mnist is in" in capsys.readouterr().out
    assert mnist().pixels.shape == (3, 1, 28, 28)
    app(["data", "list"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mnist  in ") and lines[2] == "cifar10  not downloaded"


def test_archives_leave_only_the_named_members(served, tmp_path):
    serve, folder = served
    serve("cifar10", [archive()])
    root = download.fetch("cifar10", tmp_path / "data")
    assert cifar10(root).labels.tolist() == [7] * 6
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {*download._CIFAR, "cifar-10-binary.tar.gz"}  # the latter is the server's
    (folder / "cifar-10-binary.tar.gz").unlink()
    assert download.fetch("cifar10", root) == root  # nothing is downloaded twice


def test_another_file_than_the_published_one_is_refused(served, tmp_path):
    serve, folder = served
    serve("mnist", [idx(2, 28, 28), idx(2), idx(1, 28, 28), idx(1)])
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"something else")
    with pytest.raises(
        ValueError, match=r"train-labels.* could not be downloaded \(.*hash"
    ) as error:
        download.fetch("mnist", tmp_path / "data")
    assert "\n" not in str(error.value)
    # The first file arrived whole and is kept; of the second nothing is left.
    assert [path.name for path in (tmp_path / "data/mnist").iterdir()] == [
        "train-images-idx3-ubyte.gz"
    ]


def test_a_file_that_was_damaged_later_is_named(served, tmp_path):
    serve, _ = served
    contents = [idx(2, 28, 28), idx(2), idx(1, 28, 28), idx(1)]
    serve("mnist", contents)
    root = download.fetch("mnist", tmp_path / "data")
    damaged = root / "mnist" / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(contents[3][:-9])
    with pytest.raises(ValueError, match=r"\A'[^\n]*t10k-labels[^\n]*gz': is damaged, or another"):
        download.fetch("mnist", root)
    assert damaged.read_bytes() == contents[3][:-9]
    damaged.unlink()  # as the line says
    assert mnist(download.fetch("mnist", root)).pixels.shape == (3, 1, 28, 28)


class Breaks(http.server.BaseHTTPRequestHandler):
    """Promises a thousand bytes, sends ten and hangs up."""

    log_message = print

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(bytes(10))


def test_a_download_that_is_cut_off_leaves_nothing_and_can_be_repeated(
    served, tmp_path, monkeypatch
):
    serve, _ = served
    serve("mnist", [idx(2, 28, 28), idx(2), idx(1, 28, 28), idx(1)])
    whole = download.SOURCES["mnist"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        broken = whole[1]._replace(url=f"http://127.0.0.1:{server.server_port}/labels.gz")
        monkeypatch.setitem(download.SOURCES, "mnist", (whole[0], broken, *whole[2:]))
        with pytest.raises(ValueError, match=r"\Ahttp[^\n]*labels.gz: could not be downl[^\n]*\Z"):
            download.fetch("mnist", tmp_path / "data")
        server.shutdown()
    assert [path.name for path in (tmp_path / "data/mnist").iterdir()] == [
        "train-images-idx3-ubyte.gz"
    ]
    monkeypatch.setitem(download.SOURCES, "mnist", whole)
    assert mnist(download.fetch("mnist", tmp_path / "data")).pixels.shape == (3, 1, 28, 28)


def test_a_folder_that_cannot_be_written_is_named(served, tmp_path, monkeypatch):
    serve, _ = served
    serve("mnist", [idx(2, 28, 28), idx(2), idx(1, 28, 28), idx(1)])
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match=r"file[^\n]*mnist': cannot be written .*--data-dir"):
        download.fetch("mnist", tmp_path / "file")

    def refuse(**options):  # as on a disk that is read-only
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"mnist': cannot be written .*Read-only file system\)"):
        download.fetch("mnist", tmp_path / "data")


def test_no_network_is_one_line(monkeypatch, tmp_path):
    remote = download.SOURCES["mnist"][0]._replace(url="http://127.0.0.1:9/train.gz")
    monkeypatch.setitem(download.SOURCES, "mnist", (remote,))
    with pytest.raises(ValueError, match="could not be downloaded") as error:
        app(["data", "get", "mnist", "--data-dir", str(tmp_path)], standalone_mode=False)
    said = cli._one_line(error.value)
    assert "\n" not in said and "refused" in said  # what the system says
    with pytest.raises(ValueError, match="name: got 'nist'; allowed is one of"):
        download.fetch("nist")
