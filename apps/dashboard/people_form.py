"""What a run asks of people, as a form: its fields in groups, read back, and each refusal put at the field it is about."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import Group as AccountGroup
from django.http import QueryDict

from apps.accounts.models import Membership, User
from apps.dashboard.knobs import Knob, knobs_of, placed_among, values_in
from apps.runs.changing import changed
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.people import People

LABELS = {
    "form": "Form of a decision",
    "rubric": "Scales of the rubric",
    "guidelines": "Guidelines",
    "per_group": "Replies asked of each group",
    "domains": "Domains",
    "pairs": "Pairs asked of each group",
    "anchor": "Anchor reply in rankings",
    "ask_first": "What comes first",
    "overlap": "People per item",
    "open_stars": "Stars without a claim",
    "raters.people": "People",
    "raters.groups": "Groups",
    "open_claims": "Items one person may hold",
    "lease_s": "Lease",
    "blind": "Raters are blind",
    "steer": "Raters may steer",
    "deadline_s": "A group waits",
    "at_deadline": "At the deadline",
    "weight": "Weight of people",
    "aggregation": "From votes to reward",
    "gold.rate": "Gold items",
    "gold.attention": "Attention checks",
    "gold.feedback": "Tell the rater",
    "schedule": "A budget of decisions",
    "schedule.decisions": "Decisions in all",
    "schedule.first": "Before the first update",
    "schedule.first_at_least": "And at least",
    "schedule.until": "Spread up to",
    "schedule.rewrites": "Rewrites among them",
    "schedule.rewrites_until": "Rewrites up to",
    "schedule.spread_share": "Where predictions spread",
    "rater_model": "A rater model",
    "rater_model.kind": "Kind",
    "rater_model.head_from": "A trained head from",
    "rater_model.at_least": "No update before",
    "rater_model.pessimism": "Pessimism",
    "rater_model.audits": "Audits",
    "rater_model.repeats": "Repeats",
    "rater_model.pause_on_red": "Pause on red",
    "simulated": "Simulated rater",
}
FORMS = {
    "thumbs": "good or bad", "stars": "one to five, for one reply", "pairwise": "which of two, and by how much",
    "ranking": "the whole group in order", "best_worst": "the best and the worst of the group",
    "rubric": "several named scales", "turns": "marks on single turns", "spans": "passages, each with a note",
    "critique": "in words", "rewrite": "the reply as it should have been",
}  # fmt: skip
CHOICES = {
    "ask_first": {"worth": "what there is most to learn from", "disagreement": "where scorers and people part"},
    "at_deadline": {
        "machine_only": "go on with the machine's rewards",
        "drop": "drop the group",
        "fill_with_rater_model": "fill in what the rater model says",
    },
    "aggregation": {
        "mean": "the mean",
        "weighted": "the mean, weighted by each rater's quality",
        "bradley_terry": "Bradley–Terry strengths of the pairs",
        "elo": "Elo, vote after vote",
        "ranking": "scores by place",
    },
    "rater_model.kind": {"ridge": "Bayesian ridge", "scalar_head": "a trained head"},
}
UNITS = {
    "per_group": "replies", "pairs": "pairs", "overlap": "people", "open_claims": "items", "schedule.decisions": "decisions",
    "schedule.first_at_least": "decisions", "schedule.rewrites": "decisions", "rater_model.head_from": "decisions",
    "rater_model.at_least": "decisions",
}  # fmt: skip
# Title, one line, and the fields; together they are all fields of the section (a test counts them).
GROUPS = (
    ("What is asked", "", ("form", "rubric", "guidelines", "per_group", "domains", "pairs", "anchor", "ask_first", "overlap")),
    (
        "Who rates",
        "",
        (
            "raters.people",
            "raters.groups",
            "open_claims",
            "open_stars",
            "lease_s",
            "blind",
            "steer",
            "simulated",
        ),
    ),
    ("What becomes of it", "", ("deadline_s", "at_deadline", "weight", "aggregation")),
    ("Do they read", "Items whose answer is known, mixed in among the others.", ("gold.rate", "gold.attention", "gold.feedback")),
    ("Rater model", "Learns from every decision, and fills in where nobody looked.", ("rater_model",)),
    ("Budget", "Asks for a limited number of decisions, where they pay most.", ("schedule",)),
)
MOST_NAMES = 200


@dataclass(frozen=True)
class Fieldset:
    title: str
    why: str
    knobs: tuple[Knob, ...]


@dataclass(frozen=True)
class PeopleForm:
    """The section with what is wrong in it. `plan` is the section as it would be, None while something is wrong."""

    groups: tuple[Fieldset, ...]
    plan: People | None
    values: Mapping[str, Any]
    problems: Mapping[str, str]
    seen: str

    @property
    def general(self) -> str:
        """What is wrong with the whole, not with one field."""
        return self.problems.get("", "")

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(knob for group in self.groups for knob in group.knobs)


def form_of(run: Run) -> PeopleForm:
    """The form as the run's configuration stands."""
    plan = run.settings.people
    return _form(run, plan.model_dump(mode="json"), plan, {}, digest_of(run))


