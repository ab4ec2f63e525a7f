"""The job that searches new text of running runs for signs of reward hacking.

A job separate from the sweep: reading a thousand replies takes a second, and nothing waits for it.
"""

import structlog
from celery import shared_task

from apps.accounts.locking import retrying
from apps.feedback.suspicions.raising import look_through
from apps.runs.models import Run

log = structlog.get_logger(__name__)
# Run → the step at this process's last check; a new process checks once more.
_looked: dict[int, int] = {}


@shared_task(name="check_reward_hacking")
@retrying
def watch_reward_hacking(**_: object) -> None:
    """Check each running run whose step has moved. Idempotent; two at once do no harm."""
    running = list(Run.objects.exploring().order_by("pk"))
    for run in running:
        if _looked.get(run.pk) != run.step:
            raised = look_through(run)
            _looked[run.pk] = run.step
            if raised:
                log.info(
                    "suspicion_raised",
                    run=run,
                    step=run.step,
                    kinds=[suspicion.kind for suspicion in raised],
                )
    for run_id in _looked.keys() - {run.pk for run in running}:
        del _looked[run_id]
