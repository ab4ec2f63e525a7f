"""A file of episodes as a run of its own: rollouts with the tokens, logprobs and rewards that they were recorded with, refined.

The run is not started and samples nothing by itself while it has planned no more than what was imported: started, its trainer
learns from the file (offline). All of the file or nothing.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.environments.choosing import find
from apps.environments.closing import Ending, settle
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import checked_reward, text_of
from apps.environments.traces.reading import BadLine, Line, Turn, read
from apps.pipelines.refining import refine
from apps.policies.fingerprint import tokenizer_fingerprint, vocabulary
from apps.policies.models import Policy
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import BETWEEN_TURNS, POLICY, USER
from apps.rollouts.turns import Turn as Passage
from apps.runs.config import ConfigError, parse
from apps.runs.models import Run, after
from apps.tasksets.models import Task, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store

LISTED = 20  # bad lines that a refusal names; the rest are counted
IMPORTER, LEASE_S = "import", 3600.0
MOST_GROUPS_PER_STEP = 16


class BadEpisodes(ValueError):
    """The file was refused; nothing was stored. The message names lines and fields."""


@dataclass(frozen=True)
class Destination:
    """Where the episodes go: a new run `slug` of this policy. `environment`: ours, where the file's is called otherwise.

    `same_tokenizer`: of lines that do not say which tokenizer spelt them, a person says that it is the policy's.
    `changes`: fields of the run's configuration.
    """

    project: Project
    slug: str
    policy: Policy
    environment: str = ""
    same_tokenizer: bool = False
    changes: Mapping[str, object] = field(default_factory=dict)
    by: User | None = None


@dataclass(frozen=True)
class Imported:
    run: Run
    episodes: int
    groups: int
    admitted: int


@transaction.atomic
def import_episodes(path: Path, to: Destination) -> Imported:
    """Raises BadEpisodes, and ConfigError for `changes` that make no run."""
    read_lines = _read(path, to)
    environment = _environment(to, read_lines)
    _require_rewards(environment, read_lines)
    taskset, tasks = _tasks(to, path, read_lines)
    grouped: dict[str, list[int]] = defaultdict(list)
    for place, (_, line) in enumerate(read_lines):
        grouped[line.group].append(place)
    run = _run(to, environment, taskset, read_lines, [len(places) for places in grouped.values()])
    groups = _groups(run, list(grouped.values()), tasks)
    rollouts = _rollouts(run, groups, [[line for _, line in _of(read_lines, places)] for places in grouped.values()])
    _play(run, environment, rollouts)
    Run.objects.filter(pk=run.pk).update(groups_opened=len(groups))
    admitted = refine(list(Group.objects.filter(run=run).select_related("run", "task").order_by("pk")))
    return Imported(_planned(run, admitted), len(read_lines), len(groups), admitted)


def _of(read_lines: Sequence[tuple[int, Line]], places: Sequence[int]) -> Iterator[tuple[int, Line]]:
    return (read_lines[place] for place in places)


# -- the file -----------------------------------------------------------------------------------------------------------------


def _read(path: Path, to: Destination) -> list[tuple[int, Line]]:
    """The lines with their numbers."""
    tokenizer, words = tokenizer_fingerprint(to.policy), vocabulary(to.policy)
    found, wrong, count = [], [], 0
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = read(raw.rstrip(b"\r\n"))
                _require_spelling(line, to, tokenizer, words)
                found.append((number, line))
            except BadLine as why:
                count += 1
                wrong += [f"line {number}: {why}"][: LISTED - len(wrong)]
    if wrong:
        raise BadEpisodes("\n".join([*wrong, *([f"and {count - len(wrong)} more"] if count > len(wrong) else [])]))
    if not found:
        raise BadEpisodes("there is no episode in it")
    return found


def _require_spelling(line: Line, to: Destination, tokenizer: str, words: int) -> None:
    if line.tokens is None:
        return
    said = line.known.tokenizer if line.known else ""
    if said and said != tokenizer:
        raise BadLine(
            "traces.info.rftweb.tokenizer", f"is not that of the policy {to.policy.slug!r}: its tokens mean something else"
        )
    if not said and not to.same_tokenizer:
        raise BadLine(
            "traces.info", f"say that its tokens are those of the policy {to.policy.slug!r} (--same-tokenizer), if they are"
        )
    largest = max((*line.tokens.prompt_ids, *line.tokens.completion_ids))
    if words and largest >= words:
        raise BadLine("traces.nodes.token_ids", f"has {largest}; the policy {to.policy.slug!r} knows {words} tokens")


def _environment(to: Destination, read_lines: Sequence[tuple[int, Line]]) -> Environment:
    names = sorted({line.episode.env.id for _, line in read_lines})
    if len(names) > 1 and not to.environment:
        raise BadEpisodes(f"env.id: the file has several environments ({', '.join(names[:5])}); import them one by one")
    try:
        return find(to.project, to.environment or names[0])
    except LookupError as missing:
        raise BadEpisodes(f"env.id: {missing}; register it, or say which of ours it is (--environment)") from None


def _require_rewards(environment: Environment, read_lines: Sequence[tuple[int, Line]]) -> None:
    for number, line in read_lines:
        for turn in line.turns:
            try:
                checked_reward(environment, turn.reward)
                checked_reward(environment, turn.late_reward)
            except CannotPlay as why:
                raise BadEpisodes(f"line {number}: traces.rewards: {why}") from None


# -- tasks --------------------------------------------------------------------------------------------------------------------


def _tasks(to: Destination, path: Path, read_lines: Sequence[tuple[int, Line]]) -> tuple[Taskset, list[Task]]:
    """The taskset, and each line's task: those that the file was made of where they are here, new ones otherwise."""
    if known := _known_tasks(to, read_lines):
        return known
    rows, places = {}, []
    for _, line in sorted(read_lines, key=lambda read_line: read_line[1].episode.task.data.idx or 0):
        row = TaskRow(line.prompt, line.answer, line.episode.task.data.meta)
        rows.setdefault(_key(row), row)
    order = list(rows)
    try:
        with transaction.atomic():
            taskset = store(Origin(to.project, to.slug, f"Of {path.name}"[:200], path.name[:200], by=to.by), rows.values())
    except IntegrityError:
        raise BadEpisodes(f"project {to.project.slug!r} has a taskset {to.slug!r}: choose another --run") from None
    tasks = {task.index: task for task in taskset.tasks.all()}
    places = [order.index(_key(TaskRow(line.prompt, line.answer, line.episode.task.data.meta))) for _, line in read_lines]
    return taskset, [tasks[place] for place in places]


