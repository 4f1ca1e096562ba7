"""What a person waits for at first, in fresh processes: `make bench`.

The README's ten lines and two commands, each first with an empty cache of compiled programs and
then with the one that the first left; and the import of the engines. Each is compared with the
time to import JAX, diffrax and xarray, which no use of them can avoid. Printed are seconds of the
processor (of all threads) and of the clock, the least of three, and the ratio of the former.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

README = pathlib.Path(__file__).parents[1] / "README.md"
TIMES = 3
LIBRARIES = "import jax, diffrax, xarray"
ENGINES = "import learndyn as ld; ld.start, ld.solve, ld.simulate, ld.compare"
COMMAND = "import sys; sys.argv = ['learndyn', *{!r}]; from learndyn.cli import main; main()"


def ten_lines() -> str:
    (lines,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return lines


def cached(code: str, folder: str) -> str:
    return f"import learndyn; learndyn.cache({folder!r})\n{code}"


def seconds(code: str, folder: str, cache: str) -> tuple[float, float]:
    """Seconds of the processor and of the clock that a fresh process takes."""
    environment = {**os.environ, "LEARNDYN_CACHE": cache, "JAX_ENABLE_COMPILATION_CACHE": "true"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before, clock = used(), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, check=True, capture_output=True
    )
    return used() - before, time.perf_counter() - clock


def least(code: str, folder: str, cache: str) -> tuple[float, float]:
    times = [seconds(code, folder, cache) for _ in range(TIMES)]
    return min(t for t, _ in times), min(t for _, t in times)


def cold_and_cached(code: str, folder: str, name: str) -> list[tuple[float, float]]:
    """Without any cache, and with the cache that a first process has filled."""
    cache = os.path.join(folder, name)
    with_cache = code if code.startswith("import sys; sys.argv") else cached(code, cache)
    seconds(with_cache, folder, cache)
    return [least(code, folder, "0"), least(with_cache, folder, cache)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = least(LIBRARIES, folder, "0")
        show = lambda what, pair: print(
            f"{what:52s} {pair[0]:6.2f} s {pair[1]:6.2f} s {pair[0] / base[0]:6.2f}", flush=True
        )
        print(f"{'':52s} processor  clock  / libraries")
        show(LIBRARIES, base)
        show("the names of the ten lines, imported", least(ENGINES, folder, "0"))
        show("learndyn list", least(COMMAND.format(["list"]), folder, "0"))
        study = COMMAND.format(["run", "bocchi2026escape/fig5"])
        for what, code in (
            ("ten lines", ten_lines()),
            ("learndyn run bocchi2026escape/fig5", study),
        ):
            cold, warm = cold_and_cached(code, folder, what.split()[0])
            show(f"{what}, nothing compiled", cold)
            show(f"{what}, all compiled", warm)


if __name__ == "__main__":
    main()
