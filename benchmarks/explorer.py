"""What a person waits for in the explorer, against the library's own call: `make bench`.

Visitors are sockets, as a browser opens them: the time until a view arrives, without drawing. With
LEARNDYN_BROWSER=/usr/bin/chromium and playwright installed, a browser moves the slider too, up to
the drawn curve. Printed are milliseconds, and the ratio to `ld.start`, `ld.solve` and landmarks in
this process. Wanted, on a machine that does nothing else: 40 moves of η at K = M = 3, 90 % of them
within 150 ms drawn; of 20 visitors, 95 % of the answers within 1 s; stopped within 0.5 s; and a run
whose page is closed ends within a second.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import tornado.httpclient
import tornado.websocket

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES

MOVES, VISITORS, EACH = 40, 20, 8
PAUSE = 0.2  # seconds between the moves of each of many visitors
PAGE = PAGES["committee"]
LONG = {"N": 10000, "horizon": 2000, "runs": 8}
COMMAND = [sys.executable, "-c", "from learndyn.cli import main; main()", "explore", "--no-browser"]
CPU = [13, 14]  # fields of /proc/PID/stat: clock ticks of a process


def asked(eta: float, **others) -> dict:
    return {**starts(PAGE.controls), "eta": eta, **others}


class Visitor:
    """An open page."""

    def __init__(self, address: str):
        self.base, self.token = address.split("/?token=")
        self.number = 0

    async def __aenter__(self):
        port = self.base.rpartition(":")[2]
        headers = {"Origin": self.base, "Cookie": f"learndyn-{port}={self.token}"}
        url = self.base.replace("http", "ws") + "/socket"
        request = tornado.httpclient.HTTPRequest(url, headers=headers)
        self.socket = await tornado.websocket.websocket_connect(request)
        return self

    async def __aexit__(self, *error):
        self.socket.close()

    async def say(self, kind: str, values: dict) -> float:
        self.number += 1
        ask = {"kind": kind, "number": self.number, "page": "committee", "values": values}
        await self.socket.write_message(json.dumps(ask))
        return time.perf_counter()

    async def hear(self, kind: str) -> dict:
        while True:
            answer = json.loads(await self.socket.read_message())
            if answer["kind"] == "error":
                raise RuntimeError(answer["text"])
            if answer["kind"] == kind and answer["number"] <= self.number:
                return answer

    async def move(self, eta: float) -> tuple[float, int]:
        """Milliseconds until the view, and the number of programs that were compiled."""
        began = await self.say("show", asked(eta))
        answer = await self.hear("view")
        while answer["number"] != self.number:
            answer = await self.hear("view")
        return 1e3 * (time.perf_counter() - began), answer["compiled"]


def library() -> float:
    """Milliseconds of the call behind a view; the median of several."""
    times = []
    for eta in np.linspace(0.5, 2, 11):
        system, clock = PAGE.system(asked(eta)), time.perf_counter()
        ld.solve(system, PAGE.times(asked(eta)), start=ld.start(system, key=0))
        ld.theory_of(system).landmarks()
        times.append(1e3 * (time.perf_counter() - clock))
    return float(np.median(times[1:]))


def show(what: str, times: list[float], base: float, share: int) -> None:
    median, high = np.percentile(times, [50, share])
    print(f"{what:44s} median {median:6.0f} ms  p{share} {high:6.0f} ms", end="  ")
    print(f"median / call {median / base:5.2f}", flush=True)


async def one(address: str, base: float) -> None:
    async with Visitor(address) as visitor:
        await visitor.move(1.0)
        moves = [await visitor.move(eta) for eta in np.geomspace(0.2, 2, MOVES)]
        show("one visitor moves the rate", [ms for ms, _ in moves], base, 90)
        print(f"{'':44s} programs compiled: {sum(count for _, count in moves)}")


async def many(address: str, base: float) -> None:
    async def visit(which: int) -> list[float]:
        async with Visitor(address) as visitor:
            times = []
            for move in range(EACH):
                times.append((await visitor.move(0.5 + 0.01 * which + 0.1 * move))[0])
                await asyncio.sleep(PAUSE)
            return times

    found = await asyncio.gather(*map(visit, range(VISITORS)))
    show(f"{VISITORS} visitors at once", [ms for times in found for ms in times], base, 95)


async def stopped(address: str) -> None:
    async with Visitor(address) as visitor:
        await visitor.say("train", asked(1.5, **LONG))
        await visitor.hear("rows")
        began = time.perf_counter()
        await visitor.say("stop", {})
        await visitor.hear("stopped")
        print(f"{'a run is stopped after':44s} {1e3 * (time.perf_counter() - began):13.0f} ms")


def used(pid: int) -> float:
    """Seconds of the processor that the children of a process have used."""
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    pids = [child for file in children for child in file.read_text().split()]
    fields = [pathlib.Path(f"/proc/{child}/stat").read_text().split() for child in pids]
    return sum(int(each[i]) for each in fields for i in CPU) / os.sysconf("SC_CLK_TCK")


async def left(address: str, pid: int) -> None:
    """Until a run whose page was closed uses no processor any more; others compile nothing."""
    async with Visitor(address) as visitor:
        await visitor.say("train", asked(1.5, **LONG))
        await visitor.hear("rows")
    began, busy = time.perf_counter(), time.perf_counter()
    while time.perf_counter() - busy < 1:
        before = used(pid)
        await asyncio.sleep(0.05)
        busy = time.perf_counter() if used(pid) > before else busy
    print(f"{'a run whose page is closed ends after':44s} {1e3 * (busy - began):13.0f} ms")


def drawn(address: str, base: float) -> None:
    """The same in a browser, up to the drawn curve."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = {"executable_path": os.environ["LEARNDYN_BROWSER"], "args": ["--no-sandbox"]}
        page = playwright.chromium.launch(**options).new_page()
        page.goto(address)
        settled = "!!(window.learndyn && learndyn.settled)"
        wait = lambda: any(page.evaluate(settled) or time.sleep(0.002) for _ in range(30000))
        wait()
        for eta in np.geomspace(0.2, 2, MOVES):
            page.fill("#v-eta", f"{eta:.3g}")
            page.press("#v-eta", "Enter")
            wait()
        moves = page.evaluate("learndyn.measured.filter(m => m.name === 'eta').map(m => m.ms)")
        show("the same in a browser, drawn", moves, base, 90)


def main() -> None:
    base, clock = library(), time.perf_counter()
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        print(f"the call of the library: {base:.0f} ms")
        print(f"the address is there after {time.perf_counter() - clock:.2f} s")
        try:
            for measure in (one, many):
                asyncio.run(measure(address, base))
            asyncio.run(stopped(address))
            asyncio.run(left(address, process.pid))
            if "LEARNDYN_BROWSER" in os.environ:
                drawn(address, base)
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
