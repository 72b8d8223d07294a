"""Fixtures of the tests of what is fetched."""

import pytest

from tests.support import published_models


@pytest.fixture
def lead_to(monkeypatch, tmp_path):
    return lambda address: published_models.lead_to(address, monkeypatch, tmp_path)
