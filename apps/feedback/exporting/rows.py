"""The rows of each export, read by key a few hundred at a time."""

import hashlib
import hmac
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.db.models import Model, Prefetch, Q, QuerySet

from apps.accounts.models import User
from apps.accounts.redacting import Redactor
from apps.buffer.models import Experience
from apps.feedback.forms import FORMS
from apps.feedback.models import Demonstration, Lesson, Preference, Rating
from apps.rewards.combining import PEOPLE, Judgement, peoples_word
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.models import Run
from apps.runs.people import WORDS_ONLY, People
from apps.tasksets.messages import as_texts
from apps.tasksets.models import Task

ROWS_AT_ONCE = 200
Row = dict[str, object]
M = TypeVar("M", bound=Model)
L = TypeVar("L", bound=Lesson)


@dataclass(frozen=True)
class RowSelection:
    """The selection of rows: of a run, and optionally of one form or since a time.

    `pseudonyms` replaces people's names; `redactor` replaces personal data in every text.
    """

    run: Run
    form: str = ""
    since: datetime | None = None
    pseudonyms: bool = False
    redactor: Redactor | None = None

    def name_of(self, user: User | None) -> str | None:
        """Return the user's name, or a pseudonym that is constant within a project.

        The pseudonym cannot be reversed without the secret key.
        """
        if user is None:
            return None
        if not self.pseudonyms:
            return user.author_name
        message = f"export:{self.run.project_id}:{user.pk}".encode()
        digest = hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256).hexdigest()
        return f"rater-{digest[:10]}"

    def author_fields(self, user: User | None) -> dict[str, object]:
        """Return a row's author, and whether that is a simulated rater.

        Both are None for an import without names.
        """
        return {"author": self.name_of(user), "is_simulated": user and user.is_simulated}

    def ratings(self) -> QuerySet[Rating]:
        about = ("item__group__task__taskset", "rollout__group__task__taskset")
        rows = Rating.objects.filter(run=self.run).select_related("rater", *about)
        rows = rows.filter(form=self.form) if self.form else rows
        return rows.filter(at__gte=self.since) if self.since else rows

    def lessons(self, kind: type[L]) -> QuerySet[L]:
        """Return the run's lessons; with a form other than `rewrite`, none."""
        rows: QuerySet[L] = (
            QuerySet(kind).filter(run=self.run).select_related("author", "task__taskset")
        )
        rows = rows.none() if self.form not in ("", "rewrite") else rows
        return rows.filter(at__gte=self.since) if self.since else rows


def export_rows(kind: str, selection: RowSelection) -> Iterator[Row]:
    """Yield the export's rows, oldest first."""
    rows = ROWS[kind](selection)
    return (
        rows if selection.redactor is None else (_redacted(row, selection.redactor) for row in rows)
    )


def _redacted(row: Row, redactor: Redactor) -> Row:
    """Redact the row.

    An answer, JSON in a text, is redacted as an object, so that it stays JSON.
    """
    clean = {name: redactor.all_of(value) for name, value in row.items() if name != "answer"}
    if "answer" in row:
        answer = json.loads(str(row["answer"]))
        clean["answer"] = json.dumps(redactor.all_of(answer), ensure_ascii=False)
    return {name: clean[name] for name in row}


def in_batches(rows: QuerySet[M], size: int = ROWS_AT_ONCE) -> Iterator[list[M]]:
    """Yield rows by key, each batch in its own query, so that no transaction stays open."""
    last = 0
    while some := list(rows.filter(pk__gt=last).order_by("pk")[:size]):
        yield some
        last = some[-1].pk


# -- votes


def votes(selection: RowSelection) -> Iterator[Row]:
    people = selection.run.settings.people
    for some in in_batches(selection.ratings()):
        texts = _texts(some)
        for rating in some:
            group = _group(rating)
            members = rating.members
            values = rating_values(rating, people)
            yield {
                "rating": rating.pk,
                "run": selection.run.slug,
                **_task_columns(group.task),
                "group": group.pk,
                "item": rating.item_id,
                "form": rating.form,
                "purpose": rating.item.purpose if rating.item else None,
                "answer": json.dumps(rating.answer, ensure_ascii=False),
                "critique": rating.critique,
                "rater": selection.name_of(rating.rater),
                "is_simulated": rating.rater.is_simulated,
                "prompt": as_texts(group.task.prompt),
                "rollouts": members,
                "texts": [texts.get(pk, "") for pk in members],
                "values": [values.get(pk) for pk in members],
                "is_current": rating.is_current,
                "is_withdrawn": rating.is_withdrawn,
                "is_late": rating.is_late,
                "replaces": rating.replaces_id,
                "seconds": rating.seconds,
                "at": rating.at,
            }


def rating_values(rating: Rating, people: People) -> dict[int, float]:
    """Return the value of each rollout by this rating, 0 to 1.

    Empty for a form without numbers, or when the run's rubric has changed.
    """
    form = FORMS.get(rating.form)
    if form is None or rating.form in WORDS_ONLY or rating.form == "flag":
        return {}
    try:
        values = form.values(rating.answer, rating.members, people)
    except (KeyError, ValueError, ZeroDivisionError):  # the run's rubric has been changed since
        return {}
    return {pk: value for pk, value in values.items() if value is not None}


