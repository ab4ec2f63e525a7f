"""A run's `people` settings as a form: grouped fields, parsing, and errors at their fields."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.http import QueryDict

from apps.accounts.models import Membership, RaterGroup, User
from apps.dashboard.knobs import Knob, placed_among, section_knobs, values_in
from apps.dashboard.option_fields import options_in, with_option_fields
from apps.feedback.forms import FORMS
from apps.feedback.models import FLAG
from apps.runs.changing import changed
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.people import People
from apps.runs.plugin_fields import PLUGIN_FIELDS

LABELS = {
    "form": "Rating type",
    "form_options": "Options of the rating type",
    "rubric": "Rubric scales",
    "guidelines": "Guidelines",
    "per_group": "Replies rated per group",
    "domains": "Domains",
    "pairs": "Pairs per group",
    "anchor": "Base model reply in rankings",
    "ask_first": "Priority",
    "overlap": "Raters per item",
    "open_stars": "Stars from the live page and REST",
    "raters.people": "People",
    "raters.groups": "Groups",
    "raters.domain_groups": "Domains of groups",
    "open_claims": "Open items per rater",
    "lease_s": "Lease",
    "blind": "Blind rating",
    "steer": "Raters can steer replies",
    "deadline_s": "Deadline",
    "at_deadline": "After the deadline",
    "weight": "Weight of ratings",
    "aggregation": "Aggregation",
    "gold.rate": "Gold items",
    "gold.attention": "Attention checks",
    "gold.feedback": "Feedback on gold items",
    "schedule": "Limit the number of ratings",
    "schedule.decisions": "Total ratings",
    "schedule.initial_share": "Before the first step",
    "schedule.min_initial_ratings": "Minimum before the first step",
    "schedule.end_share": "Spread until",
    "schedule.rewrites": "Rewrites",
    "schedule.rewrites_end_share": "Rewrites until",
    "schedule.spread_share": "Share for uncertain groups",
    "rater_model": "Use a rater model",
    "rater_model.kind": "Kind",
    "rater_model.plugin": "Plugin",
    "rater_model.options": "Options of the plugin",
    "rater_model.head_min_ratings": "Train a head from",
    "rater_model.min_ratings": "Ratings before the first step",
    "rater_model.pessimism": "Pessimism",
    "rater_model.audits": "Audits",
    "rater_model.repeats": "Repeats",
    "rater_model.pause_on_red": "Pause when unreliable",
    "show_guess": "Show raters the model’s guess",
    "simulated": "Simulated rater",
}
CHOICES = {
    "ask_first": {
        "worth": "most to learn from",
        "disagreement": "largest disagreement between scorers and people",
    },
    "at_deadline": {
        "machine_only": "use machine rewards",
        "drop": "drop the group",
        "fill_with_rater_model": "use the rater model",
    },
    "aggregation": {
        "mean": "mean",
        "weighted": "mean, weighted by rater quality",
        "bradley_terry": "Bradley–Terry strengths",
        "elo": "Elo",
        "ranking": "score by rank",
    },
    "rater_model.kind": {
        "ridge": "Bayesian ridge",
        "scalar_head": "trained head",
        "plugin": "a plugin",
    },
}
UNITS = {
    "per_group": "replies",
    "pairs": "pairs",
    "overlap": "people",
    "open_claims": "items",
    "schedule.decisions": "ratings",
    "schedule.min_initial_ratings": "ratings",
    "schedule.rewrites": "ratings",
    "rater_model.head_min_ratings": "ratings",
    "rater_model.min_ratings": "ratings",
}
# (title, description, fields); together these are all fields of the section (a test checks it).
GROUPS = (
    (
        "Items",
        "",
        (
            "form",
            "form_options",
            "rubric",
            "guidelines",
            "per_group",
            "domains",
            "pairs",
            "anchor",
            "ask_first",
            "overlap",
        ),
    ),
    (
        "Raters",
        "",
        (
            "raters.people",
            "raters.groups",
            "raters.domain_groups",
            "open_claims",
            "open_stars",
            "lease_s",
            "blind",
            "steer",
            "simulated",
        ),
    ),
    ("Rewards", "", ("deadline_s", "at_deadline", "weight", "aggregation")),
    (
        "Quality checks",
        "Items with a known correct rating, mixed in with the others.",
        ("gold.rate", "gold.attention", "gold.feedback"),
    ),
    (
        "Rater model",
        "Learns from all ratings and predicts the rest.",
        ("rater_model", "show_guess"),
    ),
    ("Rating budget", "Spends a limited number of ratings where they help most.", ("schedule",)),
)
MAX_NAMES = 200  # listed at once; others are written
PREFIX = "people."
OF_FORM, OF_RATER_MODEL = (field for field in PLUGIN_FIELDS if field.options.startswith(PREFIX))


@dataclass(frozen=True)
class Fieldset:
    title: str
    why: str
    knobs: tuple[Knob, ...]


@dataclass(frozen=True)
class PeopleForm:
    """The section with its errors; `plan` is the resulting section, None while invalid."""

    groups: tuple[Fieldset, ...]
    plan: People | None
    values: Mapping[str, Any]
    problems: Mapping[str, str]
    seen: str

    @property
    def general(self) -> str:
        """Return the error that belongs to no single field."""
        return self.problems.get("", "")

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for group in self.groups for knob in group.knobs)


def load_people_form(run: Run) -> PeopleForm:
    """Return the form for the run's present configuration."""
    plan = run.settings.people
    return _form(run, plan.model_dump(mode="json"), plan, {}, digest_people_section(run))


