"""A new run as a form and as YAML, in step: the YAML is what is meant, the form shows it and turns single fields of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.http import QueryDict

from apps.accounts.models import Membership, Project, User
from apps.dashboard.knobs import Knob, knobs_of, placed_among
from apps.dashboard.people_form import CHOICES as PEOPLE_CHOICES
from apps.dashboard.people_form import FORMS
from apps.dashboard.people_form import LABELS as PEOPLE_LABELS
from apps.dashboard.run_edits import edited, edits_in, shown_values
from apps.environments import library
from apps.environments.choosing import AGENT, require_known_environment
from apps.pipelines.checking import require_known as require_known_operators
from apps.rewards import learned, scorers
from apps.rewards.scoring import require_known_scorers
from apps.runs.algorithms.table import TABLE
from apps.runs.config import ConfigError, RunConfig, as_yaml, loaded, parse
from apps.runs.models import Run

MOST_CHOICES = 500
FEWEST_ROWS = 3
SHORT_CHOICE = 4  # of more, a list to unfold
LABELS = {
    "groups_per_step": "Groups in an update", "max_staleness": "Versions behind", "steps": "Updates",
    "sampling.max_tokens": "Longest answer", "algorithm.name": "Algorithm", "environment.name": "Environment",
    "rewards": "Scorers", "optimizer.micro_batch_rows": "Rows in one pass",
    "precision.engine": "Precision of the engine", "precision.trainer": "Precision of the trainer",
    **{f"people.{address}": label for address, label in PEOPLE_LABELS.items()},
}  # fmt: skip
UNITS = {
    "steps": "updates", "group_size": "rollouts", "groups_per_step": "groups", "max_staleness": "versions",
    "sampling.max_tokens": "tokens", "people.per_group": "replies",
}  # fmt: skip
# Title, one line, the fields; a field that no group names stands in the last. Those after FOLDED_FROM begin folded.
GROUPS = (
    ("What is trained, on what", "", ("policy", "taskset", "steps", "seed")),
    ("How it is learned", "", ("algorithm.name", "optimizer.learning_rate", "group_size", "groups_per_step", "sampling.max_tokens",
                               "sampling.temperature", "max_staleness")),
    ("Who judges", "Machines, people, or both.", ("rewards", "people.per_group", "people.form", "people.deadline_s",
                                                  "people.at_deadline", "people.simulated")),
    ("Algorithm in detail", "Each starts with what its paper recommends.", ("algorithm", "length_penalty")),
    ("People in detail", "What is asked, of whom, and what becomes of it.", ("people",)),
    ("Choice of tasks", "Which tasks are drawn, and from which sets.", ("tasksets", "selection")),
    ("Environment and callers", "What the policy acts in, or whom it serves.", ("environment", "serve")),
    ("Pipeline and buffer", "What becomes of groups between judging and training.", ("pipeline", "reading")),
    ("Evaluation", "What is measured beside training, or instead of it.", ("evaluations", "evaluation")),
    ("Lessons and replay", "For runs that sample nothing.", ("snapshot", "replay")),
    ("Sampling and optimizer", "", ("sampling", "optimizer", "lora", "tower", "engine",
                                "precision")),
    ("Pace, safety and keeping", "", ("sync_interval", "over_rollout", "group_attempts", "task_attempts", "budget", "alerts",
                                      "hacking", "checkpoints", "retention")),
    ("More", "", ()),
)  # fmt: skip
FOLDED_FROM = 3


@dataclass(frozen=True)
class Fieldset:
    title: str
    why: str
    knobs: tuple[Knob, ...]
    is_folded: bool

    @property
    def is_open(self) -> bool:
        return not self.is_folded or any(knob.wrong for knob in self.knobs)


@dataclass(frozen=True)
class RunForm:
    """`text`: the YAML as typed; `drawn`: the YAML that the fields show. `plan`: None while something is wrong."""

    groups: tuple[Fieldset, ...]
    text: str
    drawn: str
    values: Mapping[str, Any]
    plan: RunConfig | None
    problems: Mapping[str, str]

    @property
    def general(self) -> str:
        """What is wrong with the whole, not with one field."""
        return self.problems.get("", "")

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for group in self.groups for knob in group.knobs)


def form_of(project: Project, said: Mapping[str, Any], owner: User) -> RunForm:
    """The form of a configuration as somebody would write it."""
    return _form(project, said, as_yaml(dict(said)), owner)


def read(project: Project, posted: QueryDict, owner: User) -> RunForm:
    """The form as posted, judged as the run would judge it; nothing is written.

    Fields that differ from how they were drawn are turned in the YAML; where the YAML itself was changed, they are turned in that.
    """
    text, drawn = (posted.get(name, "").replace("\r\n", "\n") for name in ("yaml", "drawn"))
    before = _mapping(drawn)
    wrong: dict[str, str] = {}
    try:
        edits = edits_in(posted, _knobs(project, before, {}))
    except ConfigError as error:
        edits, wrong = [], dict(error.problems)
    try:
        said = loaded(text) if text.strip() else {}
        if not isinstance(said, dict):
            raise ConfigError({"configuration": "must be a mapping of fields, such as `policy: tone`"})
    except ConfigError as error:  # the fields stay as they were drawn, and the text as it was typed
        return _form(project, edited(before, edits), text, owner, {"yaml": error.problems["configuration"]}, drawn)
    after = edited(said, edits) if edits else said
    return _form(project, after, as_yaml(after) if edits else text, owner, wrong)


def check(project: Project, said: Mapping[str, Any], owner: User) -> RunConfig:
    """The plan, if a run could be made of it now. Raises ConfigError; what looking made is taken back."""
    plan = parse(dict(said))
    require_known_scorers(plan, project)
    require_known_environment(plan, project)
    require_known_operators(plan, project)
    with transaction.atomic():
        Run.checked(project, plan, owner)
        transaction.set_rollback(True)
    return plan


def _form(
    project: Project, said: Mapping[str, Any], text: str, owner: User, wrong: Mapping[str, str] | None = None, drawn: str = ""
) -> RunForm:
    plan, problems = None, dict(wrong or {})
    if not problems:
        try:
            plan = check(project, said, owner)
        except ConfigError as error:
            problems = error.problems
    knobs = _knobs(project, said, {})
    if problems:
        addresses = {knob.address for knob in knobs} | {"yaml"}
        problems = placed_among({name.removeprefix("configuration"): words for name, words in problems.items()}, addresses)
        knobs = _knobs(project, said, problems)
    return RunForm(_grouped(knobs), text, drawn or as_yaml(dict(said)), shown_values(said), plan, problems)


def _mapping(text: str) -> dict[str, Any]:
    """What the hidden YAML says, which this server wrote; of a forged one nothing."""
    try:
        said = loaded(text) if text.strip() else {}
    except ConfigError:
        return {}
    return said if isinstance(said, dict) else {}


def _knobs(project: Project, said: Mapping[str, Any], problems: Mapping[str, str]) -> list[Knob]:
    choices, values = choices_of(project), shown_values(said)
    return [_worded(knob, choices, values) for knob in knobs_of(RunConfig, values, LABELS, problems)]


def choices_of(project: Project) -> dict[str, tuple[tuple[str, str, str], ...]]:
    """What of the project may stand in a field, by its address."""
    policies = project.policies.order_by("slug").values_list("slug", "title")[:MOST_CHOICES]
    tasksets = project.tasksets.order_by("slug").values_list("slug", "title")[:MOST_CHOICES]
    models = project.runs.filter(config__algorithm__name="reward_model", state=Run.State.COMPLETED).values_list("slug", flat=True)
    judges = [*scorers.names(), *(f"{learned.PREFIX}{slug}" for slug in models[:MOST_CHOICES])]
    places = sorted({AGENT, *library.ENVIRONMENTS, *project.environments.values_list("name", flat=True)[:MOST_CHOICES]})
    raters = project.memberships.filter(role__in=Membership.MAY_RATE, user__is_active=True).order_by("user__username")
    return {
        "policy": tuple((slug, slug, title) for slug, title in policies),
        "taskset": tuple((slug, slug, title) for slug, title in tasksets),
        "rewards": tuple((name, name, "") for name in judges),
        "environment.name": tuple((name, name, "") for name in places),
        "algorithm.name": tuple((name, row.title, row.use) for name, row in TABLE.items()),
        "people.raters.people": tuple((name, name, "") for name in raters.values_list("user__username", flat=True)[:MOST_CHOICES]),
    }


def _worded(knob: Knob, choices: Mapping[str, tuple[tuple[str, str, str], ...]], values: Mapping[str, Any]) -> Knob:
    """The field with the words and choices that its schema does not know."""
    knob = replace(knob, unit=knob.unit or UNITS.get(knob.address, ""))
    if knob.address == "rewards":
        return _scorers(knob, choices["rewards"], values["rewards"])
    if knob.kind == "names":
        known = choices.get(knob.address, ())
        listed = isinstance(knob.value, list | tuple) and set(map(str, knob.value)) <= {value for value, _, _ in known}
        return replace(knob, choices=known) if known and listed else replace(knob, kind="yaml", value=_in_yaml(knob.value))
    if knob.address in choices:
        return replace(knob, kind="select", choices=_with(choices[knob.address], knob.value))
    if knob.kind == "choice":
        words = FORMS if knob.address == "people.form" else PEOPLE_CHOICES.get(knob.address.removeprefix("people."), {})
        named = tuple((value, words.get(value, name), more) for value, name, more in knob.choices)
        return replace(knob, kind="choice" if len(named) <= SHORT_CHOICE else "select", choices=_with(named, knob.value))
    return knob


def _scorers(knob: Knob, known: tuple[tuple[str, str, str], ...], said: Any) -> Knob:
    """A table of scorers with their weights, and empty rows for some more; a list that is none of them stays YAML."""
    if not isinstance(said, list | tuple) or not all(isinstance(row, Mapping) and row.get("scorer") for row in said):
        return knob
    shown = [{"scorer": str(row["scorer"]), "weight": _weight(row.get("weight", 1))} for row in said]
    for row in shown:
        known = _with(known, row["scorer"])
    return replace(knob, kind="scorers", value=shown, rows=said, choices=known, longest=max(FEWEST_ROWS, len(shown) + 1))


def _weight(said: Any) -> str:
    return f"{said:g}" if isinstance(said, int | float) else str(said)


def _in_yaml(value: Any) -> str:
    return as_yaml(list(value) if isinstance(value, tuple) else value).strip() if value else ""


def _with(choices: tuple[tuple[str, str, str], ...], value: Any) -> tuple[tuple[str, str, str], ...]:
    """The choices, and what stands there although it is none of them: it is shown with what is wrong with it."""
    if not value or value in [known for known, _, _ in choices]:
        return choices
    return (*choices, (str(value), str(value), "not known here"))


def _grouped(knobs: list[Knob]) -> tuple[Fieldset, ...]:
    """Each field in the group that names it most closely, else in the last."""
    homes = {address: n for n, (_, _, addresses) in enumerate(GROUPS) for address in addresses}
    found: list[list[Knob]] = [[] for _ in GROUPS]
    for knob in knobs:
        address = knob.address
        while address and address not in homes:
            address = address.rpartition(".")[0]
        found[homes.get(address, len(GROUPS) - 1)].append(knob)
    for n, (_, _, addresses) in enumerate(GROUPS):
        found[n].sort(key=lambda knob, order=addresses: _place(knob.address, order))
    return tuple(Fieldset(title, why, tuple(found[n]), n >= FOLDED_FROM) for n, (title, why, _) in enumerate(GROUPS) if found[n])


def _place(address: str, order: tuple[str, ...]) -> int:
    return next((n for n, home in enumerate(order) if f"{address}.".startswith(f"{home}.")), len(order))