def _task_columns(task: Task | None) -> Row:
    """Return the columns of a task: its index and its taskset, since a run may have several."""
    return {"taskset": task and task.taskset.slug, "task": task and task.index}


def _group(rating: Rating) -> Group:
    if rating.item:
        return rating.item.group
    assert rating.rollout is not None  # a rating is of an item or of a rollout
    return rating.rollout.group


def _texts(ratings: list[Rating]) -> dict[int, str]:
    rollout_ids = {pk for rating in ratings for pk in rating.members}
    return dict(Rollout.objects.filter(pk__in=rollout_ids).values_list("pk", "text"))


# -- groups


def export_groups(selection: RowSelection) -> Iterator[Row]:
    """Yield the admitted groups; with a form, only those that people rated by it."""
    groups = Group.objects.filter(
        run=selection.run, state=Group.State.ADMITTED, draw_index__isnull=False
    )
    if selection.since:
        groups = groups.filter(closed_at__gte=selection.since)
    if selection.form:
        groups = groups.filter(
            Q(items__ratings__form=selection.form) | Q(rollouts__ratings__form=selection.form)
        ).distinct()
    peoples = Reward.objects.filter(source=Reward.Source.HUMAN, is_current=True).exclude(
        details__has_key=LATE
    )
    peoples = peoples.select_related("by")
    finished = (
        Rollout.objects.without_anchors()
        .filter(state=Rollout.State.FINISHED)
        .order_by("sample_index")
        .prefetch_related(
            Prefetch(
                "experiences",
                Experience.objects.order_by("-kind").prefetch_related("step_items__step"),
            ),
            Prefetch("rewards", peoples),
        )
    )
    groups = groups.select_related("task__taskset").prefetch_related(Prefetch("rollouts", finished))
    for some in in_batches(groups):
        for group in some:
            yield _group_row(selection.run, group)


def _group_row(run: Run, group: Group) -> Row:
    """Return the row of a group whose rollouts, experiences and rewards are prefetched."""
    finished = list(group.rollouts.all())
    learned = [next(iter(rollout.experiences.all()), None) for rollout in finished]
    steps = [
        item.step.number
        for experience in learned
        if experience
        for item in experience.step_items.all()
    ]
    return {
        "prompt": as_texts(group.task.prompt),
        "completions": [answer_as_messages(rollout.text) for rollout in finished],
        "rewards": [experience and experience.reward for experience in learned],
        "advantages": [experience and experience.advantage for experience in learned],
        "people": [_word_of(rollout, simulated=False) for rollout in finished],
        "simulated": [_word_of(rollout, simulated=True) for rollout in finished],
        "uncertainties": [_uncertainty(rollout) for rollout in finished],
        "versions": [rollout.first_version for rollout in finished],
        "rollouts": [rollout.pk for rollout in finished],
        "run": run.slug,
        **_task_columns(group.task),
        "group": group.pk,
        "step": min(steps, default=None),
    }


def _word_of(rollout: Rollout, *, simulated: bool) -> float | None:
    """Return people's aggregate reward, or the simulated rater's; never a mixture of both."""
    pure = [reward for reward in rollout.rewards.all() if not reward.is_mixed]
    rewards = [reward for reward in pure if reward.is_simulated == simulated]
    return peoples_word(
        [Judgement(reward.scorer, reward.value, is_human=True) for reward in rewards]
    )


def _uncertainty(rollout: Rollout) -> float | None:
    """Return the standard error of people's reward, where it was aggregated from votes."""
    people = (reward for reward in rollout.rewards.all() if reward.scorer == PEOPLE)
    return next((reward.uncertainty for reward in people), None)


def answer_as_messages(text: str) -> list[dict]:
    """Return an answer as a conversation's last message."""
    return [{"role": "assistant", "content": text}]


# -- pairs


def export_pairs(selection: RowSelection) -> Iterator[Row]:
    """Yield stored preferences (rewrites, imports), then those implied by ratings in each group.

    One person's ratings of one group imply a pair for every two answers with different values; the
    margin is the difference. The same two answers to one task are one pair per person, however
    often they were sampled.
    """
    for some in in_batches(selection.lessons(Preference)):
        for lesson in some:
            parents = (lesson.chosen_rollout_id, lesson.rejected_rollout_id)
            texts = (lesson.chosen, lesson.rejected)
            yield _pair(
                selection,
                lesson.prompt,
                texts,
                parents,
                lesson.margin,
                lesson.author,
                lesson.source,
                lesson,
            )
    yield from _rated_pairs(selection)


