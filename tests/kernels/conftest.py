"""tests/nvcc compiles every kernel of the course with nvcc, so here they are built without its verdict."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _unjudged(unjudged):
    pass
