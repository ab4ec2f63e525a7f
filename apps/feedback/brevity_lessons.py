"""Long to short (Kimi k1.5, arXiv 2501.12599, section 2.4): lessons in brevity from a run.

Of all answers to a task, the shortest right one is a demonstration (shortest rejection sampling);
against it stand, as the rejected halves of preferences, wrong answers that are longer, and right
ones more than `max_length_ratio` times as long.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from django.db import transaction

from apps.buffer.models import Experience
from apps.feedback.models import Demonstration, Lesson, Preference
from apps.rewards.combining import full_reward
from apps.runs.models import Run
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import find_judged_kind
from apps.tasksets.models import Task

OVER = 1.5  # times the shortest answer's length
ROUNDING = 1e-6
BATCH = 500  # lessons written together


@dataclass(frozen=True)
class Answer:
    """One rollout: text, length in tokens, whether it is right, whether it ended itself, and id."""

    text: str
    tokens: int
    is_right: bool
    is_ended: bool = True
    rollout: int | None = None


def shortest_right(answers: Sequence[Answer]) -> Answer | None:
    """Return the right answer with the fewest tokens, the first of equals.

    An answer that was cut off is never chosen.
    """
    return min(
        (answer for answer in answers if answer.is_right and answer.is_ended),
        key=lambda answer: answer.tokens,
        default=None,
    )


def rejected(
    answers: Sequence[Answer], chosen: Answer, max_length_ratio: float = OVER
) -> list[Answer]:
    """Return wrong answers longer than the chosen one, and much longer right ones.

    A right one is rejected above `max_length_ratio` times the length of the chosen one. Each
    text occurs once.
    """
    longer = (
        a
        for a in answers
        if a.tokens > (max_length_ratio * chosen.tokens if a.is_right else chosen.tokens)
    )
    return list(
        {
            answer.text: answer for answer in longer if answer.text and answer.text != chosen.text
        }.values()
    )


def draw_demonstrations(run: Run, from_version: int = 0) -> tuple[int, int]:
    """Save the shortest right answer to each task of the run.

    Return how many are new and how many existed.
    """
    return _keep(Demonstration, _draw_lessons(run, from_version, _demonstrations))


def draw_preferences(
    run: Run, from_version: int = 0, max_length_ratio: float = OVER
) -> tuple[int, int]:
    """Save every pair of a shortest right answer and a rejected one.

    Return how many are new and how many existed.
    """
    return _keep(
        Preference,
        _draw_lessons(run, from_version, lambda answers: _preferences(answers, max_length_ratio)),
    )


def _demonstrations(answers: Sequence[Answer]) -> Iterator[Lesson]:
    if chosen := shortest_right(answers):
        yield Demonstration(answer=chosen.text)


def _preferences(answers: Sequence[Answer], max_length_ratio: float) -> Iterator[Lesson]:
    if chosen := shortest_right(answers):
        for answer in rejected(answers, chosen, max_length_ratio):
            parents = {"chosen_rollout_id": chosen.rollout, "rejected_rollout_id": answer.rollout}
            yield Preference(chosen=chosen.text, rejected=answer.text, **parents)


def _draw_lessons(
    run: Run, from_version: int, lessons_of: Callable[[Sequence[Answer]], Iterator[Lesson]]
) -> Iterator[Lesson]:
    """Yield lessons task by task, so that only one task's answers are in memory."""
    plan = run.settings
    judged = Experience.objects.usual().filter(run=run, rollout__first_version__gte=from_version)
    rows = judged.order_by("group__task", "rollout").values_list(
        "group__task",
        "group__task__domain",
        f"group__task__meta__{JUDGED_BY}",
        "rollout__text",
        "rollout__completion_tokens",
        "reward",
        "rollout__stop_reason",
        "rollout",
    )
    for (task_id, domain, judged_by), some in groupby(
        rows.iterator(BATCH), key=lambda row: row[:3]
    ):
        full = full_reward(plan, find_judged_kind(domain, judged_by)) - ROUNDING
        answers = [
            Answer(text, tokens, reward >= full, stop == "stop", pk)
            for *_, text, tokens, reward, stop, pk in some
        ]
        for lesson in lessons_of(answers):
            lesson.project_id, lesson.run, lesson.task_id, lesson.source = (
                run.project_id,
                run,
                task_id,
                f"shortest of {run.slug}",
            )
            yield lesson


@transaction.atomic
def _keep(kind: type[Lesson], drawn: Iterable[Lesson]) -> tuple[int, int]:
    stream = iter(drawn)
    new = 0
    existing = 0
    while batch := list(islice(stream, BATCH)):
        prompts = dict(
            Task.objects.filter(pk__in={lesson.task_id for lesson in batch}).values_list(
                "pk", "prompt"
            )
        )
        for lesson in batch:
            assert lesson.task_id is not None  # it is of a task's answers
            lesson.prompt = prompts[lesson.task_id]
            lesson.keyed()
        existing_keys = kind.objects.existing(batch)
        fresh = {lesson.key: lesson for lesson in batch if (None, lesson.key) not in existing_keys}
        kind.objects.bulk_create(fresh.values())
        new = new + len(fresh)
        existing = existing + len(batch) - len(fresh)
    return new, existing