def _rated_pairs(selection: RowSelection) -> Iterator[Row]:
    people = selection.run.settings.people
    yielded = set()
    groups = Group.objects.filter(run=selection.run, draw_index__isnull=False)
    for some in in_batches(groups):
        in_groups = Q(item__group__in=some) | Q(rollout__group__in=some)
        candidates = list(
            selection.ratings()
            .filter(in_groups, is_current=True, is_withdrawn=False)
            .order_by("pk")
        )
        texts = _texts(candidates)
        by_hand: dict[tuple[int, int], list[Rating]] = defaultdict(list)
        for rating in candidates:
            by_hand[_group(rating).pk, rating.rater_id].append(rating)
        for ratings in by_hand.values():
            for better, worse, margin, rating in preferred(ratings, people):
                key = hash((rating.rater_id, _group(rating).task_id, texts[better], texts[worse]))
                if texts[better] != texts[worse] and key not in yielded:
                    yielded.add(key)
                    prompt = _group(rating).task.prompt
                    source = f"{rating.form} of run {selection.run.slug}"
                    pair_texts = (texts[better], texts[worse])
                    yield _pair(
                        selection,
                        prompt,
                        pair_texts,
                        (better, worse),
                        margin,
                        rating.rater,
                        source,
                        rating,
                    )


def preferred(ratings: list[Rating], people: People) -> Iterator[tuple[int, int, float, Rating]]:
    """Yield (better, worse, margin, newer rating) of one person's ratings of one group.

    Each comparison is used by itself, single ratings of one form against each other.
    """
    single: dict[str, dict[int, tuple[float, Rating]]] = defaultdict(dict)
    for rating in ratings:
        values = rating_values(rating, people)
        if len(values) > 1:
            yield from _ordered_pairs({pk: (value, rating) for pk, value in values.items()})
        for pk, value in values.items() if len(values) == 1 else ():
            single[rating.form][pk] = value, rating
    for by_rollout in single.values():
        yield from _ordered_pairs(by_rollout)


def _ordered_pairs(
    by_rollout: dict[int, tuple[float, Rating]],
) -> Iterator[tuple[int, int, float, Rating]]:
    """Yield (better, worse, difference, newer rating) of rollouts with different values."""
    for entry, other_entry in itertools.combinations(by_rollout.items(), 2):
        better, worse = (
            (entry, other_entry) if entry[1][0] > other_entry[1][0] else (other_entry, entry)
        )
        (better_pk, (high, first)), (worse_pk, (low, second)) = better, worse
        if high != low:
            newer = max(first, second, key=lambda rating: rating.pk)
            yield better_pk, worse_pk, high - low, newer


def _pair(
    selection: RowSelection,
    prompt: list[dict],
    texts: tuple[str, str],
    parents: tuple[int | None, int | None],
    margin: float | None,
    author: User | None,
    source: str,
    judgement: Preference | Rating,
) -> Row:
    """Return a pair's row; `texts` and `parents` (their rollouts) have the better one first."""
    task = judgement.task if isinstance(judgement, Preference) else _group(judgement).task
    return {
        "prompt": as_texts(prompt),
        "chosen": answer_as_messages(texts[0]),
        "rejected": answer_as_messages(texts[1]),
        "margin": margin,
        **selection.author_fields(author),
        "source": source,
        "run": selection.run.slug,
        **_task_columns(task),
        "chosen_rollout": parents[0],
        "rejected_rollout": parents[1],
        "at": judgement.at,
    }


# -- demonstrations and turn labels


def demonstrations(selection: RowSelection) -> Iterator[Row]:
    """Yield rewrites and other demonstrations of the run."""
    for some in in_batches(selection.lessons(Demonstration)):
        for lesson in some:
            yield {
                "messages": [*as_texts(lesson.prompt), *answer_as_messages(lesson.answer)],
                **selection.author_fields(lesson.author),
                "source": lesson.source,
                "run": selection.run.slug,
                **_task_columns(lesson.task),
                "at": lesson.at,
            }


def turn_labels(selection: RowSelection) -> Iterator[Row]:
    """Yield labels of the turns of an answer, from current marks.

    A turn is labelled bad when it was marked so, or from the first error on.
    """
    ratings = selection.ratings().filter(
        form="turns", is_current=True, is_withdrawn=False, rollout__isnull=False
    )
    for some in in_batches(ratings):
        for rating in some:
            assert rating.rollout is not None  # as filtered
            turns = said_by_policy(rating.rollout.text, rating.rollout.turns)
            marks = list_turn_marks(rating.answer, len(turns))
            messages = as_texts(rating.rollout.group.task.prompt)
            yield {
                "prompt": "\n\n".join(message["content"] for message in messages),
                "prompt_messages": messages,
                "completions": turns,
                "labels": [mark != -1 for mark in marks],
                "marks": marks,
                **selection.author_fields(rating.rater),
                "run": selection.run.slug,
                **_task_columns(rating.rollout.group.task),
                "rollout": rating.rollout_id,
                "at": rating.at,
            }


def list_turn_marks(answer: dict, turns: int) -> list[int]:
    """Return -1, 0 or 1 for each turn."""
    if "marks" in answer:
        return [int(answer["marks"].get(str(turn), 0)) for turn in range(turns)]
    first = answer.get("first_error")
    return [1 if first is None or turn < first else -1 for turn in range(turns)]


ROWS: dict[str, Callable[[RowSelection], Iterator[Row]]] = {
    "votes": votes,
    "groups": export_groups,
    "pairs": export_pairs,
    "demonstrations": demonstrations,
    "turn_labels": turn_labels,
}
