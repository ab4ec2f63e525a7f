"""Asks a language model to reason about the reply and to grade each criterion of a rubric.

Several votes may be taken.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from apps.rewards.judging.asking import Ask, JudgeOptions, Reply
from apps.rewards.judging.fencing import RULE, fenced, join_chat
from apps.rewards.judging.verdicts import Unreadable, average_verdicts, read_number
from apps.rewards.scorers.contract import RolloutView, TaskView
from apps.rewards.scorers.verdict import Verdict


class Criterion(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,39}$", description="Key of the criterion in the verdict."
    )
    what: str = Field(min_length=1, max_length=2000, description="What earns full marks.")
    weight: float = Field(1.0, gt=0, le=1000, description="Weight relative to the other criteria.")


class Options(JudgeOptions):
    rubric: tuple[Criterion, ...] = Field(
        (
            Criterion(
                name="correct",
                what=(
                    "The answer is right and complete; where a reference is given, it says the"
                    " same."
                ),
            ),
        ),
        min_length=1,
        max_length=20,
        description="Criteria that the judge marks.",
    )
    best: int = Field(10, ge=1, le=100, description="Best mark of a criterion; the worst is 0.")


def ask(rollouts: Sequence[RolloutView], task: TaskView, options: Options) -> list[Ask]:
    """Return one request for each vote, all with the same messages.

    (Chain-of-thought reward model, Kimi k1.5 section 2.3.3.)
    """
    (rollout,) = rollouts
    criteria = "\n".join(
        f"- {criterion.name} (0 to {options.best}): {criterion.what}"
        for criterion in options.rubric
    )
    shape = ", ".join(f'"{criterion.name}": <number>' for criterion in options.rubric)
    system = (
        f"You judge an assistant's answer.\n{RULE}\n\nCriteria:\n{criteria}\n\nFirst reason about"
        f" each criterion, briefly. Then end your reply with one line, a JSON object: {{{shape}}}"
    )
    texts = [fenced("conversation", join_chat(task.prompt))]
    if reference := task.answer.get("reference", task.answer.get("value")):
        texts.append(fenced("reference", str(reference)))
    texts.append(fenced("answer", rollout.text))
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": "\n\n".join(texts)},
    ]
    return [Ask(messages, vote) for vote in range(options.votes)]


def read(
    replies: Sequence[Reply], rollouts: Sequence[RolloutView], task: TaskView, options: Options
) -> list[Verdict]:
    return [average_verdicts(replies, lambda verdict: _share(verdict, options), {})]


def _share(verdict: dict, options: Options) -> float:
    unknown = verdict.keys() - {criterion.name for criterion in options.rubric}
    if unknown:
        raise Unreadable(f"the verdict has an unknown key {sorted(unknown)[0]!r}")
    marks = sum(
        criterion.weight * read_number(verdict, criterion.name, 0, options.best) / options.best
        for criterion in options.rubric
    )
    return marks / sum(criterion.weight for criterion in options.rubric)
