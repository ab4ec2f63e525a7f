"""Pages written by a policy: the reward for similarity, where a reply may contain the page, and
limits for hostile pages.
"""

import sys

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer
from apps.rewards.scorers.html import MAX_REPLY_LENGTH, SECONDS
from apps.rewards.scoring import Question
from apps.tasksets.generators import find_generator as generator
from apps.tasksets.pages import rendering
from workers.grading import Grader

TOP = '<div style="width: 120px; height: 50px; background: #d62728">'
BOTTOM = '<div style="width: 60px; height: 40px; background: #1f58c8; margin-left: 90px">'
WANTED = f"<html><body>{TOP}</div>{BOTTOM}</div></body></html>"
HALF = f"<html><body>{TOP}</div></body></html>"
EMPTY = "<html><body></body></html>"


def judged(text: str, html: object = WANTED, **options: object) -> Verdict:
    return find_scorer("html").judge([RolloutView(text)], TaskView((), {"html": html}), options)[0]


@pytest.mark.parametrize(
    "text",
    [
        WANTED,
        f"Here:\n```html\n{WANTED}\n```\nDone.",
        f"<think>{EMPTY}</think>{WANTED}",
        EMPTY + WANTED,
        f"```html\n{EMPTY}\n```\n~~~~HTML\n{TOP}</div>{BOTTOM}\n~~~~",
        f"```html\n{WANTED}\n```\n```css\np {{}}\n```",
        f"<!DOCTYPE html>\n{WANTED.replace('html>', 'HTML>')}",
        f"```html\n<!doctype html>{WANTED}",
    ],
)
def test_same_page_gets_the_full_reward_wherever_it_stands(text):
    assert judged(text).value == pytest.approx(1.0)


def test_more_similar_page_gets_more_and_an_empty_page_nothing():
    values = [judged(text).value for text in (WANTED, HALF, EMPTY)]
    assert values[0] > 0.99 and 0.2 < values[1] < 0.9 and values[2] == pytest.approx(0, abs=0.01)
    assert judged("<html><body style='background: #d62728'></body></html>").value < 0.05
    assert judged(HALF, min_similarity=0.95).value == 0.0


def test_different_words_on_a_page_lower_the_reward():
    page = "<html><body><h1>{}</h1><p>{}</p></body></html>"
    one, near, far = (
        judged(page.format(*words), page.format("Lamps", "for sale")).value
        for words in (("Lamps", "for sale"), ("Lamps", "for rent"), ("Bicycle", "repair"))
    )
    assert one == pytest.approx(1.0) and one > near > far


def test_window_size_follows_the_options():
    below = f'<html><body><div style="height: 300px"></div>{TOP}</div></body></html>'
    assert judged(EMPTY, below, height=200).value == 1.0  # the content lies below the window
    assert judged(EMPTY, below, height=400).value < 0.01
    for sides in ({"width": 31}, {"height": 1025}, {"width": 10**9}):
        with pytest.raises(ValueError, match=r"width|height"):
            judged(EMPTY, **sides)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no HTML code block"),
        ("<html><body>", "no HTML code block"),
        ("```html\n<p>cut", "no HTML code block"),
        ("<html>" * 50, "no HTML code block"),
        ("x" * (MAX_REPLY_LENGTH + 1), "longer"),
        ("<html><script>1</script></html>", "<script>"),
        ("<html><img src='file:///etc/passwd'></html>", "<img>"),
    ],
)
def test_reply_that_is_not_a_page_gets_zero_with_a_reason(text, told):
    verdict = judged(text)
    assert verdict.value == 0.0 and told in verdict.reason


@pytest.mark.parametrize("html", [None, 5, "<img src=a.png>", "<style>@import 'a'</style>"])
def test_task_whose_page_cannot_be_rendered_gives_no_value(html):
    assert judged(WANTED, html=html).value is None


def test_without_a_renderer_the_scorer_gives_no_value(monkeypatch):
    monkeypatch.setitem(sys.modules, "weasyprint.text.fonts", None)
    rendering._fonts.cache_clear()
    verdict = judged(WANTED)
    assert verdict.value is None and "cannot be rendered on this machine" in verdict.reason


def test_generated_page_gets_the_full_reward_and_an_empty_page_little():
    rows = list(generator("pages")(20, 1))
    assert [judged(row.answer["html"], row.answer["html"]).value for row in rows] == [
        pytest.approx(1.0)
    ] * 20
    assert max(judged(EMPTY, row.answer["html"]).value for row in rows) < 0.1


@pytest.fixture(scope="module")
def grader():
    grader = Grader(children=1)
    yield grader
    grader.stop()


ATTACKS = {
    "five megabytes": "<p>" + "x" * 5_000_000,
    "a million tables": "<table><tr><td>" * 1_000_000,
    "as many as are taken": "<html>" + "<table><tr><td>" * 7 + "</html>",
    "boxes that are laid out again and again": (
        "<html>" + "<div style='display:flex'>" * 25 + "</html>"
    ),
    "size upon size": "<html>" + "<div style='font-size:50em'>" * 25 + "x</html>",
    "marks on marks": "<html>e" + "\u0301" * 15_000 + "</html>",
    "a host's file": "<html><link rel=stylesheet href='file:///etc/passwd'></html>",
    "fences": "```html\n" * 20_000,
    "blanks": "<html" + " " * 150_000,
    "ends": "<html>" + "</html " * 20_000,
    "half of a pair": "<html>\ud800\udfff\0</html>",
}


def test_no_attack_gets_a_reward_or_kills_the_child_process(grader):
    def asked(text: str) -> Verdict:
        (answered,) = grader.grade(
            [Question(1, "html", (1,), (RolloutView(text),), TaskView((), {"html": WANTED}))]
        )
        assert answered.seconds < SECONDS
        return answered.verdicts[0]

    assert asked(WANTED).value == pytest.approx(1.0)
    child = grader.children[0].process.pid
    values = {name: asked(text).value for name, text in ATTACKS.items()}
    assert {name: value for name, value in values.items() if value is None or value > 0.05} == {}
    assert grader.children[0].process.pid == child
