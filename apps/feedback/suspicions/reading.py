"""Read a run's newest replies as input of detectors.

The number of statements is fixed, and the run's options limit the rows.
"""

from collections import defaultdict

from django.db.models.functions import Left

from apps.feedback.models import Guess
from apps.rewards.combining import RATER_MODEL, Judgement, combined, full_reward, peoples_word
from apps.rewards.hacking.formatting import SHAPES
from apps.rewards.hacking.leaking import texts_in
from apps.rewards.hacking.rows import GuessSuccess, JudgedReplies, Row, TaskContent
from apps.rewards.models import Reward
from apps.rewards.scorers import find_scorer, scorer_names
from apps.rollouts.excluded_tasks import LeftOut
from apps.rollouts.models import Group, Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.tasksets.judged_by import Kind
from apps.tasksets.messages import content_text
from apps.tasksets.models import Task

MAX_TEXT_LENGTH = 20_000  # characters of a reply that are read
MAX_GUESSES = 20_000
JUDGED = (Group.State.WAITING, Group.State.JUDGED, Group.State.ADMITTED, Group.State.DROPPED)


def read_judged_replies(run: Run) -> JudgedReplies:
    """Return the judged replies of the run's last steps, oldest first."""
    plan = run.settings
    newest = list(_newest(run, plan))
    tasks = Task.objects.in_bulk({task for _, _, task, *_ in newest})
    judgements = _judgements([pk for pk, *_ in newest])
    first = (
        max((draw // plan.groups_per_step for _, _, _, draw, *_ in newest), default=0)
        - plan.hacking.steps
    )
    rows = [
        _row(
            plan,
            tasks[task].kind,
            judgements[pk],
            pk,
            group,
            task,
            draw // plan.groups_per_step,
            said_by_policy(text, turns),
            tokens,
        )
        for pk, group, task, draw, text, turns, tokens in reversed(newest)
        if draw // plan.groups_per_step > first
    ]
    scorers = [choice.scorer for choice in plan.judges]
    return JudgedReplies(
        rows,
        {pk: _task_facts(task) for pk, task in tasks.items()},
        right_by=[name for name in scorers if name not in {*SHAPES, *plan.hacking.format_scorers}],
        highs={name: find_scorer(name).high if name in scorer_names() else 1.0 for name in scorers},
        rubric=[text for choice in plan.rewards for text in texts_in(dict(choice.options))],
        guesses=_guesses(run),
    )


def _newest(run: Run, plan: RunConfig):
    finished = Rollout.objects.filter(
        run=run, state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY
    )
    judged = finished.filter(group__state__in=JUDGED, group__draw_index__isnull=False).order_by(
        "-pk"
    )
    fields = (
        "pk",
        "group_id",
        "group__task_id",
        "group__draw_index",
        "start",
        "turns",
        "completion_tokens",
    )
    return judged.annotate(start=Left("text", MAX_TEXT_LENGTH)).values_list(*fields)[
        : plan.hacking.rollouts
    ]


def _judgements(rollouts: list[int]) -> dict[int, list[Judgement]]:
    judgements_by_rollout: dict[int, list[Judgement]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=rollouts, is_current=True)
    current = current.without_simulated()
    for rollout, scorer, value, source in current.values_list(
        "rollout_id", "scorer", "value", "source"
    ):
        judgements_by_rollout[rollout].append(
            Judgement(scorer, value, source == Reward.Source.HUMAN)
        )
    return judgements_by_rollout


def _row(
    plan: RunConfig,
    kind: Kind,
    judgements: list[Judgement],
    pk,
    group,
    task,
    step,
    turns: list[str],
    tokens: int,
) -> Row:
    """Return a reply's row; late ratings count too, since nothing is trained on them here."""
    machines = [judgement for judgement in judgements if not judgement.is_human]
    values = {judgement.scorer: judgement.value for judgement in machines}
    reward = combined(
        [judgement for judgement in machines if judgement.scorer != RATER_MODEL], plan, kind
    )
    if reward is None and not plan.judges:
        reward = values.get(RATER_MODEL)
    share = None if reward is None else reward / full_reward(plan, kind)
    return Row(
        pk, step, task, group, "\n\n".join(turns), tokens, share, peoples_word(judgements), values
    )


def _task_facts(task: Task) -> TaskContent:
    texts = [*(content_text(message["content"]) for message in task.prompt), *task.follow_ups]
    return TaskContent("\n".join(texts), task.answer, task.meta)


def _guesses(run: Run) -> dict[int, GuessSuccess]:
    """Return guesses by task, without excluded tasks; of several policies, the best one's."""
    rows = Guess.objects.filter(task__taskset__in=run.taskset_ids).exclude(
        task__in=LeftOut.objects.filter(run=run).values("task")
    )
    guesses: dict[int, GuessSuccess] = {}
    for task, right, tries in rows.order_by("right").values_list("task_id", "right", "tries")[
        :MAX_GUESSES
    ]:
        guesses[task] = GuessSuccess(right, tries)
    return guesses
