"""Import a file of episodes as a new run, with recorded tokens, logprobs and rewards, refined.

The run is not started. It samples nothing as long as it plans no more steps than the file holds:
once started, its trainer learns from the file (offline). The import is all or nothing, and never
holds the whole file in memory: `looking` is the first pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.environments.closing import Ending, settle_episodes
from apps.environments.environment_lookup import find_or_register
from apps.environments.errors import CannotPlay
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.observations import checked_reward, observation_text
from apps.environments.traces.looking import BadEpisodes, Entry, File, in_groups, task_digest
from apps.environments.traces.reading import Line, Turn
from apps.pipelines.refining import refine
from apps.policies.models import Policy
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.turns import BETWEEN_TURNS, POLICY, USER
from apps.rollouts.turns import Turn as Passage
from apps.runs.config import ConfigError
from apps.runs.models import Run, after
from apps.runs.parsing import parse_config
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Picture, Taskset
from apps.tasksets.rows import TaskRow
from apps.tasksets.storing import Origin, store_taskset

IMPORTER = "import"
LEASE_S = 3600.0
MAX_GROUPS_PER_STEP = 16
LINES_AT_ONCE = 50
BYTES_AT_ONCE = 16 << 20  # bytes of lines written together; a single line may be longer
GROUPS_AT_ONCE = 50  # groups refined together


@dataclass(frozen=True)
class Destination:
    """The target of an import: a new run `slug` of this policy.

    `environment` is ours, if the file's has another name. `same_tokenizer` is a person's assurance
    that lines without a tokenizer's name come from the policy's tokenizer. `changes` are fields of
    the run's configuration.
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
    """Import the file, reading it twice, a line at a time.

    Raises BadEpisodes, and ConfigError for `changes` that make no valid run.
    """
    with path.open("rb") as stream:
        file = File(stream, to.policy, to.same_tokenizer)
        entries = file.entries()
        environment = _environment(to, entries)
        entry_groups = in_groups(entries)
        taskset, tasks = _tasks(to, path, file, entries)
        run = _run(
            to,
            environment,
            taskset,
            file.line(entries[0]),
            [len(of_group) for of_group in entry_groups],
        )
        groups = _groups(run, entry_groups, tasks)
        for batch in _batches(groups, entry_groups):
            _write(
                run,
                environment,
                [(group, sample, entry, file.line(entry)) for group, sample, entry in batch],
            )
    Run.objects.filter(pk=run.pk).update(groups_opened=len(groups))
    return Imported(
        _limit_steps(run, admitted := _refine_groups(run)), len(entries), len(groups), admitted
    )


def _environment(to: Destination, entries: Sequence[Entry]) -> Environment:
    names = sorted({entry.environment for entry in entries})
    if len(names) > 1 and not to.environment:
        raise BadEpisodes(
            f"env.id: the file contains several environments ({', '.join(names[:5])}); import them "
            "one by one"
        )
    try:
        return find_or_register(to.project, to.environment or names[0])
    except LookupError as missing:
        raise BadEpisodes(
            f"env.id: {missing}; add it, or name another environment (--environment)"
        ) from None


def _require_rewards(environment: Environment, number: int, line: Line) -> None:
    for turn in line.turns:
        try:
            checked_reward(environment, turn.reward)
            checked_reward(environment, turn.late_reward)
        except CannotPlay as why:
            raise BadEpisodes(f"line {number}: traces.rewards: {why}") from None


# -- tasks


def _tasks(
    to: Destination, path: Path, file: File, entries: Sequence[Entry]
) -> tuple[Taskset, dict[str, int]]:
    """Return the taskset, and its tasks' ids by content digest.

    They are the tasks that the file was made from, if these exist here, otherwise new ones.
    """
    if existing := _known_tasks(to, entries):
        return existing
    first: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.index or 0):
        first.setdefault(entry.task, entry)
    rows = (_row(file.line(entry)) for entry in first.values())
    try:
        with transaction.atomic():
            taskset = store_taskset(
                Origin(to.project, to.slug, f"Of {path.name}"[:200], path.name[:200], by=to.by),
                rows,
            )
    except IntegrityError:
        raise BadEpisodes(
            f"project {to.project.slug!r} already has a taskset {to.slug!r}: choose another --run"
        ) from None
    return taskset, dict(
        zip(first, taskset.tasks.order_by("index").values_list("pk", flat=True), strict=True)
    )


def _row(line: Line) -> TaskRow:
    pictures = tuple(line.pictures[name] for name in list_pictures(line.prompt))
    return TaskRow(line.prompt, line.answer, line.episode.task.data.meta, pictures=pictures)


