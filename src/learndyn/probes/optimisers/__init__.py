"""Optimisers as probes see them: linear maps of weights and momenta near a minimum."""

from learndyn.probes.optimisers.response import NoState as NoState
from learndyn.probes.optimisers.response import Response as Response
from learndyn.probes.optimisers.response import response_of as response_of
