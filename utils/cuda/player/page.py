"""Shows recordings as a cell's output, a page or a film. Needs no server and no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from utils.cuda.player import picture
from utils.cuda.player.moment import barriers_text
from utils.cuda.player.recording import Recording

__all__ = ["Player", "output", "play_each"]

FILES = Path(__file__).parent
SCRIPTS = (
    "data.js",
    "state.js",
    "drawing.js",
    "drawing_memory.js",
    "drawing_barriers.js",
    "drawing_fragments.js",
    "controls.js",
)


@dataclass(eq=False, repr=False)
class Player:
    """One recording, or several that the reader chooses among; a notebook shows it as a cell's output.

    `choices` names what the runs differ in, with its values: {"stride": [1, 2, 8]}. `runs` has a recording for each
    combination, the last name varying fastest; without choices there is one.
    """

    runs: list[Recording]
    choices: dict[str, list] = field(default_factory=dict)

    def __post_init__(self):
        expected = math.prod(len(values) for values in self.choices.values())
        if len(self.runs) != expected:
            raise ValueError(f"{len(self.runs)} runs for {expected} combinations of the choices {self.choices}")

    @property
    def recording(self) -> Recording:
        """The first run's recording, which the static picture shows."""
        return self.runs[0]

    @cached_property
    def _packed(self) -> str:
        """Base64 of gzipped JSON. The same runs give the same text: it contains no time of day."""
        runs = ",".join(recording.to_json() for recording in self.runs)
        names = {name: name.replace("_", " ") for name in self.choices}
        choices = json.dumps({names[name]: [str(value) for value in values] for name, values in self.choices.items()})
        return base64.b64encode(gzip.compress(f'{{"choices":{choices},"runs":[{runs}]}}'.encode(), 9, mtime=0)).decode()

    def fragment(self, focused=False) -> str:
        """HTML for a cell's output: a picture, which a script replaces with the player where scripts may run. With
        `focused`, the player has the keyboard focus from the start.

        The player is in a shadow tree, which keeps its styles and the page's apart. JupyterLab's shortcuts are off
        while the player has the focus. Nothing uses innerHTML, which VS Code's notebooks forbid.
        """
        script = "\n".join((FILES / name).read_text(encoding="utf-8") for name in SCRIPTS)
        css = json.dumps((FILES / "player.css").read_text(encoding="utf-8"))
        digest = hashlib.sha256((self._packed + script + css).encode()).hexdigest()[:12]
        image = base64.b64encode(self.png()).decode()
        what = f'"{self._packed}", {css}, {json.dumps(focused)}'
        mount = (
            "const beside = document.currentScript?.previousElementSibling;\n"
            f'const hosts = new Set([...document.querySelectorAll("#cuda-player-{digest}"), beside]);\n'
            "for (const host of hosts)\n"
            f'  if (host?.id === "cuda-player-{digest}" && !host.dataset.mounted) mount(host, {what});'
        )
        return (
            f'<div id="cuda-player-{digest}" class="cuda-player" data-lm-suppress-shortcuts="true">'
            f'<img src="data:image/png;base64,{image}" alt="{html.escape(self.description())}" style="max-width: 100%">'
            f"</div>\n<script>\n(() => {{\n{script}\n{mount}\n}})();\n</script>"
        )

    def page(self) -> str:
        """A self-contained HTML page."""
        title = html.escape(f"{self.recording.kernel}, step by step")
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>:root {{ color-scheme: light dark; }} body {{ margin: 0.5rem; }}</style>\n"
            f"</head>\n<body>\n{self.fragment(focused=True)}\n</body>\n</html>\n"
        )

    def save(self, path) -> None:
        """Write a page that any browser opens. Raises ValueError as `output` does."""
        output(path, ".html").write_text(self.page(), encoding="utf-8")

    def png(self) -> bytes:
        """A picture of one telling step: one that shows the first problem, otherwise a middle access."""
        return picture.png(self.recording, picture.telling_position(self.recording))

    def film(self, path, **options) -> None:
        """Write an animated GIF; `picture.film` describes the options. Raises ValueError as `output` does."""
        picture.film(self.recording, output(path, ".gif"), **options)

    def description(self) -> str:
        """The picture in words."""
        position = picture.telling_position(self.recording)
        barriers = "".join(f" {text}." for text in barriers_text(self.recording, position))
        return f"{self.recording.kernel}, as a player shows it. {picture.sentence(self.recording, position)}{barriers}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.fragment(), "image/png": self.png(), "text/plain": self.description()}


def output(path, suffix) -> Path:
    """The path of a file to write. Raises ValueError if it does not end in `suffix`, or its folder does not exist."""
    path = Path(path)
    if path.suffix.lower() != suffix:
        raise ValueError(f"{str(path)!r} must end in {suffix}: that is the kind of file that is written")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {str(path.parent)!r} to write {path.name!r} to: make it first")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder: name a file in it")
    return path


def play_each(played: Callable, **choices) -> Player:
    """A player with a slider for each of `choices`, lists of values: `play_each(run, stride=[1, 2], offset=[0, 1])`.

    `played(stride=1, offset=0)` returns a player, as `trace.play()` does; it is called for every combination.
    """
    combinations = itertools.product(*choices.values())
    runs = [played(**dict(zip(choices, values, strict=True))).recording for values in combinations]
    return Player(runs, {name: list(values) for name, values in choices.items()})
