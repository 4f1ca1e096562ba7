"""The number of cores, by whatever name the system has for it."""

import os

import pytest

from learndyn.runtime.cores import cores


@pytest.mark.parametrize("name", ["process_cpu_count", "sched_getaffinity", "cpu_count"])
def test_each_name_counts(name, monkeypatch):
    for other in ("process_cpu_count", "sched_getaffinity"):
        monkeypatch.delattr(os, other, raising=False)
    counted = {5, 6, 7} if name == "sched_getaffinity" else 3
    monkeypatch.setattr(os, name, lambda *process: counted, raising=False)
    assert cores() == 3


def test_a_system_that_does_not_say_has_one(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "process_cpu_count", lambda: None, raising=False)
    assert cores() == 1
