"""Fixtures of these tests."""

import pytest

from tests.support import graph_optimizer


@pytest.fixture(scope="module", autouse=True)
def with_graph_optimizer():
    """Exported models run as users run them, and as the processes of tests do."""
    graph_optimizer.turn_on()
    yield
    graph_optimizer.turn_off()
