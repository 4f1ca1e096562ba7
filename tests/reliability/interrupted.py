"""Every public call, one after the other, interrupted at random moments.

`python interrupted.py COUNT SEED` prints, as JSON, how many interruptions ended which call, which
calls went on instead, and what was wrong afterwards.
"""

import collections
import importlib.util
import itertools
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

import jax

TABLE = pathlib.Path(__file__).parents[1] / "odd_values" / "calls.py"
PATIENCE = 300.0  # seconds within which an interruption has to be heeded
COMPILED = 25  # calls after which nothing compiled is kept


def calls():
    """Name → the call, of all public names but those that start processes."""
    spec = importlib.util.spec_from_file_location("calls", TABLE)
    module = sys.modules["calls"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = {name: make() for name, make in module.CALLS.items()}
    public = module.public()
    return {name: (public[name], call.arguments) for name, call in given.items() if call.works}


class Interrupter(threading.Thread):
    """Interrupts the main thread at random moments of its calls."""

    def __init__(self, count, chance):
        super().__init__(daemon=True)
        self.left, self.chance = count, chance
        self.call, self.number = "", 0  # what the main thread does now
        self.heeded = threading.Event()
        self.ended, self.ignored, self.late = collections.Counter(), collections.Counter(), []

    def run(self):
        while self.left:
            time.sleep(self.chance.uniform(0.0, 0.4))
            name, number = self.call, self.number
            self.heeded.clear()
            os.kill(os.getpid(), signal.SIGINT)
            waited = time.monotonic()
            # Two calls later it has been ignored: one call may have ended at the same moment.
            while not self.heeded.wait(0.01) and self.number < number + 2:
                if time.monotonic() > waited + PATIENCE:
                    self.late.append(name)
                    self.left = 0
                    return
            (self.ended if self.heeded.is_set() else self.ignored)[name] += 1
            self.left -= 1


def main(count, seed):
    """Calls until all interruptions have been sent, and then once without any."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored
    chance, table, wrong = random.Random(seed), calls(), {}
    interrupter = Interrupter(count, chance)

    def work(name):
        function, arguments = table[name]
        try:
            function(**arguments)
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"

    for name in table:  # what a first call imports is imported
        work(name)
    interrupter.start()
    for number in itertools.count():
        try:
            if not interrupter.is_alive():
                break
            interrupter.call, interrupter.number = chance.choice(list(table)), number
            if number % COMPILED == 0:
                jax.clear_caches()
            work(interrupter.call)
        except KeyboardInterrupt:
            interrupter.heeded.set()
    for name in table:
        work(name)
    said = {"ended": interrupter.ended, "ignored": interrupter.ignored, "late": interrupter.late}
    print(json.dumps({**said, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
