"""A system as text: what is written out, what is named, what only a hash can tell."""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld
from learndyn.models.module import ModuleNetwork
from learndyn.system.encoding import decode, encode
from learndyn.system.names import find_class

DATA = ld.Dataset(np.arange(12, dtype=np.uint8).reshape(4, 3), [0, 1, 1, 0])


def init(key):
    return jax.random.normal(key, (3,))


def apply(weights, x):
    return x @ weights


def system(network=None, rule=None, data=DATA):
    return ld.System(data, network or ld.Network(init, apply), rule or ld.SGD(0.1))


def test_functions_with_a_name_come_back():
    it = system()
    again = ld.System.from_json(it.to_json(), trusted=True)
    assert again.network.apply is apply and again.network.init is init
    assert again.to_json() == it.to_json() and it.not_in_json() == []
    np.testing.assert_array_equal(again.problem.x, DATA.x)
    assert again.problem.x.dtype == np.uint8 and again.problem.y.dtype == np.int32


def test_lambdas_are_told_apart_and_not_rebuilt():
    one, other = (system(ld.Network(init, f)) for f in (lambda w, x: x @ w, lambda w, x: x @ w + 1))
    assert one.to_json() != other.to_json()
    (said,) = one.not_in_json()
    assert said.startswith("system.network.apply: the function") and "<lambda>" in said
    with pytest.raises(
        ValueError, match=r"\Asystem.network.apply: the function [^\n]*give it anew"
    ):
        ld.System.from_json(one.to_json(), trusted=True)


def test_values_in_closures_change_the_text():
    def scaled(factor):
        return lambda w, x: factor * (x @ w)

    texts = {system(ld.Network(init, scaled(f))).to_json() for f in (1.0, 2.0, np.arange(3.0))}
    assert len(texts) == 3


def test_rates_inside_of_optax_count():
    texts = {
        system(rule=ld.Optax(t, batch=2)).to_json()
        for t in (
            optax.adam(1e-3),
            optax.adam(1e-2),
            optax.sgd(1e-2),
            optax.sgd(1e-2, momentum=0.9),
            optax.sgd(optax.cosine_decay_schedule(1e-2, 10)),
        )
    }
    assert len(texts) == 5
    same = {system(rule=ld.Optax(optax.adam(1e-3), batch=2)).to_json() for _ in range(2)}
    assert len(same) == 1


def test_callable_objects_are_told_by_what_they_hold():
    both = [system(ld.Network(init, functools.partial(_shifted, shift=s))) for s in (0.0, 1.0)]
    assert both[0].to_json() != both[1].to_json()


def _shifted(w, x, shift):
    return x @ w + shift


def test_a_run_with_a_lambda_is_kept(tmp_path):
    it = system(ld.Network(lambda key: jnp.ones(3), lambda w, x: x @ w), ld.Optax(optax.sgd(0.1)))
    record = ld.simulate(it, [0, 3])
    ld.save(record, tmp_path / "r.nc")
    again = ld.load(tmp_path / "r.nc")
    assert again.identical(record) and "network.apply" in again.attrs["not_rebuilt"]
    assert json.loads(again.attrs["system"])["kind"] == "System"


def test_large_arrays_are_hashes():
    x = np.random.default_rng(0).normal(size=(2000, 3))
    one = system(data=ld.Dataset(x, x[:, 0]))
    other = system(data=ld.Dataset(x + 1e-9, x[:, 0]))
    assert one.to_json() != other.to_json() and len(one.to_json()) < 50_000
    assert one.not_in_json()[0].startswith("system.problem.x: an array of shape (2000, 3)")


def test_text_cannot_call_what_is_no_part_of_a_system():
    text = json.dumps({"kind": "os:system", "command": "true"})
    with pytest.raises(ValueError, match="kind: got 'os:system'"):
        ld.System.from_json(text, trusted=True)


def with_apply(function, kind=None, init="jax.nn.initializers:zeros"):
    """The text of a system whose network calls a function, or is of a class."""
    text = json.loads(system().to_json())
    text["network"]["init"] = {"function": init}
    text["network"]["apply"] = {"function": function}
    text["network"]["kind"] = kind or text["network"]["kind"]
    return json.dumps(text)


FORBIDDEN = {
    "a module nobody imported": "unheard:apply",
    "a function of Python": "builtins:eval",
    "a function of the system": "posix:system",
    "a module that one of ours imports": "learndyn.records.files:os.remove",
    "the module itself": "learndyn.records.files:os",
    "what a library calls otherwise": "jax.numpy:np.fromfile",
    "a function of NumPy that reads files": "numpy:fromfile",
    "a function of your own": f"{__name__}:apply",
    "a class of Python": "subprocess:Popen",
    "a function of JAX that reads files": "jax.numpy:load",
    "a function of ours that imports": "learndyn.system.names:look_up",
    "a function that writes files": "equinox._serialisation:tree_serialise_leaves",
    "a class that binds arguments": "equinox._module._prebuilt:BoundMethod",
    "a class that calls in turn": "equinox.nn._sequential:Sequential",
    "no name": "jax.numpy:",
    "no module": ":eval",
}


@pytest.mark.parametrize("name", FORBIDDEN.values(), ids=FORBIDDEN)
def test_only_known_names_are_found_unless_the_text_is_trusted(name):
    for text, where in ((with_apply(name), "network.apply"), (with_apply("x", name), "network")):
        with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as raised:
            ld.System.from_json(text)
        assert str(raised.value).startswith(f"system.{where}: got {name!r}; allowed are classes of")
        assert "trusted=True" in str(raised.value)


def test_a_name_imports_nothing_unless_the_text_is_trusted(tmp_path, monkeypatch):
    module = f"from {__name__} import init as made\ninit = lambda key: made(key)"
    module += "\ndef apply(weights, x): return x @ weights"
    (tmp_path / "written_by_another.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    text = with_apply("written_by_another:apply", init="written_by_another:init")
    with pytest.raises(ValueError, match=r"got 'written_by_another:init'.*trusted=True"):
        ld.System.from_json(text)
    assert "written_by_another" not in sys.modules
    again = ld.System.from_json(text, trusted=True)
    assert again.network.apply is sys.modules.pop("written_by_another").apply


@pytest.mark.parametrize("function", [jnp.tanh, jax.nn.relu, np.tanh, np.float32])
def test_functions_of_libraries_come_back(function):
    assert decode(encode(function), trusted=False) is function


DAMAGED = [
    '{"kind": -1}',
    '{"kind": [1]}',
    '{"kind": "SGD"}',
    '{"kind": "SGD", "rate": 1}',
    '{"array": [1]}',
    '{"array": [1], "dtype": "zzz"}',
    '{"sha256": "x"}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_text_is_one_line(text):
    with pytest.raises(ValueError, match=r"\A[a-z]+: [^\n]*; allowed is [^\n]*\Z"):
        ld.System.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "3", "[]", '{"kind": "SGD", "learning_rate": 3}'])
def test_text_that_is_not_a_system_raises_a_one_line_error(text):
    with pytest.raises(ValueError, match=r"\Atext: got [^\n]*; allowed is [^\n]*\Z"):
        ld.System.from_json(text)


def test_text_of_older_versions_finds_what_has_moved():
    kind = "learndyn.networks.module:ModuleNetwork"  # where it stood up to version 0.1
    assert find_class(kind, "network", trusted=False) is ModuleNetwork
