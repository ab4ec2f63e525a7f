"""SVG markup written by a policy: what is drawn or refused, and the reward for similarity."""

import io

import numpy
import pytest
from PIL import Image

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer
from apps.rewards.svg_pictures import MAX_MARKUP_LENGTH, NoDrawing, _windows, draw_svg, likeness
from apps.tasksets.generators import find_generator as generator

WANTED = '<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="16" fill="#d62728"/></svg>'
OTHER = '<svg viewBox="0 0 64 64"><rect x="2" y="2" width="12" height="12" fill="#1f58c8"/></svg>'


def judged(text: str, svg: object = WANTED, **options: object) -> Verdict:
    return find_scorer("svg").judge([RolloutView(text)], TaskView((), {"svg": svg}), options)[0]


@pytest.mark.parametrize(
    "text",
    [
        WANTED,
        f"Here:\n```svg\n{WANTED}\n```\nDone.",
        f"<think>{OTHER}</think>{WANTED}",
        OTHER + WANTED,
    ],
)
def test_same_drawing_gets_the_full_reward_wherever_it_stands(text):
    assert judged(text).value == pytest.approx(1.0)


def test_more_similar_drawing_gets_more_and_a_plain_rectangle_almost_nothing():
    moved = WANTED.replace('cx="32"', 'cx="34"')
    larger = WANTED.replace('r="16"', 'r="20"')
    near, far, none = (judged(text).value for text in (moved, larger, OTHER))
    assert 1 > near > far > none
    for fill in ("white", "#d62728", "gray"):
        assert (
            judged(
                f'<svg viewBox="0 0 64 64"><rect width="64" height="64" fill="{fill}"/></svg>'
            ).value
            < 0.02
        )
    assert judged(larger, min_similarity=0.9).value == 0.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no whole <svg>"),
        ("<svg><circle/>", "no whole <svg>"),
        ("<svg><rect></svg>", "well-formed"),
        ('<svg><image href="/etc/passwd"/></svg>', "href"),
        ('<svg><use href="#a"/></svg>', "href"),
        ("<svg><script>1</script></svg>", "<script>"),
        ("<svg><foreignObject/></svg>", "<foreignObject>"),
        ("<svg><filter/></svg>", "<filter>"),
        ("<svg><text>3</text></svg>", "<text>"),
        ('<svg><path stroke-dasharray="1e-9" d="M0 0L9 9"/></svg>', "dasharray"),
        ('<svg><!DOCTYPE a [<!ENTITY b "c">]></svg>', "<!"),
        ('<svg><rect fill="url(file:///a)"/></svg>', "url("),
        (f"<svg>{'<g>' * 40}{'</g>' * 40}</svg>", "deeper"),
        (f"<svg>{'<g/>' * 501}</svg>", "500 elements"),
        (f"<svg>{' ' * MAX_MARKUP_LENGTH}</svg>", "longer"),
        ('<svg viewBox="0 0 1e9 1"><g/></svg>', "width and height"),
        ('<svg width="99999" height="1"><g/></svg>', "longer than wide"),
        ('<svg viewBox="0 0 -1 5"/></svg>', ""),
        ("<svg><g>\ud800</g></svg>", ""),
    ],
)
def test_markup_that_cannot_be_drawn_gets_zero_with_a_reason(text, told):
    verdict = judged(text)
    assert verdict.value == 0.0 and told in verdict.reason


@pytest.mark.parametrize("svg", [None, "", "<svg>", '<svg><image href="a.png"/></svg>'])
def test_task_whose_picture_cannot_be_drawn_gives_no_value(svg):
    assert judged(WANTED, svg=svg).value is None


def test_generated_picture_matches_its_markup():
    for row in generator("drawings")(30, 1):
        shown = Image.open(io.BytesIO(row.pictures[0].png)).convert("RGB")
        assert likeness(draw_svg(row.answer["svg"]), shown) > 0.6
        assert judged(row.answer["svg"], svg=row.answer["svg"]).value == pytest.approx(1.0)


def test_windows_are_means_of_their_pixels():
    values = numpy.random.default_rng(0).uniform(0, 255, (12, 9, 3))
    slow = [[values[y : y + 7, x : x + 7].mean((0, 1)) for x in range(3)] for y in range(6)]
    assert numpy.allclose(_windows(values), slow)


def test_unparsable_markup_is_refused():
    with pytest.raises(NoDrawing):
        draw_svg("not markup")
