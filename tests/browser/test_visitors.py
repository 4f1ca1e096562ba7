"""Who is let in, what raw sockets may say, and many visitors at once."""

import asyncio
import concurrent.futures
import json
import urllib.error
import urllib.request

import numpy as np
import tornado.httpclient
import tornado.websocket

from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES

VISITORS, MOVES = 20, 5
SMALL = {"K": 2, "M": 2, "horizon": 20, "N": 50, "std": 0.1}
SECONDS = 120.0  # a visitor who is never answered is found by this
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


def test_twenty_visitors_get_their_own_answers(explorer, theory_of):
    base, token = explorer.address.split("/?token=")
    cookie = f"learndyn-{base.rpartition(':')[2]}={token}"
    headers = {"Origin": base, "Cookie": cookie}
    url = base.replace("http", "ws") + "/socket"

    async def visit(visitor):
        request = tornado.httpclient.HTTPRequest(url, headers=headers)
        socket = await tornado.websocket.websocket_connect(request)
        curves = {}
        for move in range(1, MOVES + 1):
            values = {**starts(PAGES["committee"].controls), **SMALL, "eta": rate(visitor, move)}
            ask = {"kind": "show", "number": move, "page": "committee", "values": values}
            await socket.write_message(json.dumps(ask))
            while True:
                answer = json.loads(await socket.read_message())
                assert answer["kind"] != "error", answer
                if answer["kind"] == "view" and answer["number"] == move:
                    break
            curves[move] = answer["view"]["charts"][0]["series"][0]["y"]
        socket.close()
        return curves

    async def all_of_them():
        return await asyncio.wait_for(asyncio.gather(*map(visit, range(VISITORS))), SECONDS)

    rate = lambda visitor, move: 0.1 + 0.02 * visitor + 0.003 * move
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # the browser has a loop in this one
        found = thread.submit(lambda: asyncio.run(all_of_them())).result()
    assert all(sorted(curves) == list(range(1, MOVES + 1)) for curves in found)
    for visitor, move in ((0, 1), (7, 3), (19, 5)):
        values = {**starts(PAGES["committee"].controls), **SMALL, "eta": rate(visitor, move)}
        theory = theory_of(values)[2]
        np.testing.assert_allclose(found[visitor][move], theory.error, rtol=1e-6, atol=1e-12)
