"""Reading a record with xarray: labels, units and where it came from travel with the numbers.

    python examples/record_with_xarray.py

A record is an `xarray.Dataset`, and its file is NetCDF: any tool that reads that reads it.
"""

import pathlib
import tempfile

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.plotting import panels, style


@style()
def main():
    """Saves runs, reads them without us, and returns the figure and what was read."""
    teacher = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.Isotropic(50), teacher)
    system = ld.System(problem, ld.Committee(2, "erf", init=ld.Normal(0.3)), ld.SGD(0.5))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "runs.nc"
        ld.save(ld.simulate(system, np.linspace(0, 60, 61), runs=24), path)
        with xr.open_dataset(path, engine="h5netcdf") as file:
            record = file.load()
    error = record["error"]
    late = error.sel(time=slice(50, None)).mean("time")
    print(f"{error.attrs['long_name']} against time in {record.time.attrs['units']}")
    print(f"worst run {late.idxmax('run').item()}, best {late.idxmin('run').item()}")
    print(f"made by learndyn {record.attrs['version_learndyn']}, key {record.attrs['key']}")
    print(record["R"].isel(time=-1, run=0).to_dataframe()["R"].unstack().round(2))
    low, middle, high = error.quantile([0.1, 0.5, 0.9], dim="run")
    figure, (axis,) = panels(1)
    axis.fill_between(record["time"], low, high, alpha=0.25, label="10 % to 90 % of runs")
    axis.plot(record["time"], middle, label="median of 24 runs")
    axis.set(xlabel="time [steps / N]", ylabel=error.attrs["long_name"], yscale="log")
    axis.legend()
    return figure, record


if __name__ == "__main__":
    main()[0].savefig("record_with_xarray.png")
