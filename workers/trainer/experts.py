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
    admitted = 0
    while fresh := list(islice(list_unadmitted_demonstrations(run).iterator(AT_ONCE), AT_ONCE)):
        lesson_tokenizer = _lesson_tokenizer(run.policy.folder, run.policy.context_tokens)
        admitted += admit_demonstrations(
            run,
            fence,
            [(demonstration, lesson_tokenizer.expert(demonstration)) for demonstration in fresh],
        )
    if admitted:
        log.info("demonstrations_admitted", run=run, demonstrations=admitted)
    return admitted + _admit_offspring(run, fence)


def _admit_offspring(run: Run, fence: int) -> int:
    admitted = 0
    while fresh := list(islice(offspring.not_yet_admitted(run).iterator(AT_ONCE), AT_ONCE)):
        born = [(row, tokens) for row in fresh if (tokens := _encode_row(row, run)) is not None]
        admitted += offspring.admit(run, fence, born)
    if admitted:
        log.info("offspring_admitted", run=run, rollouts=admitted)
    return admitted


def _encode_row(row: Offspring, run: Run) -> Tokens | None:
    """Return the tokens of an operator's row, or refuse the row and return None.

    A row is refused if it is longer than the policy's context.
    """
    if row.task_id == row.of.group.task_id:
        return offspring.tokens_of(row)
    tokens = offspring.tokens_of(
        row, _lesson_tokenizer(run.policy.folder, run.policy.context_tokens).prompt(row.task.prompt)
    )
    length = len(tokens.prompt_ids) + len(tokens.completion_ids)
    limit = run.policy.context_tokens
    if limit and length > limit:
        Offspring.objects.filter(pk=row.pk).refuse(
            f"it has {length} tokens, but the policy's context is {limit}"
        )
        return None
    return tokens


@lru_cache(maxsize=8)
def _lesson_tokenizer(folder: str, context: int) -> LessonTokenizer:
    return LessonTokenizer(folder, context)
