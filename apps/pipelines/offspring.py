"""Rollouts that operators make of others: written down with the verdict on their parents' group, in tokens once the trainer comes.

Two steps, since what another task asks exists in tokens only where the tokenizer is. They are no samples: they stand among the
experts' answers to their task, and only the expert loss learns from them.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import count

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from apps.accounts.locking import lock_one, retrying
from apps.buffer.models import Experience, Offspring
from apps.buffer.models.offspring import LONGEST_REASON
from apps.feedback.experts import expert_experience, groups_of
from apps.pipelines.applying import Pass
from apps.pipelines.operators.contract import Made
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import Tokens, pack
from apps.rollouts.turns import Turn, kept, turns_of
from apps.runs.models import Run
from apps.tasksets.duplicates import content_of
from apps.tasksets.growing import LONGEST_SLUG, add
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow

Born = tuple[Offspring, Tokens]


# -- written down by the refiner --------------------------------------------------------------------------------------------


def put(group: Group, rows: Sequence[tuple[Pass, Made]]) -> Counter[int]:
    """What operators made of the group's answers, once for each thing that it teaches; how many are new, by place.

    Called in the transaction that closes the group.
    """
    found: Counter[int] = Counter()
    if not rows:
        return found
    asked = _locked_set(group.run) if any(made.task for _, made in rows) else None
    parents = Rollout.objects.in_bulk([made.of.rollout for _, made in rows])
    keys = [_key(made, parents[made.of.rollout]) for _, made in rows]
    there = set(Offspring.objects.filter(run=group.run_id, key__in=keys).values_list("key", flat=True))
    for key, (one, made) in zip(keys, rows, strict=True):
        if key in there:
            continue
        there.add(key)
        task = add(asked.pk, _asked(made.task, group.task)) if made.task and asked else group.task
        _, is_new = Offspring.objects.get_or_create(
            run_id=group.run_id, key=key,
            defaults={"of_id": made.of.rollout, "task": task, "tokens": made.tokens or parents[made.of.rollout].completion_tokens,
                      "place": one.place, "operator": one.operator, "reason": made.reason[:LONGEST_REASON]},
        )  # fmt: skip
        found[one.place] += is_new
    return found


def _key(made: Made, parent: Rollout) -> str:
    """Of answers that reached the same, one is enough, and of a group's episodes that began with the same words."""
    said = content_of(made.task) if made.task else f"{parent.group_id} {_beginning(parent, made.tokens or 0)[1]}".encode()
    return hashlib.sha256(said).hexdigest()


def _beginning(parent: Rollout, tokens: int) -> tuple[list[Turn], str]:
    """The turns that end within the parent's first tokens, and their text."""
    turns = [turn for turn in turns_of(parent) if turn.first_token + turn.tokens <= tokens]
    return turns, parent.text[: turns[-1].start + len(turns[-1].text)] if turns else ""


def _asked(row: TaskRow, parent: Task) -> TaskRow:
    meta = {**row.meta, "parents": [f"{parent.taskset.slug}#{parent.index}"]}
    return TaskRow(row.prompt, row.answer, meta, domain=parent.domain, parent=parent.pk)


def _locked_set(run: Run) -> Taskset:
    """The growing set of what this run's answers have reached, locked: so no two refiners ask the same in it."""
    source = f"hindsight of {run.slug}"[:200]
    for number in count(1):
        end = "-hindsight" + (f"-{number}" if number > 1 else "")
        known, _ = Taskset.objects.get_or_create(
            project_id=run.project_id, slug=run.slug[: LONGEST_SLUG - len(end)] + end,
            defaults={"title": f"What answers of {run.slug} have reached"[:200], "source": source, "grows": True},
        )  # fmt: skip
        if known.grows and known.source == source:  # else somebody else's set has this name
            break
    return lock_one(Taskset.objects.filter(pk=known.pk))


# -- taken in by the trainer ------------------------------------------------------------------------------------------------


def not_yet_admitted(run: Run) -> QuerySet[Offspring]:
    """What the run cannot learn from yet, the oldest first; without those whose parents' arrays were let go."""
    waiting = Offspring.objects.waiting().filter(run=run, of__arrays_released_at=None)
    return waiting.select_related("task", "of__group", "of__payload").order_by("pk")


def tokens_of(one: Offspring, prompt: Sequence[int] | None = None) -> Tokens:
    """Its tokens: the parent's own, behind this prompt or its own one.

    No version stands for them, since all of it is taught. Behind another prompt nobody sampled them: 0.0 stands where
    logprobs would, and no loss reads it.
    """
    parent, length = one.of.tokens, one.tokens
    asked = parent.prompt_ids if prompt is None else tuple(prompt)
    shown = tuple(one for one in parent.pictures if one[2] <= len(asked) + length) if prompt is None else ()
    logprobs = parent.logprobs[:length] if prompt is None else (0.0,) * length
    return Tokens(asked, parent.completion_ids[:length], logprobs, parent.action_mask[:length], (), shown)


@retrying
def admit(run: Run, fence: int, born: Sequence[Born]) -> int:
    """Put these into the run's buffer; admitting one again changes nothing. Returns how many are new. Raises StaleFence."""
    with run.fenced(fence) as locked:
        fresh = set(not_yet_admitted(locked).values_list("pk", flat=True))
        born = [(one, tokens) for one, tokens in born if one.pk in fresh]
        groups = groups_of(locked, {one.task_id for one, _ in born})
        places = Counter(dict(Rollout.objects.filter(group__in=groups.values()).values_list("group").annotate(n=Count("pk"))))
        for one, tokens in born:
            group = groups[one.task_id]
            one.rollout = _rollout(one, group, places[group.pk], tokens)
            places[group.pk] += 1
        Rollout.objects.bulk_create(one.rollout for one, _ in born)
        RolloutPayload.objects.bulk_create(RolloutPayload(rollout=one.rollout, data=pack(tokens)) for one, tokens in born)
        Offspring.objects.bulk_update([one for one, _ in born], ["rollout"])
        Experience.objects.bulk_create(expert_experience(one.rollout) for one, _ in born)
    return len(born)


def _rollout(one: Offspring, group: Group, place: int, tokens: Tokens) -> Rollout:
    is_whole = one.tokens == one.of.completion_tokens
    turns, text = _beginning(one.of, one.tokens)
    return Rollout(
        run_id=one.run_id, group=group, sample_index=place, origin=Rollout.Origin.SYNTHETIC, state=Rollout.State.FINISHED,
        text=one.of.text if is_whole else text, turns=one.of.turns if is_whole else kept(turns),
        stop_reason=one.of.stop_reason if is_whole else "stop", prompt_tokens=len(tokens.prompt_ids),
        completion_tokens=len(tokens.completion_ids), first_version=one.of.first_version, last_version=one.of.last_version,
        finished_at=Now(),
    )  # fmt: skip
