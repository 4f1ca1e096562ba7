"""The explorer in a real browser; `make test-browser` says where one is.

Names cannot be resolved in it: a page that asks for anything from outside fails.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.explorer.pages import PAGES

BROWSER = os.environ.get("LEARNDYN_BROWSER", "")  # the executable
collect_ignore_glob = [] if BROWSER else ["test_*.py"]

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = str(ROOT / "src")
AXE = pathlib.Path(__file__).parent / "vendor" / "axe.min.js"
SECONDS = 200.0  # a page that hangs is found by this
QUIET_SECONDS = 1.0  # without use of the processor, after which nothing runs any more
OPTIONS = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
# A parent in the background ignores interruptions, and so would its child.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from learndyn.cli import main
sys.argv[0] = "learndyn"
main()
"""


class Explorer:
    """A running `learndyn explore`."""

    def __init__(self, *options):
        command = [sys.executable, "-c", SCRIPT, "explore", "--no-browser", *options]
        path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        self.address = self.process.stdout.readline().strip()

    def workers(self):
        """The numbers of its computing processes."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text().split()]
        return [pid for pid in pids if b"spawn_main" in _command(pid)]

    def used(self):
        """The time of the processor that they have used, in ticks of the clock."""
        files = [pathlib.Path(f"/proc/{pid}/stat") for pid in self.workers()]
        fields = [file.read_text().rpartition(")")[2].split() for file in files]
        return sum(int(each[11]) + int(each[12]) for each in fields)  # user and system

    def rest(self):
        """Waits until its computing processes do nothing; returns how long they went on."""
        began = last = time.monotonic()
        used = self.used()
        while time.monotonic() - last < QUIET_SECONDS:
            assert time.monotonic() - began < SECONDS
            time.sleep(0.05)
            before, used = used, self.used()
            last = time.monotonic() if used != before else last
        return last - began

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(SECONDS)
        self.process.stdout.close()


def _sweep(store):
    """A store with four points, of which one has failed."""
    from distributed import Client

    inside = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(**inside, dashboard_address=":0") as client:
        axes = {"rate": [0.1, 0.2], "units": [1, 2]}
        ld.sweep(_point, axes, store=store, client=client, retries=0, progress=False)


def _point(rate, units):
    if rate * units > 0.3:
        raise ValueError("too large")
    time = np.arange(5.0)
    return xr.Dataset({"error": ("time", rate * np.exp(-units * time))}, {"time": time})


def _command(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


class Look:
    """A page in the browser, with what it asked for and complained about."""

    def __init__(self, page):
        self.page, self.requests, self.complaints = page, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))

    def _note(self, kind, text):
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def __call__(self, expression):
        """A value in the page."""
        return self.page.evaluate(expression)

    def until(self, expression, seconds=SECONDS):
        """Waits until an expression holds. The page's policy forbids playwright's own waiting."""
        end = time.monotonic() + seconds
        while not self(expression):
            if time.monotonic() > end:
                shown = {part: self.page.inner_text(part) for part in ("#state", "#error")}
                raise AssertionError(f"{expression} does not hold: {shown}")
            time.sleep(0.01)

    def open(self, address):
        self.page.goto(address)
        self.settle()

    def settle(self):
        """Waits until the page shows what its controls say."""
        self.until("!!(window.learndyn && learndyn.settled)")

    def go(self, state):
        """Opens a page of the explorer by the address that holds its state."""
        self(
            f"""new Promise(done => {{
                if (location.hash === {state!r}) return done();
                addEventListener("hashchange", () => done(), {{once: true}});
                location.hash = {state!r};
            }})"""
        )
        self.settle()
        assert self.page.inner_text("#error") == ""

    def move(self, name, value):
        """Types a value next to a slider; `settle` waits for the answer."""
        self.page.fill(f"#v-{name}", str(value))
        self.page.press(f"#v-{name}", "Enter")

    def axe(self):
        """What the accessibility checker finds serious."""
        self(AXE.read_text())
        found = self("axe.run(document, {resultTypes: ['violations']})")["violations"]
        return [
            (each["id"], [node["html"][:120] for node in each["nodes"]])
            for each in found if each["impact"] in ("serious", "critical")
        ]  # fmt: skip


@pytest.fixture(scope="session")
def explorer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps")
    _sweep(folder / "store.zarr")
    running = Explorer("--results", str(ROOT / "docs" / "results"), "--sweeps", str(folder))
    yield running
    running.end()


@pytest.fixture(scope="session")
def theory_of():
    """Values of the page of committees → system, start and solution."""

    def solved(values):
        page = PAGES["committee"]
        system = page.system(values)
        start = ld.start(system, key=values["key"])
        return system, start, ld.solve(system, page.times(values), start=start)

    return solved


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def looking(browser):
    """Opens pages; at the end none may have asked for anything from outside, or complained."""
    looks = []

    def look(width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"], accept_downloads=True,
        )  # fmt: skip
        context.set_default_timeout(1e3 * SECONDS)
        looks.append(Look(context.new_page()))
        return looks[-1]

    yield look
    for each in looks:
        outside = [
            url for url in each.requests if not url.startswith(("http://127.0.0.1:", "blob:"))
        ]
        assert not [url for url in outside if not url.startswith("data:")]
        assert not each.complaints
        each.page.context.close()


@pytest.fixture
def look(looking, explorer):
    page = looking()
    page.open(explorer.address)
    return page
