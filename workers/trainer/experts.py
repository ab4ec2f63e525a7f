"""Demonstrations of a run's tasks become its experts' rollouts: in tokens they exist only where the tokenizer is."""

from functools import lru_cache
from itertools import islice

import structlog

from apps.feedback.experts import admit, not_yet_admitted
from apps.runs.models import Run
from workers.trainer.lessons.spelling import Speller

log = structlog.get_logger(__name__)
AT_ONCE = 500


def take_in(run: Run, fence: int) -> int:
    """Admit what was demonstrated since the last look, if the run mixes experts in; how many. Raises StaleFence, TooLong."""
    if not run.settings.expert_rows_per_step:
        return 0
    taken = 0
    while fresh := list(islice(not_yet_admitted(run).iterator(AT_ONCE), AT_ONCE)):
        speller = _speller(run.policy.folder, run.policy.context_tokens)
        taken += admit(run, fence, [(demonstration, speller.expert(demonstration)) for demonstration in fresh])
    if taken:
        log.info("demonstrations_admitted", run=run.slug, demonstrations=taken)
    return taken


@lru_cache(maxsize=8)
def _speller(folder: str, context: int) -> Speller:
    return Speller(folder, context)
