"""Demonstrations of a run's tasks become its experts' rollouts, and so does what operators made of its own: in tokens what is
asked exists only where the tokenizer is.
"""

from functools import lru_cache
from itertools import islice

import structlog

from apps.buffer.models import Offspring
from apps.feedback.experts import admit, not_yet_admitted
from apps.pipelines import offspring
from apps.rollouts.payload import Tokens
from apps.runs.models import Run
from workers.trainer.lessons.spelling import Speller

log = structlog.get_logger(__name__)
AT_ONCE = 500


def take_in(run: Run, fence: int) -> int:
    """Admit what was demonstrated or made since the last look, if the run mixes experts in; how many.

    Raises StaleFence, TooLong.
    """
    if not run.settings.expert_rows_per_step:
        return 0
    taken = 0
    while fresh := list(islice(not_yet_admitted(run).iterator(AT_ONCE), AT_ONCE)):
        speller = _speller(run.policy.folder, run.policy.context_tokens)
        taken += admit(run, fence, [(demonstration, speller.expert(demonstration)) for demonstration in fresh])
    if taken:
        log.info("demonstrations_admitted", run=run, demonstrations=taken)
    return taken + _take_in_offspring(run, fence)


def _take_in_offspring(run: Run, fence: int) -> int:
    taken = 0
    while fresh := list(islice(offspring.not_yet_admitted(run).iterator(AT_ONCE), AT_ONCE)):
        born = [(one, tokens) for one in fresh if (tokens := _spelt(one, run)) is not None]
        taken += offspring.admit(run, fence, born)
    if taken:
        log.info("offspring_admitted", run=run, rollouts=taken)
    return taken


def _spelt(one: Offspring, run: Run) -> Tokens | None:
    """None where it is longer than the policy can read, which it says from then on."""
    if one.task_id == one.of.group.task_id:
        return offspring.tokens_of(one)
    tokens = offspring.tokens_of(one, _speller(run.policy.folder, run.policy.context_tokens).prompt(one.task.prompt))
    length, most = len(tokens.prompt_ids) + len(tokens.completion_ids), run.policy.context_tokens
    if most and length > most:
        Offspring.objects.filter(pk=one.pk).refuse(f"it has {length} tokens, and the policy reads {most}")
        return None
    return tokens


@lru_cache(maxsize=8)
def _speller(folder: str, context: int) -> Speller:
    return Speller(folder, context)
