"""What every theory, rule and network must do, as functions that raise an AssertionError.

They check ours in this package's own tests, and yours in yours:

    import pytest
    from learndyn import testing

    @pytest.mark.parametrize("check", testing.THEORY)
    def test_my_theory(check):
        check(system)  # one that my theory covers

`check_theory(system)` calls all of them. A battery says nothing about whether equations are right:
that takes evidence of its own.
"""

from learndyn.testing.batteries import NETWORK as NETWORK
from learndyn.testing.batteries import RULE as RULE
from learndyn.testing.batteries import THEORY as THEORY
from learndyn.testing.batteries import check_network as check_network
from learndyn.testing.batteries import check_rule as check_rule
from learndyn.testing.batteries import check_theory as check_theory
from learndyn.testing.rules import standard_system as standard_system
