"""Alternative text of figures, for readers who cannot see them and for pages that show it."""

import sys

__all__ = ["describe"]


def describe(text: str, figure=None) -> None:
    """Give a matplotlib figure, by default the current one, an alternative text: what it shows, in one sentence.

    A notebook stores it in the output's metadata, as {"image/png": {"alt": text}}. Raises TypeError if
    `text` is not text, ValueError if it is empty.
    """
    if not isinstance(text, str):
        raise TypeError(f"describe takes a sentence, but got {text!r}")
    if not text.strip():
        raise ValueError("describe takes a sentence, but the text is empty")
    if figure is None:
        from matplotlib import pyplot

        figure = pyplot.gcf()
    figure.set_label(text)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        _keep_labels(shell.display_formatter.formatters["image/png"], figure)


def _keep_labels(formatter, figure) -> None:
    """Let the notebook's PNGs carry their figure's label; where matplotlib has not set up PNGs, do nothing."""
    try:
        printed = formatter.lookup(figure)
    except KeyError:
        return
    if getattr(printed, "keeps_labels", False):
        return

    def png(figure):
        data = printed(figure)
        if data is None or not figure.get_label():
            return data
        data, metadata = data if isinstance(data, tuple) else (data, {})
        return data, metadata | {"alt": figure.get_label()}

    png.keeps_labels = True
    formatter.for_type(next(kind for kind in type(figure).__mro__ if kind.__name__ == "Figure"), png)
