"""A new run as a form and as YAML: the YAML is authoritative, the form edits its fields."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.http import QueryDict

from apps.accounts.models import Membership, Project, User
from apps.dashboard.knobs import Knob, placed_among, section_knobs
from apps.dashboard.option_fields import with_option_fields
from apps.dashboard.people_form import CHOICES as PEOPLE_CHOICES
from apps.dashboard.people_form import form_choices
from apps.dashboard.run_edits import (
    back_to_default,
    default_at,
    edited,
    edits_in,
    shown_at,
    shown_values,
    typed_text,
    written_addresses,
)
from apps.dashboard.run_labels import LABELS, UNITS
from apps.dashboard.run_layout import Place, laid_out
from apps.environments import library
from apps.environments.environment_lookup import AGENT, require_known_environment
from apps.pipelines.checking import require_known as require_known_operators
from apps.rewards import learned, scorers
from apps.rewards.scoring import require_known_scorers
from apps.runs.algorithms.table import RECOMMENDED, TABLE
from apps.runs.config import ConfigError, RunConfig
from apps.runs.models import Run
from apps.runs.parsing import (
    as_yaml,
    keys_by_section,
    line_of_error,
    lines_by_field,
    load_yaml,
    parse_config,
)

MAX_CHOICES = 500
MAX_DEFAULT_LENGTH = 40  # characters of a default that are shown
# These come from the project and have no default worth going back to.
OF_THE_PROJECT = ("policy", "taskset", "rewards")
MIN_ROWS = 3
SHORT_CHOICE = 4  # choices shown as buttons; more are a select list


@dataclass(frozen=True)
class Fault:
    """One error: `address` as the configuration names it, and `words` that say what is right.

    `line` is its place in the YAML, None if nothing is written there; `home` is the address of the
    field that shows it: "yaml" for the YAML itself, "" for none.
    """

    address: str
    words: str
    line: int | None
    home: str

    @property
    def anchor(self) -> str:
        """Return the id of the place on the page that shows it; "" if none does."""
        if self.home == "yaml":
            return "yaml"
        return f"field-{self.home.replace('.', '-')}" if self.home else ""


@dataclass(frozen=True)
class RunForm:
    """The form; `text` is the YAML as typed, `drawn` the YAML that the fields show.

    `plan` is None while something is invalid; then `problems` are by the field that shows them.
    """

    steps: tuple[Place, ...]
    advanced: tuple[Place, ...]
    text: str
    drawn: str
    values: Mapping[str, Any]
    plan: RunConfig | None
    problems: Mapping[str, str]
    faults: tuple[Fault, ...] = ()

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for place in (*self.steps, *self.advanced) for knob in place.knobs)

    @property
    def changed(self) -> int:
        """Return how many settings of Advanced differ from their defaults."""
        return sum(group.changed for group in self.advanced)


def load_run_form(project: Project, config: Mapping[str, Any], owner: User) -> RunForm:
    """Return the form of a configuration as a person would write it."""
    return _form(project, config, as_yaml(dict(config)), owner)


def read_run_form(project: Project, posted: QueryDict, owner: User) -> RunForm:
    """Return the posted form, validated as the run would; nothing is written.

    Fields that differ from how they were shown are changed in the YAML, in the edited YAML if that
    was changed.
    """
    text, drawn = (posted.get(name, "").replace("\r\n", "\n") for name in ("yaml", "drawn"))
    before = _mapping(drawn)
    knobs = _knobs(project, before)
    edits, wrong = edits_in(posted, knobs)
    try:
        config = load_yaml(text) if text.strip() else {}
        if not isinstance(config, dict):
            raise ConfigError(
                {"configuration": "must be a mapping of fields, such as `policy: tone`"}
            )
    except ConfigError as error:  # fields stay as shown, and the text as typed
        return _form(
            project,
            edited(before, edits),
            text,
            owner,
            {"yaml": error.problems["configuration"]},
            drawn,
            line_of_error(error),
        )
    after = edited(config, edits)
    for address in {knob.address for knob in knobs}.intersection(posted.getlist("reset")):
        after = back_to_default(after, address)
    form = _form(project, after, text if after == config else as_yaml(after), owner, wrong)
    return _as_typed(form, {knob.address: typed_text(knob, posted) for knob in knobs}, wrong)


def _as_typed(form: RunForm, texts: Mapping[str, str], wrong: Collection[str]) -> RunForm:
    """Return the form with the texts of fields that are not YAML as they were typed."""

    def typed(knob: Knob) -> Knob:
        return replace(knob, value=texts[knob.address]) if knob.address in wrong else knob

    if not wrong:
        return form
    steps, advanced = laid_out(typed(knob) for knob in form.knobs)
    return replace(form, steps=steps, advanced=advanced)


def check_run_form(project: Project, config: Mapping[str, Any], owner: User) -> RunConfig:
    """Return the plan if a run can be created from it now.

    Raises ConfigError; rows created for the check are rolled back.
    """
    plan = parse_config(dict(config))
    require_known_scorers(plan, project)
    require_known_environment(plan, project)
    require_known_operators(plan, project)
    with transaction.atomic():
        Run.checked(project, plan, owner)
        transaction.set_rollback(True)
    return plan


def _form(
    project: Project,
    config: Mapping[str, Any],
    text: str,
    owner: User,
    wrong: Mapping[str, str] | None = None,
    drawn: str = "",
    line: int | None = None,
) -> RunForm:
    """Return the form of `config`; `line` is where `text` stops being YAML, if it does."""
    plan = None
    errors = dict(wrong or {})
    if not errors:
        try:
            plan = check_run_form(project, config, owner)
        except ConfigError as error:
            errors = {
                name.removeprefix("configuration"): words for name, words in error.problems.items()
            }
    knobs = _knobs(project, config)
    faults = _faults(errors, knobs, text, line)
    problems: dict[str, str] = {}
    for fault in faults:
        problems[fault.home] = "; ".join(filter(None, (problems.get(fault.home), fault.words)))
    knobs = [replace(knob, wrong=problems.get(knob.address, "")) for knob in knobs]
    return RunForm(
        *laid_out(knobs),
        text,
        drawn or as_yaml(dict(config)),
        shown_values(config),
        plan,
        problems,
        faults,
    )


def _faults(
    errors: Mapping[str, str], knobs: list[Knob], text: str, line: int | None
) -> tuple[Fault, ...]:
    """Return the errors in the order of their lines; those that are on no line come last.

    `line` is where the text stops being YAML, if it does.
    """
    if not errors:
        return ()
    lines = {"yaml": line} if "yaml" in errors else lines_by_field(text)
    addresses = {"yaml", *(knob.address for knob in knobs)}
    keys = keys_by_section()
    faults = []
    for address, words in errors.items():
        section, _, name = address.rpartition(".")
        is_field = not address or _around(address, addresses) or name in keys.get(section, ())
        # An error of an unknown key is shown at the YAML, because no field of the form has it.
        [(home, plain)] = placed_among({address: words}, addresses if is_field else ()).items()
        home = home if is_field else "yaml"
        place = lines.get(address) or lines.get(_around(home, lines))
        faults.append(Fault(address or home, plain, place, home))
    return tuple(sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0)))


def _around(address: str, places: Collection[str]) -> str:
    """Return this address, or that of the closest section around it, that is among the places."""
    while address and address not in places:
        address = address.rpartition(".")[0]
    return address


def _mapping(text: str) -> dict[str, Any]:
    """Parse the hidden YAML, which this server wrote; a forged one gives an empty mapping."""
    try:
        data = load_yaml(text) if text.strip() else {}
    except ConfigError:
        return {}
    return data if isinstance(data, dict) else {}


def _knobs(project: Project, config: Mapping[str, Any]) -> list[Knob]:
    choices = list_project_choices(project)
    values = shown_values(config)
    written = set(written_addresses(config)).difference(OF_THE_PROJECT)
    knobs: Iterator[Knob] = (
        _with_choices(knob, choices, values)
        for knob in section_knobs(RunConfig, values, LABELS, {})
    )
    knobs = with_option_fields(knobs, values, {})
    return [_with_default(knob, config) if knob.address in written else knob for knob in knobs]


def _with_default(knob: Knob, config: Mapping[str, Any]) -> Knob:
    """Return the field with its default, if it has one that differs from its value."""
    default = default_at(config, knob.address)
    is_required = default is None and not knob.emptied
    if is_required or default == shown_at(config, knob.address):
        return knob
    return replace(knob, usual=_in_words(knob, default))


def _in_words(knob: Knob, default: Any) -> str:
    if knob.kind == "switch":
        return "off" if default in (None, False) else "on"
    if default in (None, "", [], (), {}):
        return "none"
    name_by_value = {value: name for value, name, _ in knob.choices}
    if isinstance(default, list):
        words = ", ".join(map(str, default))
    elif isinstance(default, float):
        words = f"{default:.10g}"
    else:
        words = name_by_value.get(str(default), str(default))
    return words if len(words) <= MAX_DEFAULT_LENGTH else f"{words[: MAX_DEFAULT_LENGTH - 1]}…"


def list_project_choices(project: Project) -> dict[str, tuple[tuple[str, str, str], ...]]:
    """Return the project's choices for each field, by address."""
    policies = project.policies.order_by("slug").values_list("slug", "title")[:MAX_CHOICES]
    tasksets = project.tasksets.order_by("slug").values_list("slug", "title")[:MAX_CHOICES]
    models = project.runs.filter(
        config__algorithm__name="reward_model", state=Run.State.COMPLETED
    ).values_list("slug", flat=True)
    judges = [
        *scorers.scorer_names(),
        *(f"{learned.PREFIX}{slug}" for slug in models[:MAX_CHOICES]),
    ]
    places = sorted(
        {
            AGENT,
            *library.names(),
            *project.environments.values_list("name", flat=True)[:MAX_CHOICES],
        }
    )
    raters = project.memberships.filter(
        role__in=Membership.MAY_RATE, user__is_active=True
    ).order_by("user__username")
    return {
        "policy": tuple((slug, slug, title) for slug, title in policies),
        "taskset": tuple((slug, slug, title) for slug, title in tasksets),
        "rewards": tuple((name, name, "") for name in judges),
        "environment.name": tuple((name, name, "") for name in places),
        "algorithm.name": _algorithms(),
        "people.raters.people": tuple(
            (name, name, "")
            for name in raters.values_list("user__username", flat=True)[:MAX_CHOICES]
        ),
    }


