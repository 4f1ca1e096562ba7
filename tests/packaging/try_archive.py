"""Installs an archive of the package into an empty environment and tries it there.

    python tests/packaging/try_archive.py dist/learndyn-….whl --versions oldest

`newest` lets pip choose; `oldest` pins every direct dependency to its lower bound in
pyproject.toml, so that these bounds are known to work.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv

ROOT = pathlib.Path(__file__).parents[2]
STUDY = "curvature2020linear/effective_depth"
AGREES = "\nassert ld.compare(theory, runs).verdict == 'agrees'"
PROBES = """
import equinox as eqx, jax, numpy as np, learndyn as ld
module = eqx.nn.MLP(3, "scalar", 8, 1, key=jax.random.key(0))
x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
kernel = ld.ntk(module, x)
assert kernel.shape == (6, 6) and np.allclose(kernel, kernel.T)
model = ld.as_model(module)
assert float(ld.critical_learning_rate(model, x)) > 0
assert "learndyn" in ld.__file__ and "site-packages" in ld.__file__
"""
EXTRAS = ("app", "data", "sweep")
# One use of each extra: the explorer's server, a download from here, digits and a sweep.
USES = """
import functools, hashlib, http.server, pathlib, threading
import learndyn as ld
from learndyn.explorer import server as explorer
from learndyn.problems.readers import download
from learndyn.problems.readers.files import digits

def double(a):
    return 2 * a

if __name__ == "__main__":
    assert explorer.PAGES and len(digits().labels) == 1797
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=".")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        content = pathlib.Path(__file__).read_bytes()
        url = f"http://127.0.0.1:{server.server_port}/uses.py"
        remote = download.Remote(url, "md5:" + hashlib.md5(content).hexdigest(), "to/here")
        download.SOURCES["mnist"] = (remote,)
        download.fetch("mnist", "fetched")
        server.shutdown()
    assert pathlib.Path("fetched/to/here").read_bytes() == content
    data = ld.sweep(double, {"a": [1, 2, 3]}, store="s.zarr", workers=1, progress=False)
    assert data["value"].values.tolist() == [2, 4, 6]
"""


def oldest():
    """The direct dependencies, of the package and of its EXTRAS, at their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    pairs = [re.fullmatch(r"([\w-]+)>=([\w.]+)", text) for text in wanted]
    assert all(pairs), f"not name>=version: {wanted}"
    return [f"{pair[1]}=={pair[2]}" for pair in pairs if pair]


def ten_lines():
    """The README's example."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(r"## Ten lines\n.*?```python\n(.*?)```", text, re.DOTALL)[1]


def main():
    """Installs the archive and runs README's lines, a few commands, a study and the probes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("--versions", choices=("newest", "oldest"), default="newest")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = pathlib.Path(folder, "venv")
        venv.create(environment, with_pip=True)
        # Nothing but the archive may provide the package.
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        binaries = environment / ("Scripts" if sys.platform == "win32" else "bin")

        def run(*command):
            print("$", *(str(part).splitlines()[0] for part in command), flush=True)
            subprocess.run([binaries / command[0], *command[1:]], check=True, cwd=folder, env=clean)

        pins = oldest() if given.versions == "oldest" else []
        constraints = pathlib.Path(folder, "constraints.txt")
        constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
        what = f"{given.archive.resolve()}[{','.join(EXTRAS)}]"
        run("python", "-m", "pip", "install", "--quiet", "-c", constraints, what)
        run("python", "-c", ten_lines().strip() + AGREES)
        run("learndyn", "--help")
        run("learndyn", "list")
        run("learndyn", "run", STUDY, "--out", "result")
        run("python", "-c", PROBES.strip())
        script = pathlib.Path(folder, "uses.py")  # workers import it
        script.write_text(USES, encoding="utf-8")
        run("python", script)
    print(f"{given.archive.name}: works with the {given.versions} versions")


if __name__ == "__main__":
    main()