def read_people_form(run: Run, posted: QueryDict) -> PeopleForm:
    """Return the posted form, validated as the run would; nothing is written."""
    values = _with_options(values_in(People, posted), posted)
    problems: dict[str, str] = {}
    plan = None
    try:
        after = changed(run.settings, {"people": values}, has_begun=run.state != Run.State.CREATED)
        problems = unknown_raters(run, after.people)
        plan = None if problems else after.people
    except ConfigError as error:
        problems = placed(error.problems)
    return _form(run, values, plan, problems, posted.get("seen", ""))


def _with_options(section: dict[str, Any], posted: QueryDict) -> dict[str, Any]:
    """Return the section with the options of the plugins that it names."""
    model = section.get("rater_model")
    for names, address in _names_in(section):
        names += _written_names(posted, address, names)
    section["form_options"] = options_in(OF_FORM, section["form"], posted, PREFIX)
    if model:
        model["options"] = options_in(OF_RATER_MODEL, model["plugin"], posted, PREFIX)
    return section


def _names_in(section: dict[str, Any]) -> list[tuple[list[str], str]]:
    """Return the lists of names of the section, with their addresses."""
    raters = section["raters"]
    return [(section["domains"], "domains")] + [
        (raters[name], f"raters.{name}") for name in ("people", "groups", "domain_groups")
    ]


def _written_names(posted: QueryDict, address: str, known: list[str]) -> list[str]:
    """Return the names that were written below a list that does not show all."""
    lines = posted.get(f"{address}.unlisted", "").splitlines()
    written = dict.fromkeys(line.strip() for line in lines)
    return [name for name in written if name and name not in known]


def digest_people_section(run: Run) -> str:
    """Return a digest of the present section, to notice a change since the form was opened."""
    return hashlib.sha256(json.dumps(run.config["people"], sort_keys=True).encode()).hexdigest()[
        :16
    ]


def unknown_raters(run: Run, people: People) -> dict[str, str]:
    """Return, by field, names that may not rate in the run's project."""
    accounts, groups = may_be_named(run)
    unknown_people = [name for name in people.raters.people if name not in accounts]
    unknown_groups = [name for name in people.raters.groups if name not in groups]
    wrong = {}
    if unknown_people:
        wrong["raters.people"] = (
            f"not raters of project {run.project.slug}: {', '.join(unknown_people)}"
        )
    if unknown_groups:
        wrong["raters.groups"] = (
            f"no groups of raters of project {run.project.slug}: {', '.join(unknown_groups)}"
        )
    assigned_groups = [
        name for names in people.raters.groups_by_domain().values() for name in names
    ]
    if unknown := sorted(set(assigned_groups) - set(groups)):
        wrong["raters.domain_groups"] = (
            f"no groups of raters of project {run.project.slug}: {', '.join(unknown)}"
        )
    return wrong