def _algorithms() -> tuple[tuple[str, str, str], ...]:
    """Return the recommended algorithms, and then the others by title."""
    other_names = sorted(
        set(TABLE).difference(RECOMMENDED), key=lambda name: TABLE[name].title.lower()
    )
    return tuple(
        (name, TABLE[name].title, TABLE[name].use.replace("`", ""))
        for name in (*RECOMMENDED, *other_names)
    )


def _with_choices(
    knob: Knob, choices: Mapping[str, tuple[tuple[str, str, str], ...]], values: Mapping[str, Any]
) -> Knob:
    """Return the field with labels and choices that its schema does not have."""
    knob = replace(knob, unit=knob.unit or UNITS.get(knob.address, ""))
    if knob.address == "rewards":
        return _scorers(knob, choices["rewards"], values["rewards"])
    if knob.kind == "names":
        return _names_to_tick(knob, choices.get(knob.address, ()))
    if knob.address == "algorithm.name":
        options = _with(choices[knob.address], knob.value)
        return replace(knob, kind="picker", choices=options, first_choices=len(RECOMMENDED))
    if knob.address in choices:
        return replace(knob, kind="select", choices=_with(choices[knob.address], knob.value))
    if knob.address == "people.form":
        # Named by what an answer says, as the other choices of this form are.
        choices_by_summary = tuple((name, more, "") for name, _, more in form_choices(knob.value))
        return replace(knob, kind="select", choices=choices_by_summary)
    return _labelled_choice(knob) if knob.kind == "choice" else knob


