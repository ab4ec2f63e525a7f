"""A run whose rewards are predicted by its rater model, and people who answer its items."""

import uuid
from collections.abc import Callable

import pytest

from apps.feedback.claiming import claim
from apps.feedback.models import Rating
from apps.feedback.rater_model import learning
from apps.feedback.rater_model.base_nll import save_base_nll
from apps.feedback.rater_model.reading import BaseNll
from apps.feedback.ratings.items import submit
from apps.rollouts.models import Rollout
from apps.runs.models import Run
from tests.feedback.asking import answer_to, ask

TEXTS = ["thank you so much", "go away now"]


@pytest.fixture(autouse=True)
def fresh_process():
    learning.clear_learning_state()
    yield
    learning.clear_learning_state()


@pytest.fixture
def modelled(new_run) -> Callable[..., Run]:
    """Return a function that starts a run of 2 groups of 2 per step with rewards only from people,
    through a rater model; keywords change `people`.
    """

    def make(plan: dict | None = None, **people: object) -> Run:
        section = {
            "per_group": 2,
            "at_deadline": "fill_with_rater_model",
            "deadline_s": 600,
            "rater_model": {"repeats": 0},
            **people,
        }
        return new_run(**{"rewards": [], "people": section, **(plan or {})})

    return make


@pytest.fixture
def put(finish) -> Callable[..., list]:
    """Return a function that opens groups of the run for rating, with ordinary surprise values."""

    def make(run: Run, texts: list[str] = TEXTS, groups: int = 1) -> list:
        waiting = ask(run, finish, texts, groups=groups)
        save_base_nll(
            {
                pk: BaseNll(0.5, 2.0, 0)
                for pk in Rollout.objects.filter(run=run).values_list("pk", flat=True)
            }
        )
        return waiting

    return make


@pytest.fixture
def decide() -> Callable[..., list[Rating]]:
    """Return a function that lets a person rate up to `count` items; a polite reply gets five
    stars.
    """

    def take(user, run: Run, count: int = 100, answer: Callable | None = None) -> list[Rating]:
        taken = []
        for _ in range(count):
            held = claim(user, run.pk)
            if not held:
                break
            text = held[0].members[0].text
            said = answer(held[0]) if answer else {"stars": 5 if "thank" in text else 1}
            taken.append(
                submit(
                    user, held[0].slot_id, answer_to(held[0], said, client_uuid=uuid.uuid4())
                ).rating_id
            )
        return list(Rating.objects.filter(pk__in=taken).order_by("pk"))

    return take
