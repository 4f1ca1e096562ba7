"""Who is let in, what raw sockets may say, and many visitors at once."""

import asyncio
import concurrent.futures
import json
import time
import urllib.error
import urllib.request

import numpy as np
import tornado.httpclient
import tornado.websocket
from tests.browser.conftest import Explorer
from tests.browser.promised import soon

from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES

VISITORS, MOVES = 20, 5
PAUSE = 0.2  # seconds between the moves of a visitor
ANSWERED = 1.0  # seconds that are promised
SECONDS = 200.0  # a visitor who is never answered is found by this
TRY = """address => new Promise(done => {
    const socket = new WebSocket(address);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
})"""
SAY = """text => new Promise(done => {
    const socket = new WebSocket(`ws://${location.host}/socket`);
    socket.onmessage = event => {
        const answer = JSON.parse(event.data);
        if (answer.kind === "error") { socket.close(); done(answer.text); }
    };
    socket.onopen = () => socket.send(text);
})"""


def test_other_pages_and_other_people_are_refused(browser, explorer):
    base = explorer.address.partition("/?")[0]
    context = browser.new_context()
    page = context.new_page()
    for address in (base, base + "/?token=wrong", base + "/static/main.js", base + "/pages"):
        assert page.goto(address).status == 403
    page.goto("about:blank")  # a page of another origin, with and without the cookie
    socket = base.replace("http", "ws") + "/socket"
    assert page.evaluate(TRY, socket) == "refused"
    assert page.goto(explorer.address).status == 200
    assert "token" not in page.url
    other = context.new_page()
    other.goto("about:blank")
    assert other.evaluate(TRY, socket) == "refused"
    context.close()
    for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        try:
            urllib.request.urlopen(urllib.request.Request(explorer.address, headers=header))
            raise AssertionError(header)
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == 403


def test_raw_sockets_are_answered_in_words(look):
    values = {**starts(PAGES["committee"].controls), "eta": -1}
    ask = {"kind": "show", "number": 1, "page": "committee", "values": values}
    said = look.page.evaluate(SAY, json.dumps(ask))
    assert said == "eta: got -1; allowed is a number from 0.01 to 10"
    for text in ("no json", "[" * 9999, json.dumps({**ask, "kind": "__import__"})):
        said = look.page.evaluate(SAY, text)
        assert "got" in said and "allowed" in said and "\n" not in said
    look.settle()


def test_a_page_says_that_the_server_is_gone(looking):
    running, look = Explorer(), looking()
    try:
        look.open(running.address)
        assert look.page.is_enabled("#train")
    finally:
        running.end()
    look.until("document.querySelector('#state').textContent.includes('the server is gone')")
    assert not look.page.is_enabled("#train") and not look.page.is_enabled("#files")
    look.complaints.clear()  # the browser's own, as it tries again


class Visitor:
    """An open page, without a browser."""

    def __init__(self, address):
        base, token = address.split("/?token=")
        cookie = f"learndyn-{base.rpartition(':')[2]}={token}"
        url, headers = base.replace("http", "ws") + "/socket", {"Origin": base, "Cookie": cookie}
        self.request = tornado.httpclient.HTTPRequest(url, headers=headers)

    async def __aenter__(self):
        self.socket = await tornado.websocket.websocket_connect(self.request)
        return self

    async def __aexit__(self, *error):
        self.socket.close()
        while await self.socket.read_message() is not None:  # until the connection is closed
            pass

    async def ask(self, number, **values):
        values = {**starts(PAGES["committee"].controls), **values}
        ask = {"kind": "show", "number": number, "page": "committee", "values": values}
        await self.socket.write_message(json.dumps(ask))

    async def hear(self, kind):
        """The next answer of a kind."""
        while True:
            answer = json.loads(await self.socket.read_message())
            assert answer["kind"] != "error", answer
            if answer["kind"] == kind:
                return answer


def run(*visits):
    """Runs coroutines at once, in a thread of their own: the browser has a loop in this one."""

    async def all_of_them():
        return await asyncio.wait_for(asyncio.gather(*visits), SECONDS)

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(all_of_them())).result()


def test_twenty_visitors_get_their_own_answers(explorer, theory_of):
    rate = lambda visitor, move: 0.5 + 0.02 * visitor + 0.003 * move
    curves = {}

    async def visit(which):
        times = []
        async with Visitor(explorer.address) as visitor:
            for move in range(1, MOVES + 1):
                began = time.monotonic()
                await visitor.ask(move, eta=rate(which, move))
                while (answer := await visitor.hear("view"))["number"] != move:
                    pass
                times.append(time.monotonic() - began)
                curves[which, move] = answer["view"]["charts"][0]["series"][0]["y"]
                await asyncio.sleep(PAUSE)
        return times

    soon(ANSWERED, lambda: np.percentile(run(*map(visit, range(VISITORS))), 95))
    assert len(curves) == VISITORS * MOVES
    for visitor, move in ((0, 1), (7, 3), (19, 5)):
        values = {**starts(PAGES["committee"].controls), "eta": rate(visitor, move)}
        theory = theory_of(values)[2]
        np.testing.assert_allclose(curves[visitor, move], theory.error, rtol=1e-6, atol=1e-12)


def test_what_is_compiled_is_answered_while_new_sizes_compile(explorer):
    async def visit():
        async with Visitor(explorer.address) as visitor:
            await visitor.ask(1, K=2, M=2)
            await visitor.hear("view")
            await visitor.ask(2, K=7, M=5)  # that nobody has asked for
            await visitor.hear("compiling")
            for number, eta in enumerate((0.3, 0.4, 0.6), 3):
                await visitor.ask(number, K=2, M=2, eta=eta)
                assert (await visitor.hear("view"))["number"] == number  # before that of K = 7
            assert (await visitor.hear("view"))["number"] == 2

    run(visit())