def _names_to_tick(knob: Knob, options: tuple[tuple[str, str, str], ...]) -> Knob:
    """Return the field with its options; as YAML if there are none or the value names others."""
    offered = {value for value, _, _ in options}
    is_listed = isinstance(knob.value, list | tuple) and set(map(str, knob.value)) <= offered
    if options and is_listed:
        return replace(knob, choices=options)
    return replace(knob, kind="yaml", value=_in_yaml(knob.value))


def _labelled_choice(knob: Knob) -> Knob:
    """Return a choice with its labels; a long one becomes a menu."""
    words = PEOPLE_CHOICES.get(knob.address.removeprefix("people."), {})
    choices = tuple((value, words.get(value, name), more) for value, name, more in knob.choices)
    return replace(
        knob,
        kind="choice" if len(choices) <= SHORT_CHOICE else "select",
        choices=_with(choices, knob.value),
    )


def _scorers(knob: Knob, options: tuple[tuple[str, str, str], ...], value: Any) -> Knob:
    """Return a table of scorers with weights and some empty rows.

    A value that is not a list of these stays YAML.
    """
    if not isinstance(value, list | tuple) or not all(
        isinstance(row, Mapping) and row.get("scorer") for row in value
    ):
        return knob
    scorer_rows = [
        {"scorer": str(row["scorer"]), "weight": _weight(row.get("weight", 1))} for row in value
    ]
    for row in scorer_rows:
        options = _with(options, row["scorer"])
    return replace(
        knob,
        kind="scorers",
        value=scorer_rows,
        rows=value,
        choices=options,
        max_length=max(MIN_ROWS, len(scorer_rows) + 1),
    )


def _weight(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _in_yaml(value: Any) -> str:
    return as_yaml(list(value) if isinstance(value, tuple) else value).strip() if value else ""


def _with(
    choices: tuple[tuple[str, str, str], ...], value: Any
) -> tuple[tuple[str, str, str], ...]:
    """Return the choices, with the present value added if it is none of them."""
    if not value or value in [choice for choice, _, _ in choices]:
        return choices
    return (*choices, (str(value), str(value), "not known"))
