"""What tests of figures share: `clean` runs around each test of a module that imports it, `drawn` draws its figure."""

import io
import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def clean():
    """One figure a test at most, no warnings while it is drawn, and nothing left open."""
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")


def drawn():
    """The axes of the one figure, after it has been drawn in full."""
    assert len(plt.get_fignums()) == 1
    plt.gcf().savefig(io.BytesIO(), format="png")
    (ax,) = plt.gcf().axes
    return ax