def _known_tasks(
    to: Destination, entries: Sequence[Entry]
) -> tuple[Taskset, dict[str, int]] | None:
    slugs = {entry.taskset for entry in entries}
    taskset = to.project.tasksets.filter(slug=slugs.pop()).first() if len(slugs) == 1 else None
    tasks_by_index = {entry.index: entry.task for entry in entries}
    if taskset is None or len({(entry.index, entry.task) for entry in entries}) > len(
        tasks_by_index
    ):
        return None
    tasks = taskset.tasks.filter(
        index__in=[index for index in tasks_by_index if index is not None]
    ).iterator()
    tasks_by_digest = {
        task_digest(task.prompt, task.answer, task.meta): (task.index, task.pk) for task in tasks
    }
    all_match = all(
        digest in tasks_by_digest and tasks_by_digest[digest][0] == index
        for index, digest in tasks_by_index.items()
    )
    return (
        (taskset, {digest: pk for digest, (_, pk) in tasks_by_digest.items()})
        if all_match
        else None
    )


# -- the run


def _run(
    to: Destination, environment: Environment, taskset: Taskset, first: Line, sizes: Sequence[int]
) -> Run:
    sampling = first.trace.agent.config.sampling
    sampling_options = sampling.model_dump(exclude_none=True) if sampling else {}
    per_step = min(MAX_GROUPS_PER_STEP, len(sizes))
    plan = parse_config(
        {
            "policy": to.policy.slug,
            "taskset": taskset.slug,
            "steps": max(1, len(sizes) // per_step),
            "group_size": max(sizes),
            "groups_per_step": per_step,
            "max_staleness": min(1000, len(sizes)),
            "environment": {"name": environment.name},
            "sampling": sampling_options,
            **to.changes,
        }
    )
    if (
        plan.policy != to.policy.slug
        or plan.environment is None
        or plan.environment.name != environment.name
        or plan.rewards
    ):
        raise ConfigError(
            {
                "configuration": (
                    "policy, environment and rewards come from the file and cannot be changed here"
                )
            }
        )
    try:
        with transaction.atomic():
            title = f"Imported: {to.slug}"[:200]
            return Run.create(project=to.project, slug=to.slug, title=title, plan=plan, owner=to.by)
    except IntegrityError:
        raise BadEpisodes(
            f"project {to.project.slug!r} already has a run {to.slug!r}: choose another --run"
        ) from None


def _limit_steps(run: Run, admitted_count: int) -> Run:
    """Limit the run's steps to the file's groups, in number and size: nothing is sampled."""
    if not admitted_count:
        raise BadEpisodes(
            "no group can be used for training: "
            f"{run.groups.exclude(reason='').values_list('reason', flat=True)[0]}"
        )
    per_step = min(run.settings.groups_per_step, admitted_count)
    steps = admitted_count // per_step
    plan = parse_config({**run.config, "steps": steps, "groups_per_step": per_step})
    Run.objects.filter(pk=run.pk).update(planned_steps=steps, config=plan.model_dump(mode="json"))
    run.refresh_from_db()
    return run


def _groups(
    run: Run, entry_groups: Sequence[Sequence[Entry]], tasks: Mapping[str, int]
) -> list[Group]:
    return Group.objects.bulk_create(
        (
            Group(
                run=run,
                draw_index=draw,
                task_id=tasks[of_group[0].task],
                size=len(of_group),
                state=Group.State.JUDGED,
                opened_version=0,
                lease_owner=IMPORTER,
                lease_until=after(LEASE_S),
                fence=1,
                sampled_at=Now(),
                judged_at=Now(),
            )
            for draw, of_group in enumerate(entry_groups)
        ),
        batch_size=1_000,
    )


def _batches(
    groups: Sequence[Group], entry_groups: Sequence[Sequence[Entry]]
) -> Iterator[list[tuple[Group, int, Entry]]]:
    """Yield batches of lines, each with its group and its number in the group."""
    batch: list[tuple[Group, int, Entry]] = []
    batch_bytes = 0
    for group, of_group in zip(groups, entry_groups, strict=True):
        for sample, entry in zip(_samples(of_group), of_group, strict=True):
            if batch and (len(batch) == LINES_AT_ONCE or batch_bytes + entry.size > BYTES_AT_ONCE):
                yield batch
                batch = []
                batch_bytes = 0
            batch.append((group, sample, entry))
            batch_bytes += entry.size
    yield batch


def _samples(of_group: Sequence[Entry]) -> list[int]:
    samples = [entry.sample for entry in of_group if entry.sample is not None]
    return samples if len(set(samples)) == len(of_group) else list(range(len(of_group)))


def _write(
    run: Run, environment: Environment, batch: Sequence[tuple[Group, int, Entry, Line]]
) -> None:
    """Write the rollouts as an explorer does; they count as sampled by the run's base version.

    None of the run's own versions sampled them.
    """
    for _, _, entry, line in batch:
        _require_rewards(environment, entry.number, line)
        Picture.objects.keep(run.project, line.pictures.values())
    pairs = [
        (Rollout(run=run, group=group, sample_index=sample), line)
        for group, sample, _, line in batch
    ]
    Rollout.objects.bulk_create(rollout for rollout, _ in pairs)
    Rollout.write_outcomes([_outcome(rollout, line) for rollout, line in pairs])
    _play(run, environment, pairs)


def _refine_groups(run: Run) -> int:
    """Refine the imported groups and return how many were admitted."""
    ids = iter(list(Group.objects.filter(run=run).order_by("pk").values_list("pk", flat=True)))
    admitted = 0
    while batch_ids := list(islice(ids, GROUPS_AT_ONCE)):
        admitted += refine(
            list(
                Group.objects.filter(pk__in=batch_ids).select_related("run", "task").order_by("pk")
            )
        )
    return admitted


def _outcome(rollout: Rollout, line: Line) -> Outcome:
    passages = _passages(line)
    text = BETWEEN_TURNS.join(passage.text for passage in passages)
    reason = line.own_data.stop_reason if line.own_data else line.reason[:200]
    return Outcome(
        rollout.pk, line.tokens, text, reason, tuple(passages) if len(passages) > 1 else ()
    )


def _passages(line: Line) -> list[Passage]:
    """Return the policy's turns, and the environment's messages between them."""
    passages: list[Passage] = []
    start = previous_end = 0
    for number, turn in enumerate(turn for turn in line.turns if turn.acted):
        between = (
            [(USER, observation_text(turn.observation), previous_end, turn.first - previous_end)]
            if number
            else []
        )
        for role, text, first, tokens in [*between, (POLICY, turn.action, turn.first, turn.tokens)]:
            passages.append(Passage(role, text, start, first, tokens))
            start += len(text) + len(BETWEEN_TURNS)
        previous_end = turn.first + turn.tokens
    return passages


def _play(run: Run, environment: Environment, rollouts: Sequence[tuple[Rollout, Line]]) -> None:
    """Create the episodes and turns of these rollouts, and their rewards."""
    episodes = Episode.objects.bulk_create(
        _episode(run, environment, rollout, line) for rollout, line in rollouts
    )
    EpisodeTurn.objects.bulk_create(
        _turn(episode, number, turn, line)
        for episode, (_, line) in zip(episodes, rollouts, strict=True)
        for number, turn in enumerate(line.turns)
    )
    settle_episodes(
        [
            Ending(episode.pk, rollout.pk, line.reason, _failure(line))
            for episode, (rollout, line) in zip(episodes, rollouts, strict=True)
        ]
    )


def _failure(line: Line) -> str:
    """Return why the line's rollout has no reward; "" if it has one."""
    if line.state == Episode.State.DONE and line.tokens:
        return ""
    return line.own_data.stop_reason if line.own_data else line.reason


def _episode(run: Run, environment: Environment, rollout: Rollout, line: Line) -> Episode:
    identity = line.episode.model_dump(include={"id", "run", "group"}, exclude_none=True)
    own_data = line.own_data
    return Episode(
        environment=environment,
        run=run,
        rollout=rollout,
        fence=1,
        seed=own_data.seed if own_data else 0,
        options=own_data.options if own_data else {},
        turn_limit=line.trace.agent.config.max_turns or environment.turn_limit,
        origin={**identity, "versions": own_data.versions if own_data else []},
        state=line.state,
        reason=line.reason,
        turns=len(line.turns),
        opened_at=line.opened_at,
        begun_at=line.opened_at,
        moved_at=line.closed_at,
        closed_at=line.closed_at,
    )


def _turn(episode: Episode, number: int, turn: Turn, line: Line) -> EpisodeTurn:
    tokens_before = len(line.tokens.prompt_ids) + turn.first if line.tokens and turn.acted else None
    return EpisodeTurn(
        episode=episode,
        number=number,
        observation=turn.observation,
        done=turn.done,
        info=turn.info,
        tools=turn.tools,
        action=turn.action,
        is_cut=turn.is_cut,
        reward=turn.reward,
        late_reward=turn.late_reward,
        reason=turn.reason,
        first=turn.first if turn.acted else None,
        tokens=turn.tokens,
        before=tokens_before,
        requested_at=line.opened_at,
        answered_at=line.closed_at if turn.acted else None,
    )
