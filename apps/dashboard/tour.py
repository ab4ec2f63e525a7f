"""The tour of a first visit: five pages of the demo's run, a sentence or two on each.

Each page shows something only while the run learns. Where it does not, the tour says so and offers
the one action that helps.
"""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.models import User
from apps.dashboard.access import may_steer
from apps.runs.again import run_again
from apps.runs.models import Run

NOT_HERE = "tour_not_here"  # of a session: whoever signed in had no demo to be shown
DEMO = "demo"  # the project that `make demo` makes
RUNS = r"^(tone|support)(-[0-9]+)?$"  # slugs of the runs in it that people rate


@dataclass(frozen=True)
class Step:
    """`page`: the name of its address; `aim`: what on that page it tells of, as a CSS selector."""

    page: str
    title: str
    words: str
    aim: str
    on: str  # the button that leads to the page after it

    def url(self, run: Run) -> str:
        if self.page in ("live", "rate"):
            return f"{reverse(self.page)}?run={run.pk}"
        return reverse(self.page, args=[run.project.slug, run.slug])


STEPS = (
    Step(
        "live", "Replies stream here",
        "The model writes, word by word. Put a card in focus and press 1 to 5: your stars become that reply’s reward.",
        "[data-wall]", "Rate a group",
    ),
    Step(
        "rate", "One decision fills the screen",
        "Digits answer, Enter brings the next, z takes back. Nothing that you say is lost, not even offline.",
        "[data-desk]", "See what it does",
    ),
    Step(
        "run", "The run learns from it",
        "● is what people said, ◆ what the rule said. The strip below follows every reply from its task to new weights; whatever "
        "holds the others up says why.",
        "[data-chart=reward]", "Look into replies",
    ),
    Step(
        "rollouts", "Every reply of every step",
        "Search and filter them, open one: its tokens, who judged it how, and the update that learned from it.",
        ".tablebox", "See the weights",
    ),
    Step(
        "run-weights", "Each update can become a version",
        "Where it came from, which engines serve it, which ratings made it; compare versions, talk to one, take it with you. "
        "The same with a real language model: start manage.py demo --run support.",
        ".tablebox", "Finish",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Obstacle:
    """Why there is nothing to see here now, and the one action that helps.

    `act` is the button that has the run learn, `url` the page of the run that does; both are empty
    where this person can only wait.
    """

    words: str
    act: str = ""
    url: str = ""


@dataclass(frozen=True)
class Tour:
    """Where somebody is on it. `step` is the page that is open, or None on a page the tour does not tell of now."""

    number: int
    next: Step
    step: Step | None
    url: str
    obstacle: Obstacle | None = None

    @property
    def of(self) -> int:
        return len(STEPS)


def demo_run(user: User) -> Run | None:
    """The run that the tour is taken on: the demo's newest that learns, else its newest."""
    runs = Run.objects.visible_to(user).filter(
        project__slug=DEMO, slug__regex=RUNS
    )
    runs = runs.select_related("project").order_by("-pk")
    return runs.running().first() or runs.first()


def obstacle_of(request: HttpRequest, run: Run, step: Step) -> Obstacle | None:
    """None on a page of the demo's run while that learns."""
    if run.state == Run.State.RUNNING:
        if _shows(request, run):
            return None
        return Obstacle(
            f"This page shows another run. Run {run.slug} learns now.", url=step.url(run)
        )
    act, done = {
        Run.State.CREATED: ("Start it", "started it"),
        Run.State.PAUSED: ("Resume it", "resumed it"),
    }.get(run.state, ("Run it again", "run it again"))
    reason = f" ({run.state_reason})" if run.state_reason else ""
    words = f"Nothing streams now: run {run.slug} is {run.get_state_display()}{reason}."
    if may_steer(request, run):
        return Obstacle(words, act)
    return Obstacle(f"{words} It goes on when an owner or a researcher has {done}.")


def _shows(request: HttpRequest, run: Run) -> bool:
    """Whether the page is of this run, or of all runs."""
    slug = request.resolver_match.kwargs.get("slug")
    return slug == run.slug if slug else request.GET.get("run", "") in ("", str(run.pk))


def wake(run: Run, by: User) -> Run:
    """Have the demo learn again; return the run that does. Raises NotPossible and ConfigError."""
    if run.state == Run.State.CREATED:
        run.start(by=by)
    elif run.state == Run.State.PAUSED:
        run.resume(by=by)
    elif run.state in Run.ENDED:
        return run_again(run, by)
    return run


def look_for_it(request: HttpRequest, user: User, **_: object) -> None:
    """At each sign-in, so that pages need not look again where there is no demo."""
    request.session.pop(NOT_HERE, None)
    if user.tour_step and demo_run(user) is None:
        request.session[NOT_HERE] = True


def tour_of(request: HttpRequest) -> Tour | None:
    """None where it is over, or there was no run at sign-in; then it costs no query."""
    user = getattr(request, "user", None)
    if (
        not user
        or not user.is_authenticated
        or not 1 <= user.tour_step <= len(STEPS)
        or NOT_HERE in request.session
    ):
        return None
    run = demo_run(user)
    if run is None:
        return None
    step = STEPS[user.tour_step - 1]
    is_here = request.resolver_match is not None and request.resolver_match.url_name == step.page
    if not is_here:
        return Tour(user.tour_step, step, None, step.url(run))
    return Tour(user.tour_step, step, step, step.url(run), obstacle_of(request, run, step))
