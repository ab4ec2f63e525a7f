"""The first page: what waits for a person, the runs at work, and what to do first.

The number of queries is fixed, whatever the number of runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, prefetch_related_objects
from django.db.models.functions import Greatest
from django.urls import reverse

from apps.accounts.models import Membership, Project, User
from apps.alerts.models import Alert
from apps.dashboard.run_rows import RunRow, build_run_rows, load_runs_in_order
from apps.dashboard.tour import DEMO, demo_run
from apps.feedback.claiming import waiting_by_run
from apps.feedback.quality.disputes import disputes_of_each
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.models.run_lists import RunQuerySet
from apps.tasksets.models import Taskset

RUNS_SHOWN = 8
RUNS_TO_RATE = 5
ALERTS_SHOWN = 5
MAX_COUNTED = 100  # items of one run; the page shows 99+ from there
RATINGS_READ = 400  # the newest of each run, among which disagreements are counted


@dataclass(frozen=True)
class WaitingCount:
    """A run with the number of items that wait in it."""

    run: Run
    count: int

    @property
    def words(self) -> str:
        return f"{MAX_COUNTED - 1}+" if self.count >= MAX_COUNTED else str(self.count)


@dataclass(frozen=True)
class Card:
    """A first step: where it is done, and the command where it needs a terminal.

    `tour_step` is the step of the tour that the card's button takes instead.
    """

    title: str
    words: str
    act: str
    url: str = ""
    command: str = ""
    tour_step: int = 0


@dataclass(frozen=True)
class Home:
    """What the first page shows to one person."""

    to_rate: Sequence[WaitingCount]
    disputes: Sequence[WaitingCount]
    alerts: Sequence[Alert]
    has_more_alerts: bool
    rows: Sequence[RunRow]
    cards: Sequence[Card]
    may_create: bool
    is_member: bool

    @property
    def is_waiting(self) -> bool:
        return bool(self.to_rate or self.disputes or self.alerts)


@dataclass(frozen=True)
class Rights:
    """What a person may do: the slugs of the first two projects to run, and of those owned."""

    run: Sequence[str]
    owned: Sequence[str]
    is_member: bool


def load_home(user: User) -> Home:
    """Return what the first page shows to this person."""
    rights = _rights_of(user)
    rows = build_run_rows(load_runs_in_order(_at_work(user)), user)
    alerts = Alert.objects.unacknowledged_for(user, ALERTS_SHOWN + 1)
    prefetch_related_objects(alerts, "run__project")
    return Home(
        to_rate=_to_rate(user),
        disputes=_disputes(user, [row.run for row in rows]),
        alerts=alerts[:ALERTS_SHOWN],
        has_more_alerts=len(alerts) > ALERTS_SHOWN,
        rows=rows,
        cards=_cards(user, rights),
        may_create=bool(rights.run),
        is_member=rights.is_member,
    )


def _rights_of(user: User) -> Rights:
    run_by = Project.objects.run_by(user).current().order_by("pk")
    owned_by = Project.objects.owned_by(user).current().order_by("pk")
    run = list(run_by.values_list("slug", flat=True)[:2])
    owned = list(owned_by.values_list("slug", flat=True)[:2])
    is_member = Project.objects.visible_to(user).exists()
    return Rights(run, owned, is_member)


def _at_work(user: User) -> RunQuerySet:
    """Return running and paused runs that train, the one with the newest activity first."""
    live = Run.objects.visible_to(user).filter(
        state__in=[Run.State.RUNNING, Run.State.PAUSED], is_evaluation=False
    )
    active_at = Greatest("explored_at", "trained_at", "state_since", "created_at")
    newest = live.annotate(active_at=active_at).order_by(F("active_at").desc(), "-pk")
    return newest.only("pk")[:RUNS_SHOWN]


def _to_rate(user: User) -> list[WaitingCount]:
    counts = waiting_by_run(user, MAX_COUNTED, RUNS_TO_RATE)
    # A held item may be of a project that the person has left since.
    visible_runs = Run.objects.visible_to(user).select_related("project").in_bulk(counts)
    return [
        WaitingCount(visible_runs[pk], count) for pk, count in counts.items() if pk in visible_runs
    ]


def _disputes(user: User, runs: Sequence[Run]) -> list[WaitingCount]:
    steered = Run.objects.steered_by(user).filter(pk__in=[run.pk for run in runs])
    runs_by_id = {run.pk: run for run in steered.select_related("project")}
    counts = disputes_of_each(list(runs_by_id.values()), RATINGS_READ)
    return [WaitingCount(runs_by_id[run.pk], counts[run.pk]) for run in runs if run.pk in counts]


def _cards(user: User, rights: Rights) -> list[Card]:
    """Return the first steps that are not done yet and that this person may do."""
    cards = [_demo_card(user), _people_card(user, rights)]
    if rights.run:
        cards[1:1] = [_model_card(user), _prompts_card(user, rights)]
    return [card for card in cards if card is not None]


def _demo_card(user: User) -> Card | None:
    if user.tour_step and demo_run(user) is not None:
        return Card(
            "Take the tour",
            "Five pages of the demo’s run, with a sentence or two on each.",
            "Start the tour" if user.tour_step == 1 else "Continue the tour",
            tour_step=user.tour_step,
        )
    # It needs a terminal on the server, which administrators have.
    if not user.is_superuser or Run.objects.visible_to(user).filter(is_evaluation=False).exists():
        return None
    return Card(
        "Try the demo",
        "It creates a small model, prompts and a run that you rate while it learns. In a terminal:",
        "View runs",
        reverse("runs"),
        "make demo",
    )


def _model_card(user: User) -> Card | None:
    """Policies that the demo built are toys: they leave this step open."""
    if Policy.objects.filter(project__in=Project.objects.run_by(user)).brought().exists():
        return None
    return Card(
        "Bring a model",
        "Add one from the Hugging Face Hub, an upload or a folder on the server.",
        "Add a model",
        reverse("model-add"),
    )


def _prompts_card(user: User, rights: Rights) -> Card | None:
    """Tasksets that the demo generated leave this step open."""
    tasksets = Taskset.objects.filter(project__in=Project.objects.run_by(user))
    if tasksets.exclude(project__slug=DEMO, seed__isnull=False).exists():
        return None
    only_one = len(rights.run) == 1
    return Card(
        "Bring prompts",
        "Import a file of prompts, or a dataset from the Hugging Face Hub.",
        "Import prompts",
        reverse("taskset-imports", args=rights.run) if only_one else reverse("tasksets"),
    )


def _people_card(user: User, rights: Rights) -> Card | None:
    if user.is_superuser and not rights.owned:
        return Card(
            "Create a project",
            "Models, prompts and runs belong to a project. Only its members see them.",
            "Create a project",
            reverse("projects"),
        )
    other_members = Membership.objects.filter(
        project__in=Project.objects.owned_by(user), user__is_simulated=False
    ).exclude(user=user)
    if not rights.owned or other_members.exists():
        return None
    only_one = len(rights.owned) == 1
    return Card(
        "Invite raters",
        "Send a link. Anyone who opens it joins your project and rates its replies.",
        "Create a link",
        reverse("project", args=rights.owned) if only_one else reverse("projects"),
    )
