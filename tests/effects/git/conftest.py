"""Sample repositories, made once in each object format; a test that changes one gets a copy."""

import os
import shutil

import pytest
from tests.effects.git import repos

from endmark.effects.git import Gate, Git, open_repository


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    """Nobody writes to these."""
    return {name: repos.sample(tmp_path_factory.mktemp(name) / "repo", name) for name in repos.FORMATS}


@pytest.fixture
def sample(samples):
    return samples["sha1"]


@pytest.fixture
def repo(samples, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(samples["sha1"], tmp_path / "repo", symlinks=True)


@pytest.fixture(scope="session")
def bare_sample(tmp_path_factory):
    return repos.sample(tmp_path_factory.mktemp("bare") / "repo.git", bare=True)


@pytest.fixture
def bare(bare_sample, tmp_path):
    """A copy of a bare one: what a change is merged in."""
    return shutil.copytree(bare_sample, tmp_path / "repo.git", symlinks=True)


@pytest.fixture
def gate():
    """Opens gates that are closed when the test ends."""
    opened = []

    def open_gate(folder, git=None, **more):
        one = Gate(open_repository(git or Git(os.environ), folder), **more)
        opened.append(one)
        return one.__enter__()

    yield open_gate
    for one in opened:
        one.__exit__(None, None, None)
