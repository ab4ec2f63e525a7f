"""The test bench's form: a scorer with options, a task, and replies, as typed or as stored."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict
from pydantic import ValidationError

from apps.accounts import strict_json
from apps.accounts.models import Project
from apps.rewards import learned, scorers
from apps.rewards.models import RegressionCase, Trial
from apps.rewards.own_options import task_options
from apps.rewards.testbench.asking import TrialRequest
from apps.rewards.testbench.limits import (
    KIB,
    MAX_REPLIES,
    REPLY_BYTES,
    TASK_BYTES,
    TEXT_BYTES,
)
from apps.rollouts.models import Rollout
from apps.rollouts.turns import said_by_policy
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import as_yaml, load_yaml
from apps.runs.scorer_choice import ScorerChoice
from apps.tasksets.models import Task
from apps.tasksets.rows import user_message

OF_RUN = "run:"  # run:RUN:SCORER stands for a run's scorer with the run's options
RUNS_OFFERED = 20
SETS_OFFERED = 100
MAX_INDEX = 2**31 - 1
MAX_ID = 2**63 - 1
TYPED = "typed"
FROM_TASKSET = "taskset"
READ = ("answer", "value")  # keys of details that tell what a scorer read as the answer
EXPECTED = ("expected", "target", "wanted")


class TypedText(forms.CharField):
    """A text of some lines as typed; `max_bytes`: its largest size."""

    def __init__(self, name: str, max_bytes: int = TEXT_BYTES) -> None:
        super().__init__(strip=False, required=False)
        self.name = name
        self.max_bytes = max_bytes

    def read(self, value: object) -> str:
        """Return the text that was typed. Raise ValidationError if it is too large."""
        text = super().clean(value).replace("\r\n", "\n")
        if too_large := _too_large(text, self.max_bytes):
            raise forms.ValidationError(f"{self.name} {too_large}")
        return text


class Text(TypedText):
    """A text that is kept as typed."""

    def clean(self, value: object) -> str:
        return self.read(value)


class Mapped(TypedText):
    """A YAML or JSON object, as a dict; empty without a text."""

    def clean(self, value: object) -> dict[str, Any]:
        text = self.read(value)
        try:
            data = load_yaml(text)
            # as JSON, so that nothing comes in that cannot be stored
            data = strict_json.decode_json(json.dumps({} if data is None else data, default=str))
        except ConfigError as error:
            raise forms.ValidationError(list(error.problems.values())) from None
        except (strict_json.NotStrictJson, TypeError, ValueError, RecursionError) as error:
            raise forms.ValidationError(f"{self.name} cannot be stored: {error}.") from None
        if not isinstance(data, dict):
            raise forms.ValidationError(f"{self.name} must be an object, such as `name: value`.")
        return data


def _too_large(text: str, max_bytes: int) -> str:
    size = len(text.encode())
    return (
        f"has {size / KIB:,.1f} KiB; the maximum is {max_bytes // KIB}." if size > max_bytes else ""
    )


class BenchForm(forms.Form):
    """Input of a trial. `replies` are all boxes, `reply_problems` their problems."""

    scorer = forms.CharField(
        max_length=200, error_messages={"required": "Choose a scorer.", "max_length": "Too long."}
    )
    options = Mapped("The options")
    task_from = forms.ChoiceField(
        choices=[(TYPED, TYPED), (FROM_TASKSET, FROM_TASKSET)], required=False
    )
    taskset = forms.CharField(max_length=50, required=False)
    task = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_INDEX,
        error_messages={"invalid": "Enter a task’s number, counted from 0."},
    )
    prompt = Text("The prompt")
    reference = Text("The reference")
    answer = Mapped("The answer")
    domain = forms.CharField(max_length=60, required=False)
    meta = Mapped("Meta")
    rollout = forms.IntegerField(required=False, min_value=1, max_value=MAX_ID)

    def __init__(self, project: Project, data: QueryDict | None = None, **form_args: Any) -> None:
        super().__init__(data, **form_args)
        self.project = project
        boxes = (
            data.getlist("reply") if data is not None else form_args.get("initial", {}).get("reply")
        )
        self.replies = [text.replace("\r\n", "\n") for text in boxes or [""]]
        self.reply_problems: dict[int, str] = {}
        self.trial_request: TrialRequest | None = None

    @property
    def boxes(self) -> list[tuple[int, str, str]]:
        """Return number, text and problem of each reply's box."""
        return [
            (number, text, self.reply_problems.get(number, ""))
            for number, text in enumerate(self.replies, start=1)
        ]

    @property
    def is_picked(self) -> bool:
        return self["task_from"].value() == FROM_TASKSET

    def add_box(self) -> None:
        if len(self.replies) < MAX_REPLIES:
            self.replies.append("")

    def clean_scorer(self) -> ScorerChoice:
        scorer = self.cleaned_data["scorer"]
        if scorer.startswith(OF_RUN):
            return self._find_run_choice(scorer)
        try:
            if learned.is_learned(scorer):
                learned.find_reward_model(self.project.pk, scorer)
            else:
                scorers.find_scorer(scorer)
        except LookupError as missing:
            raise forms.ValidationError(error_sentence(missing)) from None
        return ScorerChoice(scorer=scorer)

    def _find_run_choice(self, value: str) -> ScorerChoice:
        slug, _, name = value.removeprefix(OF_RUN).partition(":")
        run = self.project.runs.filter(slug=slug).first()
        choices = run.settings.rewards if run else ()
        matching = next((choice for choice in choices if choice.scorer == name), None)
        if matching is None:
            raise forms.ValidationError(f"No run {slug} with a scorer {name} is in this project.")
        return matching

    def clean(self) -> dict[str, Any]:
        """Check the replies, the task and the options together, and build the trial's request."""
        super().clean()
        data = self.cleaned_data
        replies = self._replies()
        task = self._task()
        if task is not None and (size := len(json.dumps(task).encode())) > TASK_BYTES:
            self.add_error("task", f"The task has {size / KIB:,.0f} KiB; the maximum is 4,096.")
        choice = data.get("scorer")
        options = data.get("options")
        if choice is None or options is None or task is None:
            return data
        choice = choice.model_copy(update={"options": {**choice.options, **options}})
        options = task_options(choice, task["meta"])
        self._check_options(choice.scorer, options)
        if not self.errors:
            self.trial_request = TrialRequest(
                choice.scorer, options, task, replies, self._as_texts(choice, task)
            )
        return data

    def _replies(self) -> list[dict[str, Any]]:
        """Return the replies that are not empty, as scorers see them."""
        if len(self.replies) > MAX_REPLIES:
            self.add_error(None, f"{len(self.replies)} replies; the maximum is {MAX_REPLIES}.")
        for number, text in enumerate(self.replies, start=1):
            if why := _too_large(text, REPLY_BYTES):
                self.reply_problems[number] = f"Reply {number} {why}"
                self.add_error(None, self.reply_problems[number])
        replies = [text for text in self.replies if text]
        if not replies:
            self.reply_problems[1] = "Paste at least one reply."
            self.add_error(None, self.reply_problems[1])
        stored = self._stored_reply()
        return [stored if stored.get("text") == text else {"text": text} for text in replies]

    def _stored_reply(self) -> dict[str, Any]:
        """Return the rollout that the page was opened for as scorers see it; {} without one."""
        runs = Run.objects.filter(project=self.project)
        number = self.cleaned_data.get("rollout")
        rollout = Rollout.objects.filter(pk=number, run__in=runs).first() if number else None
        return stored_reply(rollout) if rollout else {}

    def _task(self) -> dict[str, Any] | None:
        """Return the task as scorers see it; None if a field is invalid."""
        data = self.cleaned_data
        if data.get("task_from") == FROM_TASKSET:
            return self._picked_task()
        if any(data.get(name) is None for name in ("prompt", "reference", "answer", "meta")):
            return None
        reference = _reference(data["reference"])
        reference_field = {} if reference is None else {"value": reference}
        return {
            "prompt": user_message(data["prompt"]) if data["prompt"].strip() else [],
            "answer": {**reference_field, **data["answer"]},
            "domain": data.get("domain", ""),
            "meta": data["meta"],
        }

    def _picked_task(self) -> dict[str, Any] | None:
        slug = self.cleaned_data.get("taskset", "")
        index = self.cleaned_data.get("task")
        taskset = self.project.tasksets.filter(slug=slug).first()
        if taskset is None:
            self.add_error("taskset", f"No taskset {slug} is in this project." if slug else CHOOSE)
        elif index is None and "task" not in self.errors:
            self.add_error("task", "Enter a task’s number, counted from 0.")
        if taskset is None or index is None:
            return None
        task = Task.objects.filter(taskset=taskset, index=index).first()
        if task is None:
            self.add_error("task", f"{slug} has {taskset.size:,} tasks, numbered from 0.")
            return None
        return {name: getattr(task, name) for name in ("prompt", "answer", "domain", "meta")}

    def _check_options(self, scorer: str, options: Mapping[str, Any]) -> None:
        if learned.is_learned(scorer):
            if options:
                self.add_error("options", "A learned scorer takes no options.")
            return
        try:
            scorers.find_scorer(scorer).read_options(options)
        except ValidationError as bad:
            for error in bad.errors():
                name = ".".join(map(str, error["loc"]))
                self.add_error("options", f"{name}: {error['msg']}" if name else error["msg"])

    def _as_texts(self, choice: ScorerChoice, task: Mapping[str, Any]) -> dict[str, str]:
        """Return the fields as text to fill the form again, with the options that count."""
        values = {name: str(self[name].value() or "") for name in self.fields}
        values = {name: text.replace("\r\n", "\n") for name, text in values.items()}
        values |= {"scorer": choice.scorer, "options": write_yaml(choice.options)}
        values["domain"] = (
            task["domain"] if values["task_from"] != FROM_TASKSET else values["domain"]
        )
        values["task"] = (
            str(self.cleaned_data.get("task") or 0) if self.is_picked else values["task"]
        )
        return values


