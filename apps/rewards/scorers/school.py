"""Scores a school question by its kind: choice, quantity, chemistry, short_answer or math."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.scorers import chemistry, choice, math, quantity, short_answer
from apps.rewards.scorers.chemistry import Options as ChemistryOptions
from apps.rewards.scorers.choice import Options as ChoiceOptions
from apps.rewards.scorers.contract import RolloutView, ScorerOptions, TaskView
from apps.rewards.scorers.math import Options as MathOptions
from apps.rewards.scorers.quantity import Options as QuantityOptions
from apps.rewards.scorers.short_answer import Options as ShortAnswerOptions
from apps.rewards.scorers.verdict import Verdict

FORMS = {
    "choice": choice,
    "quantity": quantity,
    "chemistry": chemistry,
    "short_answer": short_answer,
    "math": math,
}
VERSION = sum(getattr(form, "VERSION", 1) for form in FORMS.values())  # rises with each of them
SECONDS = max(getattr(form, "SECONDS", 5.0) for form in FORMS.values())


class Options(ScorerOptions):
    choice: ChoiceOptions = Field(ChoiceOptions(), description="Of multiple choice.")
    quantity: QuantityOptions = Field(QuantityOptions(), description="Of numbers with units.")
    chemistry: ChemistryOptions = Field(
        ChemistryOptions(), description="Options for formulas and equations."
    )
    short_answer: ShortAnswerOptions = Field(
        ShortAnswerOptions(), description="Options for short answers, which may ask a judge."
    )
    math: MathOptions = Field(MathOptions(), description="Of mathematics.")

    @property
    def judge(self) -> JudgeOptions | None:
        return self.short_answer.judge


def prepare(task: TaskView) -> None:
    """Load what the scorer of the task's form needs."""
    name = task.meta.get("scorer")
    form = FORMS.get(name) if isinstance(name, str) else None
    if form is not None and hasattr(form, "prepare"):
        form.prepare(task)


def score(rollout: RolloutView, task: TaskView, options: Options) -> Verdict:
    """Return the verdict of the scorer of `meta["scorer"]`; the details name it as `form`."""
    form = task.meta.get("scorer")
    if form not in FORMS:
        return Verdict(None, f"the task's meta must name its scorer, one of {', '.join(FORMS)}")
    return _with_form(form, FORMS[form].score(rollout, task, getattr(options, form)))


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    return short_answer.ask(rollouts, task, options.short_answer)


def read(
    replies: Sequence[Reply], rollouts: Sequence[RolloutView], task: TaskView, options: Options
) -> list[Verdict]:
    verdicts = short_answer.read(replies, rollouts, task, options.short_answer)
    return [_with_form("short_answer", verdict) for verdict in verdicts]


def _with_form(form: str, verdict: Verdict) -> Verdict:
    return replace(verdict, details={"form": form, **verdict.details})
