"""Questions to scorers as JSON lines, as `manage.py score` reads them, and their answers.

    {"scorer": "math", "response": "… \\\\boxed{1/2}", "answer": "0.5", "task": {…}, "options": {…}}

`answer`: what the scorer judges by; what is no object becomes {"value": it}. `task`: `prompt` (a
text or chat messages), `domain`, `meta`; anything else in it is the answer's, too. For scorers of
groups, `group` (lines of one name are judged together), `tokens` and `values` (what other scorers
said); for dialogues `turns`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from apps.accounts import strict_json
from apps.rewards import scorers
from apps.rewards.scorers import RolloutView, TaskView
from apps.rewards.scoring import Question
from apps.tasksets.rows import user_message
from apps.tasksets.sources.jsonl import iterate_lines

OF_TASK = ("prompt", "domain", "meta")


class Line(BaseModel):
    """One line of scoring input."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    scorer: str
    response: str
    answer: JsonValue = None
    task: dict[str, JsonValue] = {}
    options: dict[str, JsonValue] = {}
    group: str | int | None = None
    tokens: int | None = Field(None, ge=0)
    turns: list[str] = []
    stop_reason: str = ""
    values: dict[str, float | None] = {}

    @field_validator("scorer")
    @classmethod
    def _require_known_scorer(cls, name: str) -> str:
        try:
            scorers.find_scorer(name)
        except LookupError as missing:
            raise ValueError(str(missing)) from None
        return name

    @field_validator("task")
    @classmethod
    def _require_readable_task(cls, task: dict[str, JsonValue]) -> dict[str, JsonValue]:
        prompt = task.get("prompt", [])
        if not isinstance(prompt, str) and not (
            isinstance(prompt, list) and all(isinstance(message, dict) for message in prompt)
        ):
            raise ValueError("prompt must be text or a list of chat messages")
        if not isinstance(task.get("meta") or {}, dict):
            raise ValueError("meta must be an object")
        return task

    @property
    def view(self) -> RolloutView:
        return RolloutView(
            self.response, tuple(self.turns), self.tokens, self.stop_reason, self.values
        )

    @property
    def task_view(self) -> TaskView:
        prompt = self.task.get("prompt", [])
        answer_fields = (
            self.answer
            if isinstance(self.answer, dict)
            else {}
            if self.answer is None
            else {"value": self.answer}
        )
        more = {name: value for name, value in self.task.items() if name not in OF_TASK}
        chat = prompt if isinstance(prompt, list) else []
        meta = self.task.get("meta")
        return TaskView(
            (
                user_message(prompt)
                if isinstance(prompt, str)
                else [message for message in chat if isinstance(message, dict)]
            ),
            {**more, **answer_fields},
            str(self.task.get("domain") or ""),
            meta if isinstance(meta, dict) else {},
        )


class BadLine(ValueError):
    """Raised for a line that is no question; the message names the field."""


def read_scoring_line(raw: bytes) -> Line:
    """Read a line of scoring input. Raises BadLine."""
    try:
        line = Line.model_validate(strict_json.decode_json(raw, any_text=True))
        scorers.find_scorer(line.scorer).read_options(line.options)
    except strict_json.NotStrictJson as error:
        raise BadLine(f"not JSON: {error}") from None
    except ValidationError as error:
        raise BadLine(_describe_errors(error)) from None
    return line


def _describe_errors(error: ValidationError) -> str:
    """Return a validation error as text; fields of a scorer's options begin with `options`."""
    of_options = () if error.title == Line.__name__ else ("options",)
    problems = [
        (".".join(map(str, (*of_options, *detail["loc"]))), detail["msg"])
        for detail in error.errors()
    ]
    return "; ".join(f"{field}: {message}" if field else message for field, message in problems)


def read_all(stream: Any) -> Iterator[tuple[int, Line | BadLine]]:
    """Yield every line that is not blank, with its number from 1."""
    for number, raw in enumerate(iterate_lines(stream), start=1):
        if raw.strip():
            try:
                yield number, read_scoring_line(raw)
            except BadLine as bad:
                yield number, bad


def list_scoring_questions(lines: Mapping[int, Line]) -> list[Question]:
    """Return the questions that these lines ask, with the lines' numbers.

    The lines of a group that a scorer judges together are one question.
    """
    together: dict[object, list[int]] = {}
    for number, line in lines.items():
        of_group = scorers.find_scorer(line.scorer).of_group and line.group is not None
        together.setdefault((line.scorer, line.group) if of_group else number, []).append(number)
    return [
        _question(numbers, [lines[number] for number in numbers]) for numbers in together.values()
    ]


def _question(numbers: Iterable[int], lines: list[Line]) -> Question:
    first = lines[0]
    return Question(
        0,
        first.scorer,
        tuple(numbers),
        tuple(line.view for line in lines),
        first.task_view,
        first.options,
    )