CHOOSE = "Choose a taskset."


def error_sentence(error: Exception) -> str:
    """Return what the error says as a sentence."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _reference(text: str) -> object:
    """Return what a typed reference means: a number, a quoted text, or the text; None if empty."""
    reference = text.strip()
    if not reference:
        return None
    try:
        value = json.loads(reference)
    except ValueError:
        return reference
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if isinstance(value, str) or (is_number and math.isfinite(value)) else reference


def write_yaml(data: Mapping[str, Any]) -> str:
    return as_yaml(dict(data)) if data else ""


def stored_reply(rollout: Rollout) -> dict[str, Any]:
    """Return a stored reply as scorers see it."""
    return {
        "text": rollout.text,
        "turns": list(said_by_policy(rollout.text, rollout.turns)),
        "tokens": rollout.completion_tokens,
        "stop_reason": rollout.stop_reason,
    }


def filled_by(source: Trial | RegressionCase) -> dict[str, Any]:
    """Return the form's first values for a trial or a case."""
    replies = source.replies if isinstance(source, Trial) else [source.reply]
    return {**source.form, "reply": [reply["text"] for reply in replies]}


def filled_by_rollout(rollout: Rollout) -> dict[str, Any]:
    """Return the form's first values for a stored rollout: its reply, task and first scorer."""
    task = rollout.group.task
    choices = rollout.run.settings.scorers_of(task.kind)
    return {
        "scorer": f"{OF_RUN}{rollout.run.slug}:{choices[0].scorer}" if choices else "",
        "task_from": FROM_TASKSET,
        "taskset": task.taskset.slug,
        "task": task.index,
        "rollout": rollout.pk,
        "reply": [rollout.text],
    }


