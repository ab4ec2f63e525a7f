"""Try a new run before it is made: four replies of its policy to one task, with their rewards.

They come from a small evaluation, so that explorers sample and scorers score as they would for the
run. Nothing is trained.
"""

from dataclasses import dataclass

from apps.accounts.locking import unit_of_work
from apps.accounts.models import Project, User
from apps.dashboard.rollout_rows import build_rollout_rows, with_judgements
from apps.evaluation.asking import evaluation_like
from apps.rollouts.models import Rollout
from apps.runs.config import ConfigError, RunConfig
from apps.runs.evaluation import Questions
from apps.runs.models import Run, Worker
from apps.runs.naming import MAX_SLUG_LENGTH, free_name

ROLLOUTS = 4
WORKERS_READ = 100
MAX_TITLE_LENGTH = 200


@dataclass(frozen=True)
class DryStart:
    """A dry start: `replies` are its rollouts as rows; `prompt` has the messages of its task."""

    run: Run
    replies: list[dict]
    prompt: list[dict]
    is_served: bool  # an explorer is there

    @property
    def is_over(self) -> bool:
        return self.run.state in Run.ENDED


def can_be_tried(plan: RunConfig) -> bool:
    """Tell whether the run samples tasks of its own: not lessons, a replay, or callers' prompts."""
    return plan.samples and plan.serve is None


@unit_of_work
def start_dry_start(project: Project, plan: RunConfig, by: User) -> Run:
    """Start the evaluation behind a dry start. Raises ConfigError if the plan cannot be tried."""
    if not can_be_tried(plan):
        raise ConfigError({"configuration": "samples no tasks of its own, so there is no reply"})
    taskset = plan.taskset or next(iter(plan.tasksets))
    question_set = Questions(taskset=taskset, samples=ROLLOUTS, tasks=1)
    run = Run.create(
        project=project,
        slug=free_name(f"try-{plan.policy}-{taskset}"[: MAX_SLUG_LENGTH - 8], project.runs.all()),
        title=f"Dry start of {plan.policy} on {taskset}"[:MAX_TITLE_LENGTH],
        plan=evaluation_like(plan, question_set),
        owner=by,
    )
    run.start(by=by)
    return run


def load_dry_start(run: Run, user: User) -> DryStart:
    """Return a dry start as the page shows it. The number of queries is fixed."""
    rollouts = Rollout.objects.filter(run=run).order_by("pk")[:ROLLOUTS]
    replies = build_rollout_rows(with_judgements(rollouts), user)
    explorers = Worker.objects.filter(role=Worker.Role.EXPLORER, stopped_at=None)[:WORKERS_READ]
    is_served = any(not worker.is_silent and not worker.takes_nothing for worker in explorers)
    return DryStart(run, replies, replies[0]["prompt"] if replies else [], is_served)
