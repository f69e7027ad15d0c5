"""Fixtures of the tests."""

import cairn
import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "db"


@pytest.fixture
def db(path):
    with cairn.Db(path, create_if_missing=True) as db:
        yield db
