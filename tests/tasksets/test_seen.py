"""Generated pictures: the pixels agree with the answer of the task."""

import io
import math

import numpy
import pytest
from PIL import Image

from apps.tasksets.generators import find_generator
from apps.tasksets.generators.charts import BOTTOM, TOP
from apps.tasksets.generators.geometry import _corners
from apps.tasksets.generators.seen import COLOURS, letters
from apps.tasksets.generators.text_render import CODE
from apps.tasksets.importing import generate
from apps.tasksets.models import Picture

SEEN = ("charts", "drawings", "geometry", "grounding", "pages", "shapes", "text_render")
FILL = {
    "square": (0.95, 1.0),
    "circle": (0.7, 0.9),
    "triangle": (0.44, 0.66),
    "star": (0.2, 0.44),
}  # of its box, in ink


def pixels(row) -> numpy.ndarray:
    return numpy.asarray(Image.open(io.BytesIO(row.pictures[0].png)))


def pieces(ink: numpy.ndarray) -> list[tuple[int, int, int, int, int]]:
    """Return the boxes (x0, y0, x1, y1, ends excluded) of a mask's connected pieces, and the number
    of pixels of each.
    """
    left = {(int(x), int(y)) for y, x in zip(*numpy.nonzero(ink), strict=True)}
    found = []
    while left:
        waiting = [left.pop()]
        piece = []
        while waiting:
            x, y = waiting.pop()
            piece.append((x, y))
            beside = {(x + across, y + down) for across in (-1, 0, 1) for down in (-1, 0, 1)} & left
            left -= beside
            waiting += beside
        xs = [x for x, _ in piece]
        ys = [y for _, y in piece]
        found.append((min(xs), min(ys), max(xs) + 1, max(ys) + 1, len(piece)))
    return found


def of_kind(row) -> list[tuple[int, int, int, int, int]]:
    """Return the pieces of the picture that have the requested colour and shape."""
    low, high = FILL[row.meta["shape"]]
    ink = (pixels(row) == COLOURS[row.meta["colour"]]).all(axis=2)
    return [
        piece
        for piece in pieces(ink)
        if low <= piece[4] / ((piece[2] - piece[0]) * (piece[3] - piece[1])) <= high
    ]


def test_shapes_picture_has_as_many_shapes_as_the_answer():
    rows = list(find_generator("shapes")(150, 1))
    assert [len(of_kind(row)) for row in rows] == [row.answer["count"] for row in rows]
    assert {row.answer["count"] for row in rows} >= set(range(6))


def test_named_shape_fills_the_box_of_the_answer():
    for row in find_generator("grounding")(150, 1):
        assert [list(piece[:4]) for piece in of_kind(row)] == [row.answer["box"]]


def test_bar_height_matches_its_value_within_the_tolerance():
    for row in find_generator("charts")(150, 1):
        asked = row.prompt[0]["content"][1]["text"].partition("bar ")[2][0]
        bar = list(row.meta["bars"]).index(asked)
        image = pixels(row)[TOP:BOTTOM, 28:]
        flat = image.reshape(-1, 3)
        colour = max(COLOURS.values(), key=lambda ink: (flat == ink).all(axis=1).sum())
        columns = sorted(piece for piece in pieces((image == colour).all(axis=2)) if piece[4] > 60)
        read = (columns[bar][3] - columns[bar][1]) / (BOTTOM - TOP) * row.meta["top"]
        assert read == pytest.approx(row.answer["value"], rel=row.answer["tolerance"])


def test_triangle_is_drawn_with_the_written_angles():
    for first, second in ((25, 120), (60, 60), (120, 30), (90, 45), (33, 77)):
        a, b, c = _corners(first, second, False)
        assert _angle(a, b, c) == pytest.approx(first, abs=2.5) and _angle(
            b, a, c
        ) == pytest.approx(second, abs=2.5)
    assert all(
        sum(row.meta["angles"]) + row.answer["degrees"] == 180
        for row in find_generator("geometry")(200, 1)
    )


def _angle(at, one, other) -> float:
    """Return the angle at a corner between two others, in degrees."""
    arms = [math.atan2(point[1] - at[1], point[0] - at[0]) for point in (one, other)]
    return 180 - abs(180 - abs(math.degrees(arms[0] - arms[1])))


def test_letters_of_a_code_are_distinct_and_not_clipped():
    drawn = {letter: letters(letter).tobytes() for letter in CODE}
    assert len(set(drawn.values())) == len(CODE)
    wide = letters("T")
    assert (
        wide.getbbox() and numpy.asarray(wide).min(axis=(0, 2))[0] < 255
    )  # the letter's left serif begins one pixel left of its box


@pytest.mark.parametrize("name", SEEN)
def test_pictures_are_small_and_fit_their_task(name):
    for row in find_generator(name)(40, 5):
        (picture,) = row.pictures
        assert 48 <= picture.height <= 224 and 64 <= picture.width <= 224
        shown = row.prompt[0]["content"][0]
        assert (shown["picture"], shown["width"], shown["height"]) == (
            picture.sha256,
            picture.width,
            picture.height,
        )


@pytest.mark.django_db
def test_generated_taskset_stores_its_pictures_once(project):
    taskset = generate(project, "seen", "shapes", 20, seed=3)
    names = {task.prompt[0]["content"][0]["picture"] for task in taskset.tasks.all()}
    assert names == set(Picture.objects.values_list("sha256", flat=True)) and len(names) == 20
    again = generate(project, "again", "shapes", 20, seed=3)
    assert again.digest == taskset.digest and Picture.objects.count() == 20
