"""`System`: data × network × update rule, its JSON form, and its program."""

from learndyn.system.code import code_of as code_of
from learndyn.system.system import System as System
