"""The explorer's server: pages, a socket per visitor, files. Without JAX, so it is up at once."""

import asyncio
import json
import pathlib
import re
import secrets
import tempfile
from collections.abc import Callable
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
import tornado.websocket

from learndyn.explorer.controls import checked
from learndyn.explorer.guard import Guarded
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pool import Pool
from learndyn.explorer.worker import Question
from learndyn.runtime.checks import shown

STATIC = pathlib.Path(__file__).parent / "static"
HERE = "127.0.0.1"
MOST_VISITORS = 32
MOST_MESSAGE = 20_000  # characters
MOST_FILE = 64 * 2**20  # bytes of a file that is sent
MOST_FILES = 20  # of all visitors; the oldest is removed
MOST_NAME = 150  # bytes of its name; file systems allow 255
PING_SECONDS = 15  # after which a visitor who does not answer has left
KINDS = ("show", "train", "stop", "files")


class Page(Guarded):
    """The one HTML page."""

    def get(self) -> None:
        """Sends it."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write((STATIC / "index.html").read_bytes())


class Pages(Guarded):
    """The pages' controls."""

    def get(self) -> None:
        """Sends them."""
        self.write(json.dumps({"pages": [page.described() for page in PAGES.values()]}))


class Static(Guarded, tornado.web.StaticFileHandler):
    """Scripts and styles; pictures of kept results."""

    def prepare(self) -> None:
        Guarded.prepare(self)

    def set_extra_headers(self, path: str) -> None:
        self.set_default_headers()


@tornado.web.stream_request_body
class Files(Guarded):
    """Takes a file to look at, and keeps it until the server ends."""

    def prepare(self) -> None:
        """Only who may ask may send much: this comes before the body is read."""
        Guarded.prepare(self)
        connection: Any = self.request.connection
        connection.set_max_body_size(MOST_FILE)
        self._content = bytearray()

    def data_received(self, chunk: bytes) -> None:
        self._content += chunk

    def post(self) -> None:
        """Keeps the body under a name that nobody can guess; answers with that name."""
        name = _file_name(self.get_query_argument("name", ""))
        folder = pathlib.Path(self.settings["folders"]["sent"])
        kept = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in kept[: max(0, len(kept) - MOST_FILES + 1)]:
            old.unlink(missing_ok=True)
        file = folder / f"{secrets.token_hex(8)}-{name}"
        file.write_bytes(self._content)
        self.write({"file": file.name})


class Socket(Guarded, tornado.websocket.WebSocketHandler):
    """A visitor."""

    visitor = ""

    def prepare(self) -> None:
        Guarded.prepare(self)

    def check_origin(self, origin: str) -> bool:
        return origin == f"http://{self.request.host}"

    def open(self, *args: str, **kwargs: str) -> None:
        """A visitor comes."""
        if len(self.settings["sockets"]) >= MOST_VISITORS:
            self.close(1013, f"at most {MOST_VISITORS} visitors")
            return
        self.visitor = secrets.token_hex(8)
        self.settings["sockets"][self.visitor] = self
        ready = self.settings["pool"]().join(self.visitor)
        self.tell({"kind": "ready" if ready else "starting", "number": 0})

    def on_message(self, message: str | bytes) -> None:
        """Checks a question, and passes it on."""
        number = 0
        try:
            said = _object(message)
            number = _number(said.get("number"))
            self.settings["pool"]().ask(self._question(said, number))
        except ValueError as error:
            self.refuse(number, str(error))

    def on_close(self) -> None:
        """The visitor goes."""
        if self.settings["sockets"].pop(self.visitor, None) is not None:
            self.settings["pool"]().leave(self.visitor)

    def refuse(self, number: int, text: str) -> None:
        """Says what was wrong with a message."""
        self.tell({"kind": "error", "number": number, "text": text})

    def tell(self, answer: dict[str, Any]) -> None:
        """Sends an answer, if the visitor is still there."""
        try:
            self.write_message(json.dumps(answer, allow_nan=False))
        except tornado.websocket.WebSocketClosedError:
            self.on_close()

    def _question(self, said: dict[str, Any], number: int) -> Question:
        kind, name = said.get("kind"), said.get("page")
        if kind not in KINDS:
            raise ValueError(f"kind: got {shown(kind)}; allowed is one of {', '.join(KINDS)}")
        if kind == "stop":
            return Question(kind, self.visitor, number, "", {})
        if not isinstance(name, str) or name not in PAGES:
            raise ValueError(f"page: got {shown(name)}; allowed is one of {', '.join(PAGES)}")
        values = checked(PAGES[name].controls, said.get("values"))
        return Question(kind, self.visitor, number, name, values)


def _file_name(given: str) -> str:
    """What the file is called on the visitor's computer, as far as a name can have it here."""
    name = re.split(r"[/\\]", given)[-1]
    name = "".join(each if each.isprintable() else "_" for each in name)
    return name.encode()[-MOST_NAME:].decode(errors="ignore")


def _object(message: str | bytes) -> dict[str, Any]:
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):  # also of a number that has too many digits
        raise ValueError("message: got no JSON; allowed is an object") from None
    if not isinstance(said, dict):
        raise ValueError(f"message: got {shown(said)}; allowed is an object")
    return said


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"number: got {shown(value)}; allowed is an integer from 0 to 2^53")
    return value


async def serve(
    port: int,
    started: Callable[[str], object],
    *,
    results: str,
    sweeps: str,
    prepare: Callable[[], object],
) -> None:
    """Serves until it is cancelled.

    Args:
        port: on this computer; 0 for any that is free.
        started: called with the address to open, once it can be opened.
        results: the folder of kept results.
        sweeps: the folder below which there are stores of sweeps.
        prepare: called in each computing process before anything is compiled.

    Raises:
        OSError: if the port is taken.
    """
    sockets = tornado.netutil.bind_sockets(port, HERE)
    port, token = sockets[0].getsockname()[1], secrets.token_urlsafe(24)
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="learndyn-") as sent:
        folders = {"results": str(pathlib.Path(results).absolute()), "sent": sent}
        folders["sweeps"] = str(pathlib.Path(sweeps).absolute())
        visitors: dict[str, Socket] = {}
        deliver = lambda visitor, answer: visitor in visitors and visitors[visitor].tell(answer)
        soon, later = loop.call_soon_threadsafe, loop.call_later
        pool = Pool(folders, prepare, deliver, soon, later)
        application = tornado.web.Application(
            [
                ("/", Page),
                ("/pages", Pages),
                ("/socket", Socket),
                ("/files", Files),
                ("/static/(.*)", Static, {"path": STATIC}),
                (r"/results/(\w+/\w+/figure\.png)", Static, {"path": folders["results"]}),
            ],
            websocket_ping_interval=PING_SECONDS,
            websocket_ping_timeout=PING_SECONDS,
            websocket_max_message_size=MOST_MESSAGE,
            log_function=lambda handler: None,
            hosts={f"{HERE}:{port}", f"localhost:{port}"},
            cookie=f"learndyn-{port}",
            token=token,
            folders=folders,
            sockets=visitors,
            pool=lambda: pool,  # settings are copied, processes cannot be
        )
        server = tornado.httpserver.HTTPServer(application, max_body_size=MOST_MESSAGE)
        server.add_sockets(sockets)
        try:
            started(f"http://{HERE}:{port}/?token={token}")
            await asyncio.Event().wait()
        finally:
            pool.end()
            server.stop()
