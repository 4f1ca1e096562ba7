"""Systems that learn: a problem, a network and an update rule."""

import json
from typing import Any

from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractProblem
from learndyn.rules import AbstractRule
from learndyn.runtime.checks import flag, instance, shown
from learndyn.runtime.precision import usual_settings
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.values import Value
from learndyn.system.encoding import decode, encode, missing


@shown_as_table
class System(Value):
    """A system that learns: a problem, a network and an update rule.

    Args:
        problem: where examples and their labels come from.
        network: the student.
        rule: how its weights change.

    Raises:
        ValueError: for arguments of another kind, and for a problem, a network and a rule
            that do not fit: the message says which, and what is allowed.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(1, "erf")
        >>> system = ld.System(ld.TeacherStudent(ld.Isotropic(50), teacher), teacher, ld.SGD(0.1))
        >>> system.dim
        50
    """

    problem: AbstractProblem
    network: AbstractNetwork
    rule: AbstractRule

    def __init__(self, problem: Any, network: Any, rule: Any):
        instance("problem", problem, AbstractProblem, "a problem such as TeacherStudent or Dataset")
        instance("network", network, AbstractNetwork, "a network such as Committee, MLP or Network")
        allowed = (
            "a rule: SGD, GradientDescent, NaturalGradient, NodePerturbation, or "
            "Optax(transformation) for an optax transformation"
        )
        instance("rule", rule, AbstractRule, allowed)
        with usual_settings():  # the checks trace the network
            network.check_student()
            problem.check_network(network)
            rule.check_problem(problem)
            rule.check_network(problem, network)
        self.problem, self.network, self.rule = problem, network, rule

    def _shown(self) -> Shown:
        names = ("problem", "network", "rule")
        return Shown(f"System, N = {self.dim}", [(n, repr(getattr(self, n))) for n in names])

    @property
    def dim(self) -> int:
        """The number N of entries of an input."""
        return self.problem.dim

    def to_json(self) -> str:
        """The system as JSON text.

        Arrays with more than 4096 entries are written as shape and hash, functions and classes
        from other packages by their qualified names, lambdas and closures as a hash of their
        source.
        """
        return json.dumps(encode(self), ensure_ascii=False)

    def not_in_json(self) -> list[str]:
        """What `from_json` cannot rebuild from the text, one line each."""
        return list(missing(encode(self)))

    def describe(self) -> dict[str, Any]:
        """The attributes of a record about its system: size, JSON, and what that cannot rebuild."""
        lost = self.not_in_json()
        warning = {"not_rebuilt": "; ".join(lost)} if lost else {}
        return {"size": self.dim, "system": self.to_json(), **warning}

    @staticmethod
    def from_json(text: str, *, trusted: bool = False) -> "System":
        """The system that `to_json` wrote.

        Args:
            text: the JSON text.
            trusted: whether the text may name any class or function, which is then imported. That
                runs code, so trust only your own texts. Otherwise it may name classes of learndyn,
                subclasses of them that your program has imported, functions of `jax.nn`, and
                elementwise functions of `jax.numpy`.

        Returns:
            The system.

        Raises:
            ValueError: if something was not written out (a large array, a lambda), for a name
                that needs `trusted`, and for text that is not a system.
        """
        flag("trusted", trusted)
        try:
            written = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise ValueError(f"text: got {shown(text)}; allowed is what `to_json` wrote") from None
        try:
            system = decode(written, trusted=trusted)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(
                f"text: got JSON that is not a system ({why}); allowed is what `to_json` wrote"
            ) from None
        return instance("text", system, System, "the text of a System")
