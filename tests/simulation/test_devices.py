"""Runs spread over several devices, forced on the host in a process of their own."""

import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import sys
import jax
import numpy as np
import learndyn as ld
from learndyn.simulation import parallel

data = ld.TeacherStudent(ld.Isotropic(40), ld.Committee(2, "erf"), label_noise=0.1)
system = ld.System(data, ld.Committee(2, "erf"), ld.SGD(0.5))
found = {}
for method in ("direct", "reduced"):
    record = ld.simulate(system, [0, 1, 3], runs=6, key=5, method=method, dtype="float64")
    found[method] = np.concatenate([record.Q, record.R], axis=-1)
batch = parallel.spread(jax.numpy.zeros((2, 8)), axis=-1)
devices = len(batch.sharding.device_set)
np.savez(sys.argv[1], devices=devices, count=jax.device_count(), **found)
"""


def results(devices, path):
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=True)
    return np.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [4])
def test_several_devices_give_what_one_gives(devices, tmp_path):
    """Six runs on four devices do not fit evenly. Kernels of other shapes round differently."""
    one, many = results(1, tmp_path / "one.npz"), results(devices, tmp_path / "many.npz")
    assert int(many["count"]) == int(many["devices"]) == devices and int(one["devices"]) == 1
    for method in ("direct", "reduced"):
        np.testing.assert_allclose(many[method], one[method], rtol=1e-10, atol=1e-12)
