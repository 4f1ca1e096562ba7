"""`System`: data × network × update rule, and its JSON form."""

from learndyn.system.system import System as System
