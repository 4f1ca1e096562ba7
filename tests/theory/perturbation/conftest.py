"""Systems of two linear layers, and reference values, as several tests need them."""

import json
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest

import learndyn as ld

REFERENCE = json.loads(pathlib.Path(__file__).with_name("reference.json").read_text())


def matrix(L_x, L_y, seed=0):
    """A teacher whose mean square is the paper's, 2/(L_x + L_y), exactly."""
    A = np.random.default_rng(seed).standard_normal((L_y, L_x))
    return A * np.sqrt(2 / (L_x + L_y) / np.mean(A**2))


def system(L_x, L_h, L_y, rule, *, noise=0.0, loss_scale=0.5, A=None, init=None):
    A = matrix(L_x, L_y) if A is None else A
    teacher = ld.LinearTeacher(L_y, A)
    problem = ld.TeacherStudent(
        ld.Isotropic(L_x), teacher, label_noise=noise, loss_scale=loss_scale
    )
    return ld.System(problem, ld.DeepLinear([L_x, L_h, L_y], init=init), rule)


@pytest.fixture(scope="session")
def reference():
    return REFERENCE


@pytest.fixture(scope="session")
def two_layers():
    return SimpleNamespace(system=system, matrix=matrix)
