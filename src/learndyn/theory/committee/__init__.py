"""Committees learning from a committee: order parameters, their equations, the landscape."""
