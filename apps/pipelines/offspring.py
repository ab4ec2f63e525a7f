"""Offspring that operators derive from rollouts: recorded by the refiner, tokenised by the trainer.

There are two steps, since a changed task has tokens only where the tokenizer is. Offspring are no
samples: they are stored with the experts' answers to their task, and only the expert loss learns
from them.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import count

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_one, retrying
from apps.buffer.models import Experience, Offspring
from apps.buffer.models.offspring import MAX_REASON_LENGTH
from apps.feedback.experts import expert_experience, find_expert_groups
from apps.pipelines.applying import OperatorResult
from apps.pipelines.operators.contract import Made
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import Tokens, pack
from apps.rollouts.turns import Turn, list_turns, store_turns
from apps.runs.models import Run
from apps.tasksets.duplicates import digest_content
from apps.tasksets.growing import add_task
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.versions import MAX_SLUG_LENGTH

Born = tuple[Offspring, Tokens]


# -- recording by the refiner


def put(group: Group, rows: Sequence[tuple[OperatorResult, Made]]) -> Counter[int]:
    """Record the offspring of the group's answers, once for each content.

    Return the new ones by place.

    Call it in the transaction that closes the group.
    """
    created: Counter[int] = Counter()
    if not rows:
        return created
    taskset = _locked_set(group.run) if any(row.task for _, row in rows) else None
    parents = Rollout.objects.in_bulk([row.of.rollout for _, row in rows])
    keys = [_key(row, parents[row.of.rollout]) for _, row in rows]
    existing_keys = set(
        Offspring.objects.filter(run=group.run_id, key__in=keys).values_list("key", flat=True)
    )
    for key, (result, row) in zip(keys, rows, strict=True):
        if key in existing_keys:
            continue
        existing_keys.add(key)
        task = (
            add_task(taskset.pk, _task_row(row.task, group.task))
            if row.task and taskset
            else group.task
        )
        _, is_new = Offspring.objects.get_or_create(
            run_id=group.run_id,
            key=key,
            defaults={
                "of_id": row.of.rollout,
                "task": task,
                "tokens": row.tokens or parents[row.of.rollout].completion_tokens,
                "place": result.place,
                "operator": result.operator,
                "reason": row.reason[:MAX_REASON_LENGTH],
            },
        )
        created[result.place] += is_new
    return created


def _key(row: Made, parent: Rollout) -> str:
    """Return the digest of what the offspring teaches.

    Answers that reached the same goal share one, as do episodes of a group that begin with the same
    text.
    """
    identity = (
        digest_content(row.task)
        if row.task
        else f"{parent.group_id} {_beginning(parent, row.tokens or 0)[1]}".encode()
    )
    return hashlib.sha256(identity).hexdigest()


def _beginning(parent: Rollout, tokens: int) -> tuple[list[Turn], str]:
    """Return the turns that end within the parent's first tokens, and their text."""
    turns = [turn for turn in list_turns(parent) if turn.first_token + turn.tokens <= tokens]
    if not turns:
        return [], ""
    end = turns[-1].start + len(turns[-1].text)
    return turns, parent.text[:end]


def _task_row(row: TaskRow, parent: Task) -> TaskRow:
    meta = {**row.meta, "parents": [f"{parent.taskset.slug}#{parent.index}"]}
    return TaskRow(row.prompt, row.answer, meta, domain=parent.domain, parent=parent.pk)


def _locked_set(run: Run) -> Taskset:
    """Return the growing taskset of the goals that this run's answers reached, locked.

    The lock keeps two refiners from adding the same task.
    """
    source = f"hindsight of {run.slug}"[:200]
    for number in count(1):
        end = "-hindsight" + (f"-{number}" if number > 1 else "")
        taskset, _ = Taskset.objects.get_or_create(
            project_id=run.project_id,
            slug=run.slug[: MAX_SLUG_LENGTH - len(end)] + end,
            defaults={
                "title": f"Hindsight tasks from answers of {run.slug}"[:200],
                "source": source,
                "grows": True,
            },
        )
        if taskset.grows and taskset.source == source:  # otherwise another set has this name
            break
    return lock_one(Taskset.objects.filter(pk=taskset.pk))


# -- admission by the trainer


def not_yet_admitted(run: Run) -> QuerySet[Offspring]:
    """Return the run's waiting offspring, oldest first, whose parents' arrays still exist."""
    waiting = Offspring.objects.waiting().filter(run=run, of__arrays_released_at=None)
    return waiting.select_related("task", "of__group", "of__payload").order_by("pk")


def tokens_of(offspring: Offspring, prompt: Sequence[int] | None = None) -> Tokens:
    """Return the offspring's tokens: the parent's, after the given prompt or the parent's own.

    No version is recorded for them, since all of it is taught. Nobody sampled them after another
    prompt: logprobs are then 0.0, and no loss reads them.
    """
    parent = offspring.of.tokens
    length = offspring.tokens
    prompt_ids = parent.prompt_ids if prompt is None else tuple(prompt)
    pictures = (
        tuple(picture for picture in parent.pictures if picture[2] <= len(prompt_ids) + length)
        if prompt is None
        else ()
    )
    logprobs = parent.logprobs[:length] if prompt is None else (0.0,) * length
    return Tokens(
        prompt_ids,
        parent.completion_ids[:length],
        logprobs,
        parent.action_mask[:length],
        (),
        pictures,
    )


@retrying
def admit(run: Run, fence: int, born: Sequence[Born]) -> int:
    """Add these offspring to the run's buffer; adding one again changes nothing.

    Returns how many are new. Raises StaleFence.
    """
    with run.fenced(fence) as locked:
        fresh = set(not_yet_admitted(locked).values_list("pk", flat=True))
        born = [(offspring, tokens) for offspring, tokens in born if offspring.pk in fresh]
        groups = find_expert_groups(locked, {offspring.task_id for offspring, _ in born})
        places = Counter(
            dict(
                Rollout.objects.filter(group__in=groups.values())
                .values_list("group")
                .annotate(n=Count("pk"))
            )
        )
        rollouts = []
        for offspring, tokens in born:
            group = groups[offspring.task_id]
            rollouts.append(_rollout(offspring, group, places[group.pk], tokens))
            places[group.pk] += 1
        Rollout.objects.bulk_create(rollouts)
        RolloutPayload.objects.bulk_create(
            RolloutPayload(rollout=rollout, data=pack(tokens))
            for rollout, (_, tokens) in zip(rollouts, born, strict=True)
        )
        for rollout, (offspring, _) in zip(rollouts, born, strict=True):
            offspring.rollout = rollout
        Offspring.objects.bulk_update([offspring for offspring, _ in born], ["rollout"])
        Experience.objects.bulk_create(expert_experience(rollout) for rollout in rollouts)
    return len(born)


def _rollout(offspring: Offspring, group: Group, place: int, tokens: Tokens) -> Rollout:
    is_whole = offspring.tokens == offspring.of.completion_tokens
    turns, text = _beginning(offspring.of, offspring.tokens)
    return Rollout(
        run_id=offspring.run_id,
        group=group,
        sample_index=place,
        origin=Rollout.Origin.SYNTHETIC,
        state=Rollout.State.FINISHED,
        text=offspring.of.text if is_whole else text,
        turns=offspring.of.turns if is_whole else store_turns(turns),
        stop_reason=offspring.of.stop_reason if is_whole else "stop",
        prompt_tokens=len(tokens.prompt_ids),
        completion_tokens=len(tokens.completion_ids),
        first_version=offspring.of.first_version,
        last_version=offspring.of.last_version,
        finished_at=Now(),
    )
