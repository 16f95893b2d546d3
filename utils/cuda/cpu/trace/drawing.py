"""What every panel of a picture is drawn with: sizes, colours, cells and labels."""

from matplotlib.patches import Rectangle

LANES = BANKS = 32
TEXT = 15  # the smallest text, in points
EMPTY = "#F4F4F4"
RED, GREEN = "#B2182B", "#1B6B3A"  # distinct even for the colour-blind: one is much darker, and words say the same
WIDTH, LEFT, RIGHT = 13.7, 1.2, 0.25  # of the figure and its margins, in inches
ACROSS = WIDTH - LEFT - RIGHT  # of a panel: LANES units of the x axis
HEADING, CELL = 0.95, 0.38  # heights in inches


def cell(ax, x, y, width, height, colour, text="", edgecolor="white", linewidth=1.0):
    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=edgecolor, linewidth=linewidth))
    style = {"ha": "center", "va": "center_baseline", "fontsize": TEXT, "color": "white" if colour == RED else "black"}
    if text:
        ax.text(x + width / 2, y + height / 2, text, **style)


def label(ax, y, text):
    ax.text(-0.3, y, text, ha="right", va="center", fontsize=TEXT)


def warp_text(example):
    """Which warp it is: of a records.Example or a records.Product."""
    return f"warp {example.warp} of block ({','.join(map(str, example.block))})"
