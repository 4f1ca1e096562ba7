"""`System`: data × network × update rule, and its JSON form."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from learndyn import networks, problems, rules
from learndyn.networks import AbstractNetwork
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem
from learndyn.rules import AbstractRule

_KINDS = {
    name: kind
    for room in (networks, problems, rules)
    for name, kind in vars(room).items()
    if isinstance(kind, type) and issubclass(kind, Value)
}
_INLINE = 4096  # larger arrays are written as shape and hash


class System(Value):
    """What learns: a problem, a network and an update rule.

    Args:
        problem: where examples come from and what they are called.
        network: the student.
        rule: how its parameters change.
    """

    problem: AbstractProblem
    network: AbstractNetwork
    rule: AbstractRule

    def __init__(self, problem: AbstractProblem, network: AbstractNetwork, rule: AbstractRule):
        for name, value, kind in [
            ("problem", problem, AbstractProblem),
            ("network", network, AbstractNetwork),
            ("rule", rule, AbstractRule),
        ]:
            if not isinstance(value, kind):
                came = type(value).__name__
                raise ValueError(f"{name}: got a {came}; allowed is a {kind.__name__}")
        network.check_input(problem.dim)
        if network.outputs != problem.outputs:
            said = {True: "one scalar output", False: f"{network.outputs} outputs"}
            came = said[network.outputs is None]
            allowed = "one scalar" if problem.outputs is None else f"{problem.outputs}"
            raise ValueError(f"network: got {came}; allowed here is {allowed}")
        self.problem, self.network, self.rule = problem, network, rule

    @property
    def dim(self) -> int:
        """The input dimension N."""
        return self.problem.dim

    def steps(self, times: np.ndarray) -> np.ndarray:
        """The update step nearest to each time: round(t · steps per time)."""
        return np.rint(times * self.network.steps_per_time(self.dim)).astype(np.int64)

    def to_json(self) -> str:
        """The system as JSON text; arrays over 4096 entries as shape and hash."""
        return json.dumps(_encode(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> "System":
        """The system that `to_json` wrote.

        Args:
            text: the JSON text.

        Returns:
            The system.

        Raises:
            ValueError: where an array was too large to be written out.
        """
        return _decode(json.loads(text))


def _encode(value: Any) -> Any:
    if isinstance(value, Value):
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, np.ndarray):
        if value.size > _INLINE:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return {"shape": list(value.shape), "sha256": digest}
        return value.tolist()
    return value


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "sha256" in value:
        shape = tuple(value["shape"])
        raise ValueError(f"text: an array of shape {shape} was kept as a hash; give it anew")
    fields = {name: _decode(v) for name, v in value.items() if name != "kind"}
    kind = System if value["kind"] == "System" else _KINDS[value["kind"]]
    return kind(**fields)
