"""A project with something on every page: runs in each state, episodes, alerts, an arena,
tokens.
"""

from django.utils import timezone

from apps.accounts.models import Token, User
from apps.alerts.models import Alert
from apps.environments.models import Environment
from apps.evaluation.models import Arena
from apps.evaluation.models.arenas import Contestant
from apps.feedback.models import Suspicion
from apps.rewards.models import Rescoring, Trial
from apps.rewards.testbench.asking import keep_case
from apps.rollouts.models import Rollout
from apps.runs.models import LogLine, Run, Worker
from tests.played import play

STATES = {"begins": "created", "rests": "paused", "halted": "stopped", "through": "completed"}


def furnish(run: Run, owner: User) -> None:
    """Add rows to the seeded run's project for everything that its pages can show."""
    play(run)
    others = [_beside(run, slug, state) for slug, state in STATES.items()]
    replies = list(
        run.rollouts.filter(state=Rollout.State.FINISHED)
        .order_by("pk")
        .values_list("pk", flat=True)[:8]
    )
    Suspicion.objects.create(
        run=run,
        kind="to_judge",
        words="8 replies speak to the judge",
        metrics={"replies": 8},
        first_step=2,
        last_step=3,
        series={"to the judge": [[0, 0.0], [1, 0.25], [2, 0.5]]},
        evidence=replies,
        sample=replies,
    )
    for rule in ("no_progress", "kl"):
        alert = Alert.objects.create(
            run=run, rule=rule, words="It holds.", todo="Look at it.", since=timezone.now()
        )
        alert.enter("opened", "It holds.")
    arena = Arena.objects.create(
        project=run.project, taskset=run.taskset, title="An arena", tasks=4, samples=1
    )
    Contestant.objects.bulk_create(
        Contestant(arena=arena, run=one, place=n) for n, one in enumerate((run, others[0]))
    )
    worker = Worker.objects.create(
        key="scorer@here:1:1", role=Worker.Role.SCORER, host="here", pid=1
    )
    LogLine.objects.create(
        event="scored", run=run, level=LogLine.Level.INFO, at=run.created_at, worker=worker.key
    )
    group = run.groups.filter(state="admitted").first()
    Rescoring.create(run, run.settings, {}, [(group.pk, 2)])
    _try_scorer(run, owner)
    Token.issue(owner, "hers", ["read"])
    assert Environment.objects.filter(project=run.project).exists()


def _beside(run: Run, slug: str, state: str) -> Run:
    other = Run.create(
        project=run.project, slug=slug, title="Another", plan=run.settings, owner=run.owner
    )
    Run.objects.filter(pk=other.pk).update(state=state, state_since=timezone.now())
    return other


def _try_scorer(run: Run, owner: User) -> None:
    """Create a finished trial of the test bench, and a case of the regression set that fails."""
    verdict = {
        "value": 0.0,
        "reason": "another answer",
        "details": {"answer": "4", "expected": "5"},
    }
    trial = Trial.objects.create(
        project=run.project,
        by=owner,
        scorer="math",
        task={"prompt": [], "answer": {"value": 5}, "domain": "", "meta": {}},
        replies=[{"text": "4"}],
        verdicts=[{**verdict, "version": 3, "seconds": 0.01}],
        form={"scorer": "math", "task_from": "typed", "reference": "5"},
        state=Trial.State.DONE,
    )
    keep_case(trial, 0, 1.0, "to be mended", owner)
