"""A player as a cell's output, a page, a picture and a film; tests/browser looks at it in a browser."""

import ast
import base64
import gzip
import io
import json
import re

import pytest
from PIL import Image

from tests.cuda.player.recordings import by_hand
from tests.imports import ROOT
from utils.cuda.player import picture
from utils.cuda.player.page import SCRIPTS, Player, output, play_each


@pytest.fixture(scope="module")
def player():
    return Player([by_hand()])


def test_a_cells_output_has_the_player_its_picture_and_words(player):
    bundle = player._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"} and bundle["image/png"].startswith(b"\x89PNG")
    assert "square, as a player shows it. Step 5 of 8" in bundle["text/plain"]
    assert f'alt="{bundle["text/plain"]}"' in bundle["text/html"]


def test_the_output_is_the_same_every_time_and_small(player):
    assert Player([by_hand()]).fragment() == player.fragment()
    assert len(player.fragment()) < 150_000


def test_nothing_comes_from_the_network_and_nothing_is_written_as_html(player):
    page = re.sub(r'"[A-Za-z0-9+/=]{300,}"|base64,[A-Za-z0-9+/=]+', "", player.page())
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG
    for forbidden in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import(", "<link"):
        assert forbidden not in page


def test_the_packed_runs_are_the_recordings(player):
    packed = json.loads(gzip.decompress(base64.b64decode(player._packed)))
    assert packed["choices"] == {} and packed["runs"] == [json.loads(by_hand().to_json())]


def test_a_player_may_choose_among_runs():
    several = Player([by_hand(), by_hand()], {"stride": [1, 2]})
    packed = json.loads(gzip.decompress(base64.b64decode(several._packed)))
    assert packed["choices"] == {"stride": ["1", "2"]} and len(packed["runs"]) == 2


def test_play_each_runs_every_combination_the_last_name_fastest():
    asked = []

    def played(**choice):
        asked.append(choice)
        return Player([by_hand()])

    several = play_each(played, stride=[1, 2], offset=(0, 8))
    assert asked == [{"stride": s, "offset": o} for s in (1, 2) for o in (0, 8)]
    assert several.choices == {"stride": [1, 2], "offset": [0, 8]} and len(several.runs) == 4


@pytest.mark.parametrize("choices", [{}, {"stride": [1, 2, 3]}])
def test_runs_that_do_not_match_the_choices_are_refused(choices):
    with pytest.raises(ValueError, match="2 runs"):
        Player([by_hand(), by_hand()], choices)


def test_a_text_in_the_source_cannot_end_the_script():
    recording = by_hand()
    recording.source[0] = "// </script><b>"
    recording.kernel = "square<a & b>"
    page = Player([recording]).page()
    assert page.count("</script>") == 1 and "<title>square&lt;a &amp; b&gt;, step by step" in page


def test_a_page_is_saved(player, tmp_path):
    player.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_the_picture_is_the_same_every_time_and_small(player):
    assert player.png() == Player([by_hand()]).png() and len(player.png()) < 60_000
    image = Image.open(io.BytesIO(player.png()))
    assert image.width == picture.WIDTH and 300 < image.height < 1600


def test_every_position_can_be_drawn():
    recording = by_hand()
    for position in range(len(recording.steps) + 1):
        assert picture.frame(recording, position).width == picture.WIDTH


def test_the_current_line_and_the_touched_cells_are_in_their_colours():
    image = picture.frame(by_hand(), 5)
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    hexes = {"#{:02x}{:02x}{:02x}".format(*colour) for colour in colours}
    assert {picture.CURRENT, picture.FILLS["read"], picture.BAD} <= hexes and picture.FILLS["write"] not in hexes


def test_a_film_has_a_frame_per_step_and_at_most_so_many(tmp_path):
    Player([by_hand()]).film(tmp_path / "all.gif")
    Player([by_hand()]).film(tmp_path / "few.gif", most=3)
    assert [Image.open(tmp_path / name).n_frames for name in ("all.gif", "few.gif")] == [8, 3]


def test_every_file_of_the_player_is_installed():
    """pyproject.toml's patterns name what is beside the Python files."""
    folder = ROOT / "utils" / "cuda" / "player"
    beside = {path.name for path in folder.iterdir() if path.suffix not in (".py", "") and path.is_file()}
    assert {*SCRIPTS, "player.css"} == beside
    patterns = re.search(r"^utils = (\[.*?\])", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1]
    packaged = {path.name for pattern in ast.literal_eval(patterns) for path in (ROOT / "utils").glob(pattern)}
    assert beside <= packaged


@pytest.mark.parametrize(
    "path, said",
    [
        ("kernel.mp4", "'kernel.mp4' must end in .gif"),
        ("kernel", "'kernel' must end in .gif"),
        ("nowhere/kernel.gif", "there is no folder 'nowhere' to write 'kernel.gif' to"),
        ("folder.gif", "'folder.gif' is a folder"),
    ],
)
def test_a_path_that_cannot_be_written_is_explained(player, tmp_path, monkeypatch, path, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(ValueError, match=re.escape(said)):
        output(path, ".gif")
    with pytest.raises(ValueError, match=re.escape(said)):
        player.film(path)
