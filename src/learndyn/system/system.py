"""What learns: a problem, a network and an update rule."""

import html
import json
from typing import Any

from learndyn.networks import AbstractNetwork
from learndyn.numerics.checks import instance
from learndyn.numerics.values import Value
from learndyn.problems import AbstractProblem
from learndyn.rules import AbstractRule
from learndyn.system.encoding import decode, encode, missing


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

    def __init__(self, problem: Any, network: Any, rule: Any):
        instance("problem", problem, AbstractProblem, "a problem such as TeacherStudent or Dataset")
        instance("network", network, AbstractNetwork, "a network such as Committee, MLP or Network")
        allowed = (
            "a rule: SGD, GradientDescent, NaturalGradient, NodePerturbation, or "
            "Optax(transformation) for one of optax"
        )
        instance("rule", rule, AbstractRule, allowed)
        problem.check_network(network)
        rule.check_problem(problem)
        rule.check_network(problem, network)
        self.problem, self.network, self.rule = problem, network, rule

    def _repr_html_(self) -> str:
        """The system as a table, for notebooks."""
        row = lambda name: (
            f"<tr><th>{name}</th><td>{html.escape(repr(getattr(self, name)))}</td></tr>"
        )
        rows = "".join(row(name) for name in ("problem", "network", "rule"))
        return f"<table><caption>System, N = {self.dim}</caption>{rows}</table>"

    @property
    def dim(self) -> int:
        """The number N of entries of an input."""
        return self.problem.dim

    def to_json(self) -> str:
        """The system as JSON text.

        Arrays over 4096 entries are written as shape and hash, functions and classes from
        elsewhere by their qualified name, lambdas and closures as a hash of their source.
        """
        return json.dumps(encode(self), ensure_ascii=False)

    def not_in_json(self) -> list[str]:
        """What `from_json` could not rebuild from the text, a line each."""
        return list(missing(encode(self)))

    def describe(self) -> dict[str, Any]:
        """What a record says of its system: size, JSON form, and what that cannot rebuild."""
        lost = self.not_in_json()
        said = {"not_rebuilt": "; ".join(lost)} if lost else {}
        return {"size": self.dim, "system": self.to_json(), **said}

    @staticmethod
    def from_json(text: str) -> "System":
        """The system that `to_json` wrote.

        Args:
            text: the JSON text.

        Returns:
            The system.

        Raises:
            ValueError: where something was not written out: a large array, a lambda.
        """
        return decode(json.loads(text))
