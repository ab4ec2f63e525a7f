"""Admit demonstrations and operators' rows as expert rollouts of a run.

The trainer does this, because only the trainer has the tokenizer that turns them into tokens.
"""

from functools import lru_cache
from itertools import islice

import structlog

from apps.buffer.models import Offspring
from apps.feedback.experts import admit_demonstrations, list_unadmitted_demonstrations
from apps.pipelines import offspring
from apps.rollouts.payload import Tokens
from apps.runs.models import Run
from workers.trainer.lessons.tokenization import LessonTokenizer

log = structlog.get_logger(__name__)
AT_ONCE = 500


def admit_experts(run: Run, fence: int) -> int:
    """Admit new demonstrations and operators' rows, if the run mixes experts in.

    Returns their number. Raises StaleFence and TooLong.
    """
    if not run.settings.expert_rows_per_step:
        return 0
    taken = 0
    while fresh := list(islice(list_unadmitted_demonstrations(run).iterator(AT_ONCE), AT_ONCE)):
        lesson_tokenizer = _lesson_tokenizer(run.policy.folder, run.policy.context_tokens)
        taken += admit_demonstrations(
            run,
            fence,
            [(demonstration, lesson_tokenizer.expert(demonstration)) for demonstration in fresh],
        )
    if taken:
        log.info("demonstrations_admitted", run=run, demonstrations=taken)
    return taken + _admit_offspring(run, fence)


def _admit_offspring(run: Run, fence: int) -> int:
    taken = 0
    while fresh := list(islice(offspring.not_yet_admitted(run).iterator(AT_ONCE), AT_ONCE)):
        born = [(one, tokens) for one in fresh if (tokens := _encoded(one, run)) is not None]
        taken += offspring.admit(run, fence, born)
    if taken:
        log.info("offspring_admitted", run=run, rollouts=taken)
    return taken


def _encoded(one: Offspring, run: Run) -> Tokens | None:
    """Return the tokens of an operator's row, or refuse the row and return None.

    A row is refused if it is longer than the policy's context.
    """
    if one.task_id == one.of.group.task_id:
        return offspring.tokens_of(one)
    tokens = offspring.tokens_of(
        one, _lesson_tokenizer(run.policy.folder, run.policy.context_tokens).prompt(one.task.prompt)
    )
    length = len(tokens.prompt_ids) + len(tokens.completion_ids)
    most = run.policy.context_tokens
    if most and length > most:
        Offspring.objects.filter(pk=one.pk).refuse(
            f"it has {length} tokens, but the policy's context is {most}"
        )
        return None
    return tokens


@lru_cache(maxsize=8)
def _lesson_tokenizer(folder: str, context: int) -> LessonTokenizer:
    return LessonTokenizer(folder, context)
