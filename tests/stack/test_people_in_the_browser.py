"""People steer a real engine from the live page in Chromium, and the database then shows which
words were theirs.

One installation for all three: web, and an explorer whose policy is untrained and big enough that
its answers take their time.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from apps.rollouts.payload import Tokens, unpack_payload
from apps.rollouts.token_text import load_vocabulary, texts
from tests.stack.conftest import ROOT, Installation, running

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.browser]
BUILD = (
    "from pathlib import Path; from workers.policies.tiny import build_sized;"
    " build_sized(Path({!r}), {}, 'tone', context={})"
)
PARAMETERS = 3_000_000
CONTEXT = 512
FURNISH = """
from pathlib import Path
from apps.accounts.models import Project, User
from apps.policies.registering import register_policy
from apps.tasksets.importing import generate
project, _ = Project.objects.get_or_create(slug="demo", defaults={"title": "Demo"})
User.objects.create_superuser("root", password="correct horse battery")
register_policy(project, "slow", Path(%r), "built for a test", "Slow")
generate(project, "dialogue", "tone_dialogue", 50, 0)
"""
BEGUN = "I am so sorry about your lamp."
POLITE = f"{BEGUN} We will gladly repair your lamp today. Have a lovely day!"
WRITTEN = """SELECT r.text, r.stop_reason, r.turns, p.data FROM rollouts_rollout r
             JOIN rollouts_rolloutpayload p ON p.rollout_id = r.id
                 WHERE r.id = %s AND r.state = 'finished'"""
ACTS = (
    "SELECT state FROM feedback_intervention WHERE rollout_id = %s AND kind = %s ORDER BY id DESC"
    " LIMIT 1"
)
LESSON = """SELECT d.answer FROM feedback_demonstration d
            JOIN feedback_intervention i ON i.by_id = d.author_id AND i.text = d.answer
            WHERE i.rollout_id = %s AND i.kind = 'seat'"""


@dataclass
class Written:
    """A finished rollout as stored in the database."""

    text: str
    stop_reason: str
    turns: list[dict[str, Any]]
    tokens: Tokens

    def spelt(self, folder: Path, first: int, count: int) -> str:
        return "".join(
            texts(load_vocabulary(str(folder)), self.tokens.completion_ids[first : first + count])
        ).strip()

    def touched(self) -> int:
        """Return the number of the turn in which a person typed."""
        return next(number for number, turn in enumerate(self.turns) if "typed" in turn)

    def mask(self, first: int, count: int) -> set[int]:
        return set(self.tokens.action_mask[first : first + count])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "slow"
    subprocess.run(
        [sys.executable, "-c", BUILD.format(str(folder), PARAMETERS, CONTEXT)],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    return folder


@pytest.fixture(scope="module")
def talking(tmp_path_factory, folder) -> Iterator[Installation]:
    """Start a run that writes more dialogues than the tests need."""
    var = tmp_path_factory.mktemp("var")
    with running(
        var, {"scorer": 0, "refiner": 0, "trainer": 0}, RFTWEB_LEASE_SECONDS="30"
    ) as installation:
        installation.must("shell", "-c", FURNISH % str(folder))
        installation.begin(
            "talks",
            var,
            policy="slow",
            taskset="dialogue",
            steps=400,
            max_staleness=400,
            groups_per_step=2,
            sampling={"max_tokens": 150},
            rewards=[{"scorer": "tone_dialogue"}],
        )
        yield installation


@pytest.fixture
def page(talking, chromium: Browser) -> Iterator[Page]:
    """Open the live page as a user who may steer."""
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{talking.stack.address}/live/")
    page.fill("#id_login", "root")
    page.fill("#id_password", "correct horse battery")
    page.click("button.first")
    page.wait_for_url("**/live/")
    yield page
    context.close()


def steered(talking: Installation, page: Page, kind: str, do: Callable[[], bool]) -> int:
    """Apply it to one card after another until a rollout was still being sampled when the explorer
    got the request; return this rollout.
    """

    def tried() -> int | None:
        page.goto(f"{talking.stack.address}/live/")
        card = page.locator("[data-rollout][data-state=sampling]").first
        card.get_by_text(".").first.wait_for()  # it has written something
        rollout = int(card.get_attribute("data-rollout"))
        card.focus()
        if not do():
            return None
        return rollout if talking.wait(f"{kind} heard", lambda: heard(rollout)) == "done" else None

    def heard(rollout: int) -> str | None:
        """Return the result of the action; one after the end of the rollout has no row."""
        is_over = talking.sql(
            "SELECT state <> 'sampling' FROM rollouts_rollout WHERE id = %s", rollout
        ) == [(True,)]
        states = talking.sql(ACTS, rollout, kind)
        return next(
            (state for (state,) in states if state != "pending"),
            "refused" if is_over and not states else None,
        )

    return talking.wait(f"{kind} done", tried, 600)


def written(talking: Installation, rollout: int) -> Written:
    [(text, stop_reason, turns, data)] = talking.wait(
        "it is written", lambda: talking.sql(WRITTEN, rollout)
    )
    return Written(text, stop_reason, turns, unpack_payload(data))


def stopping(page: Page) -> bool:
    page.keyboard.press("x")
    return True


def typing(page: Page, key: str, words: str) -> bool:
    """Open the box with this key, wait until the policy is paused, and send the words; return
    False if the reply had already ended.
    """
    page.keyboard.press(key)
    held = page.get_by_text("You are writing. The policy is paused.")
    held.or_(page.locator("[data-follow]:not([data-state=sampling])")).first.wait_for()
    if not held.is_visible():
        return False
    page.locator("[data-editor] textarea").fill(words)
    page.keyboard.press("Control+Enter")
    page.locator("[data-status].good").wait_for()
    return True


@pytest.mark.nightly
def test_reply_can_be_stopped_from_the_live_page(talking, page):
    rollout = steered(talking, page, "stop", lambda: stopping(page))
    stopped = written(talking, rollout)
    assert stopped.stop_reason == "stopped by a person" and stopped.text
    assert stopped.mask(
        0, stopped.turns[0]["tokens"] if stopped.turns else len(stopped.tokens.action_mask)
    ) == {1}
    page.locator(f"#card-{rollout}.done").wait_for()


def test_edited_words_are_marked_and_masked_and_the_model_continues(talking, page, folder):
    rollout = steered(talking, page, "edit", lambda: typing(page, "e", BEGUN))
    assert set(page.locator("[data-turns] .human-text").first.inner_text().split()) <= set(
        BEGUN.split()
    )
    edited = written(talking, rollout)
    turn = edited.turns[edited.touched()]
    [typed] = turn["typed"]
    begins = turn["first"]
    kept = typed["first"]
    past = typed["first"] + typed["tokens"]
    ends = turn["first"] + turn["tokens"]
    assert edited.text[turn["start"] :].startswith(BEGUN) and BEGUN.endswith(
        edited.text[typed["start"] : typed["end"]]
    )
    assert edited.spelt(folder, begins, past - begins) == BEGUN and edited.mask(
        kept, typed["tokens"]
    ) == {0}
    assert ends > past and edited.mask(past, ends - past) == {1}
    assert kept == begins or edited.mask(begins, kept - begins) == {1}


@pytest.mark.nightly
def test_person_types_a_turn_in_a_dialogue_that_continues(talking, page, folder):
    def taken() -> tuple[int, str, Written] | None:
        """One in which the user had more to say: on a busy machine it may be the last turn by the
        time that it is held.
        """
        # others at each try: what is said twice of two prompts makes two lessons
        words = f"{POLITE}{next(longer)}"
        rollout = steered(talking, page, "seat", lambda: typing(page, "t", words))
        seated = written(talking, rollout)
        return (rollout, words, seated) if seated.touched() + 2 < len(seated.turns) else None

    longer = (" Have a lovely day!" * tried for tried in itertools.count())
    rollout, words, seated = talking.wait("an answer to the person's turn", taken, 900)
    typed, asked, answered = seated.turns[seated.touched() :][:3]
    assert [turn["role"] for turn in (typed, asked, answered)] == ["assistant", "user", "assistant"]
    page.locator("[data-turns] .say.assistant").nth(1).wait_for()
    assert seated.text[typed["start"] : typed["end"]] == words
    assert seated.mask(typed["first"], answered["first"] - typed["first"]) == {0}
    assert seated.mask(answered["first"], answered["tokens"]) == {1}
    assert talking.sql(LESSON, rollout) == [(words,)]
    assert talking.violations() == {}
