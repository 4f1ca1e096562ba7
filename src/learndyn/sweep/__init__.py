"""`sweep`: any function over any grid, resumable, on a laptop or a cluster.

Needs the extra `sweep` (dask, distributed, zarr).
"""

from learndyn.sweep.cluster import local as local
from learndyn.sweep.opening import open_sweep as open_sweep
from learndyn.sweep.opening import progress_of as progress_of
from learndyn.sweep.sweep import resume as resume
from learndyn.sweep.sweep import sweep as sweep