def _known_tasks(to: Destination, read_lines: Sequence[tuple[int, Line]]) -> tuple[Taskset, list[Task]] | None:
    slugs = {line.episode.task.data.taskset for _, line in read_lines}
    taskset = to.project.tasksets.filter(slug=slugs.pop()).first() if len(slugs) == 1 else None
    if taskset is None:
        return None
    wanted = {line.episode.task.data.idx for _, line in read_lines}
    there = {task.index: task for task in taskset.tasks.filter(index__in=wanted - {None})}
    tasks = [there.get(line.episode.task.data.idx) for _, line in read_lines]
    same = all(
        task is not None and (task.prompt, task.answer, task.meta) == (line.prompt, line.answer, line.episode.task.data.meta)
        for task, (_, line) in zip(tasks, read_lines, strict=True)
    )
    return (taskset, tasks) if same else None


def _key(row: TaskRow) -> str:
    return json.dumps([row.prompt, row.answer, row.meta], sort_keys=True)


# -- the run ------------------------------------------------------------------------------------------------------------------


def _run(
    to: Destination, environment: Environment, taskset: Taskset, read_lines: Sequence[tuple[int, Line]], sizes: Sequence[int]
) -> Run:
    sampling = read_lines[0][1].trace.agent.config.sampling
    given = sampling.model_dump(exclude_none=True) if sampling else {}
    per_step = min(MOST_GROUPS_PER_STEP, len(sizes))
    plan = parse({
        "policy": to.policy.slug, "taskset": taskset.slug, "steps": max(1, len(sizes) // per_step), "group_size": max(sizes),
        "groups_per_step": per_step, "max_staleness": min(1000, len(sizes)), "environment": {"name": environment.name},
        "sampling": given, **to.changes,
    })  # fmt: skip
    if plan.policy != to.policy.slug or plan.environment is None or plan.environment.name != environment.name or plan.rewards:
        raise ConfigError({"configuration": "policy, environment and rewards are those of the file and cannot be changed here"})
    try:
        with transaction.atomic():
            title = f"Imported: {to.slug}"[:200]
            return Run.create(project=to.project, slug=to.slug, title=title, plan=plan, owner=to.by)
    except IntegrityError:
        raise BadEpisodes(f"project {to.project.slug!r} has a run {to.slug!r}: choose another --run") from None


def _planned(run: Run, admitted: int) -> Run:
    """No more updates, and no larger ones, than the file has groups for: nothing is sampled beside them."""
    if not admitted:
        raise BadEpisodes(
            f"no group of it can be learned from: {run.groups.exclude(reason='').values_list('reason', flat=True)[0]}"
        )
    per_step = min(run.settings.groups_per_step, admitted)
    steps = admitted // per_step
    plan = parse({**run.config, "steps": steps, "groups_per_step": per_step})
    Run.objects.filter(pk=run.pk).update(planned_steps=steps, config=plan.model_dump(mode="json"))
    run.refresh_from_db()
    return run


def _groups(run: Run, grouped: Sequence[Sequence[int]], tasks: Sequence[Task]) -> list[Group]:
    return Group.objects.bulk_create(
        Group(run=run, draw_index=draw, task=tasks[places[0]], size=len(places), state=Group.State.JUDGED, opened_version=0,
              lease_owner=IMPORTER, lease_until=after(LEASE_S), fence=1, sampled_at=Now(), judged_at=Now())
        for draw, places in enumerate(grouped)
    )  # fmt: skip


def _rollouts(run: Run, groups: Sequence[Group], grouped: Sequence[Sequence[Line]]) -> list[tuple[Rollout, Line]]:
    """Written as an explorer writes them; none of the run's own versions sampled them, and they count as its base's."""
    pairs = [
        (Rollout(run=run, group=group, sample_index=index), line)
        for group, of_group in zip(groups, grouped, strict=True)
        for index, line in zip(_indexes(of_group), of_group, strict=True)
    ]
    Rollout.objects.bulk_create(rollout for rollout, _ in pairs)
    Rollout.write_outcomes([(rollout, _outcome(rollout, line)) for rollout, line in pairs])
    return pairs


def _indexes(of_group: Sequence[Line]) -> list[int]:
    known = [line.known.sample for line in of_group if line.known]
    return known if len(set(known)) == len(of_group) else list(range(len(of_group)))


def _outcome(rollout: Rollout, line: Line) -> Outcome:
    passages = _passages(line)
    text = BETWEEN_TURNS.join(passage.text for passage in passages)
    reason = line.known.stop_reason if line.known else line.reason[:200]
    return Outcome(rollout.pk, line.tokens, text, reason, tuple(passages) if len(passages) > 1 else ())


def _passages(line: Line) -> list[Passage]:
    """The policy's turns, and what the environment said between them."""
    found: list[Passage] = []
    start = heard = 0
    for number, turn in enumerate(turn for turn in line.turns if turn.acted):
        between = [(USER, text_of(turn.observation), heard, turn.first - heard)] if number else []
        for role, text, first, tokens in [*between, (POLICY, turn.action, turn.first, turn.tokens)]:
            found.append(Passage(role, text, start, first, tokens))
            start += len(text) + len(BETWEEN_TURNS)
        heard = turn.first + turn.tokens
    return found


def _play(run: Run, environment: Environment, rollouts: Sequence[tuple[Rollout, Line]]) -> None:
    """The episodes and turns of these rollouts, and what they earned."""
    episodes = Episode.objects.bulk_create(_episode(run, environment, rollout, line) for rollout, line in rollouts)
    EpisodeTurn.objects.bulk_create(
        _turn(episode, number, turn, line)
        for episode, (_, line) in zip(episodes, rollouts, strict=True)
        for number, turn in enumerate(line.turns)
    )
    settle(
        [
            Ending(episode.pk, rollout.pk, line.reason, _failure(line))
            for episode, (rollout, line) in zip(episodes, rollouts, strict=True)
        ]
    )


def _failure(line: Line) -> str:
    """Why its rollout counts for nothing; empty when it does not."""
    if line.state == Episode.State.DONE and line.tokens:
        return ""
    return line.known.stop_reason if line.known else line.reason


def _episode(run: Run, environment: Environment, rollout: Rollout, line: Line) -> Episode:
    said, known = line.episode.model_dump(include={"id", "run", "group"}, exclude_none=True), line.known
    return Episode(
        environment=environment, run=run, rollout=rollout, fence=1, seed=known.seed if known else 0,
        options=known.options if known else {}, turn_limit=line.trace.agent.config.max_turns or environment.turn_limit,
        origin={**said, "versions": known.versions if known else []}, state=line.state, reason=line.reason, turns=len(line.turns),
        opened_at=line.opened_at, begun_at=line.opened_at, moved_at=line.closed_at, closed_at=line.closed_at,
    )  # fmt: skip


def _turn(episode: Episode, number: int, turn: Turn, line: Line) -> EpisodeTurn:
    seen = len(line.tokens.prompt_ids) + turn.first if line.tokens and turn.acted else None
    return EpisodeTurn(
        episode=episode, number=number, observation=turn.observation, done=turn.done, info=turn.info, tools=turn.tools,
        action=turn.action, is_cut=turn.is_cut, reward=turn.reward, late_reward=turn.late_reward, reason=turn.reason,
        first=turn.first if turn.acted else None, tokens=turn.tokens, before=seen, asked_at=line.opened_at,
        answered_at=line.closed_at if turn.acted else None,
    )  # fmt: skip