def read(run: Run, posted: QueryDict) -> PeopleForm:
    """The form as posted, judged as the run would judge it; nothing is written."""
    said = values_in(People, posted)
    problems: dict[str, str] = {}
    plan = None
    try:
        after = changed(run.settings, {"people": said}, has_begun=run.state != Run.State.CREATED)
        problems = unknown_raters(run, after.people)
        plan = None if problems else after.people
    except ConfigError as error:
        problems = placed(error.problems)
    return _form(run, said, plan, problems, posted.get("seen", ""))


def digest_of(run: Run) -> str:
    """Names the section as it stands, so that a form filled in before somebody else's change is noticed."""
    return hashlib.sha256(json.dumps(run.config["people"], sort_keys=True).encode()).hexdigest()[:16]


def unknown_raters(run: Run, people: People) -> dict[str, str]:
    """Names that may not rate in the run's project, by field."""
    accounts, groups = may_be_named(run)
    strangers = [name for name in people.raters.people if name not in accounts]
    absent = [name for name in people.raters.groups if name not in groups]
    wrong = {}
    if strangers:
        wrong["raters.people"] = f"{', '.join(strangers)}: no account of that name may rate in project {run.project.slug}"
    if absent:
        wrong["raters.groups"] = f"{', '.join(absent)}: nobody who may rate in project {run.project.slug} is in such a group"
    return wrong


def may_be_named(run: Run) -> tuple[list[str], list[str]]:
    """Accounts that may rate in the run's project, and the groups that they are in."""
    raters = User.objects.filter(
        is_active=True, memberships__project=run.project_id, memberships__role__in=Membership.MAY_RATE
    ).order_by("username")
    groups = AccountGroup.objects.filter(user__in=raters).distinct().order_by("name")
    return list(raters.values_list("username", flat=True)), list(groups.values_list("name", flat=True))


def domains_of(run: Run) -> list[str]:
    """Of the tasks that the run draws."""
    return list(run.tasks.exclude(domain="").values_list("domain", flat=True).distinct().order_by("domain")[:MOST_NAMES])


def placed(problems: Mapping[str, str]) -> dict[str, str]:
    """Problems by the addresses of this form, in which the section itself has no name."""
    here = {field.removeprefix("people").removeprefix("."): words for field, words in problems.items()}
    return placed_among(here, {knob.address for knob in knobs_of(People, {}, {}, {})})


def _form(run: Run, values: Mapping[str, Any], plan: People | None, problems: Mapping[str, str], seen: str) -> PeopleForm:
    knobs = {knob.address: _worded(knob) for knob in knobs_of(People, values, LABELS, problems)}
    accounts, groups = may_be_named(run)
    for address, names in (("raters.people", accounts), ("raters.groups", groups), ("domains", domains_of(run))):
        named = [*names[:MOST_NAMES], *(name for name in knobs[address].value if name not in names[:MOST_NAMES])]
        knobs[address] = replace(knobs[address], choices=tuple((name, name, "") for name in named))
    fieldsets = (Fieldset(title, why, tuple(_among(knobs, addresses))) for title, why, addresses in GROUPS)
    return PeopleForm(tuple(fieldsets), plan, values, problems, seen)


def _among(knobs: Mapping[str, Knob], addresses: tuple[str, ...]) -> list[Knob]:
    """The knobs at these addresses, each with those inside of it."""
    return [
        knob
        for address in addresses
        for knob in knobs.values()
        if knob.address == address or knob.address.startswith(f"{address}.")
    ]


def _worded(knob: Knob) -> Knob:
    names, words = CHOICES.get(knob.address, {}), FORMS if knob.address == "form" else {}
    choices = tuple((value, names.get(value, name), words.get(value, "")) for value, name, _ in knob.choices)
    return replace(knob, unit=knob.unit or UNITS.get(knob.address, ""), choices=choices)
