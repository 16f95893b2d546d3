"""describe: a figure's alternative text reaches the notebook's output; the colours of lines can be seen."""

import io

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import print_figure
from matplotlib import pyplot
from matplotlib.figure import Figure

from utils.ground.alt import describe
from utils.ground.colours import LINES


@pytest.fixture
def shell(monkeypatch):
    shell = InteractiveShell.instance()
    shell.display_formatter.formatters["image/png"].for_type(Figure, lambda fig: print_figure(fig, "png", base64=True))
    yield shell
    InteractiveShell.clear_instance()
    pyplot.close("all")


def test_a_notebook_stores_the_text_beside_the_picture(shell):
    for text in ("a line that rises", "a line that falls"):
        figure, ax = pyplot.subplots()
        ax.plot([0, 1])
        describe(text)
        data, metadata = shell.display_formatter.format(figure)
        assert data["image/png"].startswith("iVBOR") and metadata["image/png"] == {"alt": text}


def test_a_figure_that_nobody_described_is_as_before(shell):
    describe("another", pyplot.figure())
    data, metadata = shell.display_formatter.format(pyplot.subplots()[0])
    assert data["image/png"].startswith("iVBOR") and "alt" not in metadata.get("image/png", {})


def test_outside_a_notebook_the_text_is_the_figures_label():
    figure = Figure()
    describe("a square", figure)
    assert figure.get_label() == "a square"
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize("text, error", [(3, TypeError), ("", ValueError), (" ", ValueError)])
def test_what_describes_nothing_is_refused(text, error):
    with pytest.raises(error, match="describe takes a sentence"):
        describe(text, Figure())


@pytest.mark.parametrize("colour", LINES)
def test_lines_have_a_contrast_of_3_against_white(colour):
    linear = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in linear]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]  # WCAG 2.2, "relative luminance"
    assert 1.05 / (luminance + 0.05) >= 3
