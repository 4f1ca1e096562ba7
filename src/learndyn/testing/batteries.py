"""The checks of theories, rules and networks, one after the other."""

from collections.abc import Callable

from learndyn.networks import AbstractNetwork
from learndyn.rules import AbstractRule
from learndyn.system import System
from learndyn.testing import networks, rules, theories
from learndyn.testing.rules import standard_system

_Check = Callable[..., None]
THEORY: tuple[_Check, ...] = theories.CHECKS
RULE: tuple[_Check, ...] = rules.CHECKS
NETWORK: tuple[_Check, ...] = networks.CHECKS


def check_theory(system: System) -> None:
    """Checks the theory that covers a system.

    Args:
        system: a small system; `ld.theory_of(system)` must be the theory.

    Raises:
        AssertionError: for the first thing that the theory does not do.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.MLP([2, 3, 1], "tanh")
        >>> model = ld.Model(network, network.sample(np.random.default_rng(0), (2,)))
        >>> data = ld.Dataset(np.eye(2), [1.0, -1.0])
        >>> ld.testing.check_theory(ld.System(data, ld.linearise(model), ld.GradientDescent(0.1)))
    """
    for check in THEORY:
        check(system)


def check_rule(rule: AbstractRule, system: System | None = None) -> None:
    """Checks a rule.

    Args:
        rule: the rule, with a rate at which 400 units of time lower the loss.
        system: a small system that the rule can train; None is `standard_system(rule)`.

    Raises:
        AssertionError: for the first thing that the rule does not do.

    Example:
        >>> import learndyn as ld
        >>> ld.testing.check_rule(ld.GradientDescent(0.02))
    """
    for check in RULE:
        check(standard_system(rule) if system is None else system)


def check_network(network: AbstractNetwork, input_shape: tuple[int, ...], target=None) -> None:
    """Checks a network.

    Args:
        network: a small network.
        input_shape: the shape of one of its inputs.
        target: the target's matrix, for networks whose initialisation uses it.

    Raises:
        AssertionError: for the first thing that the network does not do.

    Example:
        >>> import learndyn as ld
        >>> ld.testing.check_network(ld.Committee(2, "linear"), (3,))
    """
    for check in NETWORK:
        check(network, input_shape, target)
