"""The studies of zhu2024catapults on files of real images, here drawn, at a small size."""

import gzip
import struct

import h5py
import numpy as np
import pytest

import learndyn as ld
from learndyn.studies.zhu2024catapults import _cases, fig4_9, figC_18
from learndyn.studies.zhu2024catapults._reference import SLICE, _agop, network_of, pool_of

RNG = np.random.default_rng(0)
COUNT = 100  # images a part


def images(side):
    """A bright row for each class, in noise."""
    labels = np.arange(COUNT) % 10
    pixels = RNG.integers(0, 60, (COUNT, side, side))
    pixels[np.arange(COUNT), labels] += 150
    return pixels.astype(np.uint8), labels.astype(np.uint8)


def write_usps(folder):
    with h5py.File(folder / "usps.h5", "w") as file:
        for part in ("train", "test"):
            pixels, labels = images(16)
            file[f"{part}/data"] = pixels.reshape(COUNT, -1).astype(np.float32) / 255
            file[f"{part}/target"] = labels.astype(np.int64)


def write_fashion(folder):
    for part in ("train", "t10k"):
        for name, array in zip(("images-idx3", "labels-idx1"), images(28), strict=True):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            with gzip.open(folder / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(head + array.tobytes())


WRITE = {"usps": ("usps", write_usps), "fashion": ("fashion-mnist", write_fashion)}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITE)
def test_batch_sizes_on_files_of_images(name, tmp_path, monkeypatch):
    folder, write = WRITE[name]
    (tmp_path / folder).mkdir()
    write(tmp_path / folder)
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    small = _cases.IMAGES[name]._replace(sizes=(64, 30, 40), epochs=1)
    monkeypatch.setitem(_cases.IMAGES, name, small)
    sizes = {"n": 40, "n_deep": 40, "deep": 8, "batches": (40, 10), "deep_epochs": (2, 2)}
    params = fig4_9.Params(tasks=(name,), readings=2, seeds=2, **sizes)
    pool_of.cache_clear()
    data = fig4_9.compute(params, lambda _: None)
    pool_of.cache_clear()
    assert np.isfinite(data["alignment"]).all() and np.isfinite(data["accuracy"]).all()
    assert (data["validation"] < data["curve"].isel(reading=0)).all()  # something was learned
    assert "10 % of labels wrong" in str(data["title"].values.flat[0])
    names = [claim.name for claim in fig4_9.check(data)]
    assert sum(said.startswith(f"{name}: smaller batches") for said in names) == 2
    assert len(fig4_9.draw(data).axes) == 4


@pytest.mark.slow
def test_printed_rates_and_targets_of_all_tasks(tmp_path, monkeypatch):
    (tmp_path / "usps").mkdir()
    write_usps(tmp_path / "usps")
    monkeypatch.setenv("LEARNDYN_DATA", str(tmp_path))
    small = _cases.IMAGES["usps"]._replace(sizes=(64, 30, 40), epochs=1)
    monkeypatch.setitem(_cases.IMAGES, "usps", small)
    params = figC_18.Params(
        dim=10, n=40, n_deep=40, held_out=50, shallow=16, deep=8, batches=(40, 10),
        shallow_epochs=(4, 2), deep_epochs=(2, 1), tasks=figC_18.PRESETS["paper"].tasks,
        printed=True, readings=3, seeds=2,
    )  # fmt: skip
    pool_of.cache_clear()
    data = figC_18.compute(params, lambda _: None)
    pool_of.cache_clear()
    assert list(data["task"].values) == list(figC_18.PRINTED)
    for name, rate in figC_18.PRINTED.items():
        one = data.sel(task=name)
        np.testing.assert_allclose(one["rate"], rate, rtol=1e-6)
    # As many epochs as are the same time at ½ η_crit, of which there are 2.
    deep = data.sel(task="rank3").isel(batch=0)
    longest = 2 * 0.5 * deep["critical"] / 0.01
    np.testing.assert_allclose(deep["epoch"].isel(reading=-1), longest, rtol=0.01)
    kinds = {claim.name: claim.kind for claim in figC_18.check(data)}
    assert {kind for name, kind in kinds.items() if name.startswith("rank3")} == {"claim"}
    assert {kind for name, kind in kinds.items() if name.startswith("usps")} == {"finding"}
    assert len(figC_18.draw(data).axes) == 16


@pytest.mark.slow
def test_the_agop_slice_by_slice_is_the_whole():
    x = RNG.normal(size=(SLICE + 40, 8, 8, 1)).astype(np.float32)
    network = network_of("cnn", 1)
    model = ld.Model(network, network.sample(RNG, x.shape[1:]))
    np.testing.assert_allclose(_agop(model, x), ld.probes.agop(model, x), rtol=1e-4, atol=1e-6)
