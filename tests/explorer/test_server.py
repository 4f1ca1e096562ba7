"""The server without its processes: who may ask, what is refused, what is sent."""

import asyncio
import contextlib
import json
import math
import random
import subprocess
import sys
import urllib.parse

import pytest
import tornado.httpclient
import tornado.httputil
import tornado.iostream
import tornado.websocket

from learndyn.explorer import server
from learndyn.explorer.controls import MOST_CHARACTERS, checked, starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.server import MOST_MESSAGE, MOST_VISITORS, serve


class Pool:
    """Answers each question with itself."""

    def __init__(self, folders, prepare, deliver, soon, later):
        self.folders, self.deliver, self.left = folders, deliver, []
        pools.append(self)

    def join(self, visitor):
        return True

    def ask(self, question):
        answer = {"kind": "view", "number": question.number, "asked": question.kind}
        self.deliver(question.visitor, {**answer, "values": question.values})

    def leave(self, visitor):
        self.left.append(visitor)

    def end(self):
        self.left.append("ended")


pools: list[Pool] = []


class Client:
    """A browser's side: requests with or without what a browser would send."""

    def __init__(self, address):
        self.base, self.token = address.split("/?token=")
        self.cookie = f"learndyn-{self.base.rpartition(':')[2]}={self.token}"
        self.sockets = []

    async def get(self, path="/", *, cookie=True, method="GET", body=None, **headers):
        kept = {"Cookie": self.cookie} if cookie else {}
        request = tornado.httpclient.HTTPRequest(
            self.base + path, method=method, body=body, headers={**kept, **headers}
        )
        return await tornado.httpclient.AsyncHTTPClient().fetch(request, raise_error=False)

    async def socket(self, cookie=True, **headers):
        headers = {"Origin": self.base, **({"Cookie": self.cookie} if cookie else {}), **headers}
        url = self.base.replace("http", "ws") + "/socket"
        request = tornado.httpclient.HTTPRequest(url, headers=headers)
        self.sockets.append(await tornado.websocket.websocket_connect(request))
        return self.sockets[-1]

    async def close(self):
        for socket in self.sockets:
            socket.close()
        await asyncio.sleep(0.05)


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Runs a coroutine function with a client of a server."""
    monkeypatch.setattr(server, "Pool", Pool)

    async def run(use):
        address = asyncio.get_running_loop().create_future()
        folders = {"results": str(tmp_path), "sweeps": str(tmp_path)}
        task = asyncio.create_task(serve(0, address.set_result, **folders, prepare=print))
        client = Client(await address)
        try:
            await use(client)
        finally:
            await client.close()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert pools[-1].left[-1] == "ended"

    return lambda use: asyncio.run(run(use))


def test_only_who_has_the_token_is_served(served):
    async def use(client):
        for path in ("/", "/pages", "/static/main.js", "/results/a/b/figure.png"):
            for wrong in ("", "?token=", "?token=wrong", f"?token={client.token[:-1]}"):
                answer = await client.get(path + wrong, cookie=False)
                assert answer.code == 403 and answer.body.count(b"\n") == 1
            assert (await client.get(path, Cookie=f"{client.cookie}x", cookie=False)).code == 403
        answer = await client.get(f"/?token={client.token}", cookie=False)
        assert answer.code == 200 and b"<!doctype html>" in answer.body
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert (await client.get("/pages")).code == 200
        with pytest.raises(tornado.httpclient.HTTPClientError, match="403"):
            await client.socket(cookie=False)

    served(use)


def test_foreign_hosts_and_origins_are_refused(served):
    async def use(client):
        port = client.base.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1"):
            assert (await client.get("/", Host=host)).code == 403
        assert (await client.get("/", Host=f"localhost:{port}")).code == 200
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}"):
            assert (await client.get("/pages", Origin=origin)).code == 403
            posted = await client.get("/files?name=a.csv", method="POST", body="1", Origin=origin)
            assert posted.code == 403
            with pytest.raises(tornado.httpclient.HTTPClientError, match="403"):
                await client.socket(Origin=origin)

    served(use)


def test_headers_forbid_what_is_not_our_own(served):
    async def use(client):
        for path in ("/", "/pages", "/static/main.js", "/static/nothing.js"):
            answer = await client.get(path)
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"

    served(use)


def test_nothing_outside_the_folders_is_sent(served, tmp_path):
    (tmp_path / "claims.json").write_text("{}")

    async def use(client):
        outside = ("/static/../server.py", "/static/%2e%2e/server.py", "/results/claims.json")
        for path in (*outside, "/results/..%2f..%2fetc/passwd", "/results/a/b/notes.md"):
            assert (await client.get(path)).code in (403, 404)

    served(use)


BAD = [
    "no json", "[]", "1", "{}", '{"kind": "show", "number": -1}', '{"kind": "show", "number": 1e3}',
    '{"kind": "exec", "number": 1}', '{"kind": "show", "number": 1, "page": "x"}',
    '{"kind": "show", "number": 1, "page": ["committee"]}',
    '{"kind": "show", "number": 1, "page": "committee", "values": {}}', "[" * 5000,
    '{"number": ' + "1" * 5000 + "}",
]  # fmt: skip


def test_bad_messages_are_refused_in_words(served):
    async def use(client):
        socket = await client.socket()
        assert json.loads(await socket.read_message())["kind"] == "ready"
        values = starts(PAGES["committee"].controls)
        odd = [{"eta": 1e9}, {"K": 2.5}, {"N": "5"}, {"activation": "exec"}, {"noise": None}]
        asked = lambda values: {"kind": "show", "number": 1, "page": "committee", "values": values}
        messages = [*BAD, *(json.dumps(asked({**values, **each})) for each in odd)]
        messages.append('{"kind": "show", "number": 1, "page": "committee", "values": NaN}')
        for message in messages:
            await socket.write_message(message)
            answer = json.loads(await socket.read_message())
            assert answer["kind"] == "error" and "got" in answer["text"], message
            assert "allowed" in answer["text"] and "\n" not in answer["text"]
        question = {"kind": "show", "number": 7, "page": "committee", "values": values}
        await socket.write_message(json.dumps(question))
        answer = json.loads(await socket.read_message())
        assert answer["number"] == 7 and answer["values"] == values

    served(use)


NESTED = ['{"values":' * depth + "1" + "}" * depth for depth in (300, 900, 1500)]
ODD = [
    None, True, -1, 0.5, 2**53, 10**400, 1e308, math.nan, math.inf, -math.inf, "", "0", "a\0b",
    "x" * 5000, "\ud800", "__class__", [], [1, [2, [3]]], {}, {"a": {"b": 1}},
]  # fmt: skip


def odd_messages(rng, count):
    """Questions of all pages of which one or two parts are something else."""
    for _ in range(count):
        name = rng.choice(sorted(PAGES))
        values = starts(PAGES[name].controls)
        asked = {"kind": "show", "number": 1, "page": name, "values": values}
        for _ in range(rng.randint(1, 2)):
            inside = rng.random() < 0.6
            part = values if inside else asked
            part[rng.choice([*part, "more"])] = rng.choice(ODD)
        yield json.dumps(asked)


def test_odd_messages_are_answered_and_end_nothing(served):
    async def use(client):
        socket = await client.socket()
        await socket.read_message()
        for message in [*odd_messages(random.Random(0), 300), *NESTED, b"\xff\x00", b"{}", ""]:
            await socket.write_message(message, binary=isinstance(message, bytes))
            told = await socket.read_message()
            assert told is not None, message
            answer = json.loads(told)
            if answer["kind"] == "error":
                assert "got" in answer["text"] and "allowed" in answer["text"], message
                assert "\n" not in answer["text"] and len(answer["text"]) < 1000
            else:
                page = PAGES[json.loads(message)["page"]]
                assert checked(page.controls, answer["values"]) == answer["values"]
        await socket.write_message("x" * (MOST_MESSAGE + 1))
        assert await socket.read_message() is None  # closed
        other = await client.socket()
        assert json.loads(await other.read_message())["kind"] == "ready"

    served(use)


def test_visitors_are_counted_and_leave(served):
    async def use(client):
        sockets = [await client.socket() for _ in range(MOST_VISITORS)]
        refused = await client.socket()
        assert await refused.read_message() is None
        assert refused.close_reason == f"at most {MOST_VISITORS} visitors"  # which the page shows
        sockets[0].close()
        for _ in range(100):
            if pools[-1].left:
                break
            await asyncio.sleep(0.02)
        assert len(pools[-1].left) == 1
        assert json.loads(await (await client.socket()).read_message())["kind"] == "ready"

    served(use)


def test_a_file_is_kept_under_a_name_of_its_own(served):
    async def use(client):
        sent = await client.get("/files?name=../../my.CSV", method="POST", body="step,loss\n")
        name = json.loads(sent.body)["file"]
        assert name.endswith("-my.CSV") and "/" not in name
        from pathlib import Path

        folder = Path(pools[-1].folders["sent"])
        assert (folder / name).read_text() == "step,loss\n"
        # As its owner calls it, since the code of the view reads it by that name.
        for given in ("my log (1).csv", "Größe 損失.csv", "it's.csv"):
            path = f"/files?name={urllib.parse.quote(given)}"
            sent = await client.get(path, method="POST", body="1")
            assert json.loads(sent.body)["file"].partition("-")[2] == given
        for odd in ("%2e%2e%5c%e2%82%ac%00" + 200 * "x", 200 * "%e6%90%8d", "%e2%80%ae.", "%2f"):
            sent = await client.get(f"/files?name={odd}", method="POST", body="1")
            other = json.loads(sent.body)["file"]
            assert other.isprintable() and not {"/", "\\"} & set(other)
            assert (folder / other).read_text() == "1" and len(other) < MOST_CHARACTERS

    served(use)


def test_only_who_may_ask_can_send_much(served):
    async def use(client):
        large = 10 * MOST_MESSAGE * b"x"
        sent = await client.get("/files?name=a.csv", method="POST", body=large)
        assert sent.code == 200
        from pathlib import Path

        kept = Path(pools[-1].folders["sent"]) / json.loads(sent.body)["file"]
        assert kept.read_bytes() == large
        for path in ("/pages", "/files?name=a.csv"):
            # Refused by the headers alone: the connection may end before all of it is sent.
            with contextlib.suppress(tornado.iostream.StreamClosedError):
                refused = await client.get(path, method="POST", body=large, cookie=False)
                assert refused.code in (400, 403, 599)
        assert list(kept.parent.iterdir()) == [kept]

    served(use)


def test_the_server_imports_no_jax():
    code = (
        "import sys, learndyn.explorer.server;"
        "assert not {'jax', 'xarray', 'equinox', 'matplotlib', 'scipy'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