def offered(project: Project, chosen: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the scorers to choose from, in groups; `chosen` is among them."""
    groups = [
        ("Scorers", [(name, name) for name in scorers.scorer_names()]),
        ("Reward models", list(_reward_models(project))),
        ("Scorers of a run, with its options", list(_of_runs(project))),
    ]
    offered_values = {value for _, choices in groups for value, _ in choices}
    if chosen and chosen not in offered_values:
        groups.append(("Others", [(chosen, chosen.removeprefix(OF_RUN).replace(":", ": "))]))
    return [(title, choices) for title, choices in groups if choices]


def _reward_models(project: Project) -> Iterator[tuple[str, str]]:
    runs = project.runs.filter(
        config__algorithm__name="reward_model", state=Run.State.COMPLETED
    ).order_by("-pk")[:RUNS_OFFERED]
    for run in runs:
        yield f"{learned.PREFIX}{run.slug}", f"{learned.PREFIX}{run.slug}"


def _of_runs(project: Project) -> Iterator[tuple[str, str]]:
    for run in project.runs.order_by("-pk")[:RUNS_OFFERED]:
        for choice in run.settings.rewards:
            yield f"{OF_RUN}{run.slug}:{choice.scorer}", f"{run.slug}: {choice.scorer}"


def read_as(details: Mapping[str, Any]) -> str:
    """Return what the scorer read as the answer, in words; empty if it does not tell."""
    return _first(details, READ)


def reference_in(details: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Return what the scorer compared with: as it tells, else the task's answer."""
    return (
        _first(details, EXPECTED)
        or _first(answer, ("value", "reference"))
        or _shorten_detail(answer)
    )


def _first(data: Mapping[str, Any], names: Sequence[str]) -> str:
    return next(
        (_shorten_detail(data[name]) for name in names if data.get(name) not in (None, "")), ""
    )


SHOWN = 600  # characters of an answer or a reference


def _shorten_detail(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        text = ", ".join(map(str, value))
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False) if value else ""
    return text[:SHOWN]