def may_be_named(run: Run) -> tuple[list[str], list[str]]:
    """Return accounts that may rate in the run's project, and its groups of raters."""
    raters = User.objects.filter(
        is_active=True,
        memberships__project=run.project_id,
        memberships__role__in=Membership.MAY_RATE,
    ).order_by("username")
    groups = RaterGroup.objects.filter(project=run.project_id)
    return list(raters.values_list("username", flat=True)), list(
        groups.values_list("name", flat=True)
    )


def list_task_domains(run: Run) -> list[str]:
    """Return the domains of the run's tasks."""
    return list(
        run.tasks.exclude(domain="")
        .values_list("domain", flat=True)
        .distinct()
        .order_by("domain")[:MAX_NAMES]
    )


def placed(problems: Mapping[str, str]) -> dict[str, str]:
    """Assign problems to the addresses of this form, which omit the section's name."""
    problems_by_address = {
        field.removeprefix("people").removeprefix("."): words for field, words in problems.items()
    }
    return placed_among(
        problems_by_address, {knob.address for knob in section_knobs(People, {}, {}, {})}
    )


def _form(
    run: Run,
    values: Mapping[str, Any],
    plan: People | None,
    problems: Mapping[str, str],
    seen_digest: str,
) -> PeopleForm:
    fields: Iterator[Knob] = (
        _with_choices(knob) for knob in section_knobs(People, values, LABELS, problems)
    )
    fields = with_option_fields(fields, values, problems, PREFIX)
    knobs = {knob.address: knob for knob in fields}
    accounts, groups = may_be_named(run)
    domains = list_task_domains(run)
    assigned = (f"{domain}: {group}" for domain in domains for group in groups)
    for address, names, total in (
        ("raters.people", accounts, len(accounts)),
        ("raters.groups", groups, len(groups)),
        ("raters.domain_groups", list(islice(assigned, MAX_NAMES)), len(domains) * len(groups)),
        ("domains", domains, len(domains)),
    ):
        offered_names = [
            *names[:MAX_NAMES],
            *(name for name in knobs[address].value if name not in names[:MAX_NAMES]),
        ]
        knobs[address] = replace(
            knobs[address],
            choices=tuple((name, name, "") for name in offered_names),
            unlisted=max(0, total - len(offered_names)),
        )
    fieldsets = (
        Fieldset(title, why, tuple(_among(knobs, addresses))) for title, why, addresses in GROUPS
    )
    return PeopleForm(tuple(fieldsets), plan, values, problems, seen_digest)


def _among(knobs: Mapping[str, Knob], addresses: tuple[str, ...]) -> list[Knob]:
    """Return the knobs at these addresses, each followed by those inside of it."""
    return [
        knob
        for address in addresses
        for knob in knobs.values()
        if knob.address == address or knob.address.startswith(f"{address}.")
    ]


def form_choices(chosen: Any) -> tuple[tuple[str, str, str], ...]:
    """Return the rating forms of runs with what an answer says, and the chosen one in any case."""
    names = [name for name in FORMS if name != FLAG]
    if isinstance(chosen, str) and chosen and chosen not in names:
        names.append(chosen)
    return tuple((name, name.replace("_", " "), FORMS[name].summary) for name in names)


def _with_choices(knob: Knob) -> Knob:
    if knob.address == "form":
        return replace(knob, kind="choice", choices=form_choices(knob.value))
    names = CHOICES.get(knob.address, {})
    choices = tuple((value, names.get(value, name), "") for value, name, _ in knob.choices)
    return replace(knob, unit=knob.unit or UNITS.get(knob.address, ""), choices=choices)
