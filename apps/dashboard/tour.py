"""The tour for a first visit: five pages of the demo's run, with a sentence or two on each.

Each page shows something only while the run is training. Otherwise the tour says so and offers the
one action that helps.
"""

from dataclasses import dataclass, replace

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.requests import SignedInRequest, is_signed_in
from apps.dashboard.access import may_steer
from apps.runs.models import Run
from apps.runs.run_repeats import run_again

NOT_HERE = "tour_not_here"  # session key: at sign-in there was no demo to show
DEMO = "demo"  # the project that `make demo` makes
RUNS = r"^(tone|support)(-[0-9]+)?$"  # slugs of the runs in it that people rate
# Added to the last page of the tour of a tiny model.
REAL_MODEL = " To try a real language model, run manage.py demo --run support."


@dataclass(frozen=True)
class Step:
    """A page of the tour; `page` is its URL's name, `aim` the CSS selector of what it explains."""

    page: str
    title: str
    words: str
    aim: str
    on: str  # the button that leads to the next page

    def url(self, run: Run) -> str:
        if self.page in ("live", "rate"):
            return f"{reverse(self.page)}?run={run.pk}"
        return reverse(self.page, args=[run.project.slug, run.slug])


STEPS = (
    Step(
        "live",
        "Watch replies",
        "The model writes its replies here. Focus a card and press 1 to 5: your stars become the"
        " reward of that reply.",
        "[data-live-grid]",
        "Rate a group",
    ),
    Step(
        "rate",
        "Rate replies",
        "Press a digit to rate, Enter for the next item, z to undo. Your ratings are kept even"
        " if you go offline.",
        "[data-rating-page]",
        "See the effect",
    ),
    Step(
        "run",
        "Follow the training",
        "● is the reward from people, ◆ the reward from rules. The strip below follows replies"
        " from task to new weights and shows what the run waits for.",
        "[data-chart=reward]",
        "Explore rollouts",
    ),
    Step(
        "rollouts",
        "Explore rollouts",
        "Search and filter all replies. Open one to see its tokens, its rewards, and the step"
        " that learned from it.",
        ".tablebox",
        "See the weights",
    ),
    Step(
        "run-weights",
        "Weight versions",
        "See which engines serve a version and which ratings it learned from. Compare versions,"
        " chat with one, or export it.",
        ".tablebox",
        "Finish",
    ),
)


@dataclass(frozen=True)
class Obstacle:
    """A reason why there is nothing to see now, and the one action that helps.

    `act` is the button that makes the run train, `url` the page of the run that does; both are
    empty if the user can only wait.
    """

    words: str
    act: str = ""
    url: str = ""


@dataclass(frozen=True)
class Tour:
    """The user's place in the tour.

    `step` is the open page, or None on a page that is not part of the present step.
    """

    number: int
    next: Step
    step: Step | None
    url: str
    obstacle: Obstacle | None = None

    @property
    def of(self) -> int:
        return len(STEPS)


def demo_run(user: User) -> Run | None:
    """Return the run of the tour: the demo's newest that is training, else its newest."""
    runs = Run.objects.visible_to(user).filter(project__slug=DEMO, slug__regex=RUNS)
    runs = runs.select_related("project").order_by("-pk")
    return runs.running().first() or runs.first()


def find_obstacle(request: SignedInRequest, run: Run, step: Step) -> Obstacle | None:
    """Return the obstacle; None on a page of the demo's run while it is training."""
    if run.state == Run.State.RUNNING:
        if _shows(request, run):
            return None
        return Obstacle(
            f"This page shows another run. The demo run is now {run.slug}.", url=step.url(run)
        )
    acts: dict[str, tuple[str, str]] = {
        Run.State.CREATED: ("Start run", "started it"),
        Run.State.PAUSED: ("Resume run", "resumed it"),
    }
    act, past_action = acts.get(run.state, ("Run again", "started it again"))
    reason = f" ({run.state_reason})" if run.state_reason else ""
    words = f"There are no new replies: run {run.slug} is {run.get_state_display()}{reason}."
    if may_steer(request, run):
        return Obstacle(words, act)
    return Obstacle(f"{words} It continues when an owner or researcher has {past_action}.")


def _shows(request: HttpRequest, run: Run) -> bool:
    """Tell whether the page is of this run, or of all runs."""
    match = request.resolver_match
    slug = match.kwargs.get("slug") if match else None
    names = ("", str(run.pk), run.slug, f"{run.project.slug}/{run.slug}")
    return slug == run.slug if slug else request.GET.get("run", "") in names


def wake_demo_run(run: Run, by: User) -> Run:
    """Start, resume or repeat the demo's run; return the run that trains.

    Raises NotPossible and ConfigError.
    """
    if run.state == Run.State.CREATED:
        run.start(by=by)
    elif run.state == Run.State.PAUSED:
        run.resume(by=by)
    elif run.state in Run.ENDED:
        return run_again(run, by)
    return run


def look_for_it(request: HttpRequest, user: User, **_: object) -> None:
    """Note at sign-in whether there is a demo, so that pages need not query for it."""
    request.session.pop(NOT_HERE, None)
    if user.tour_step and demo_run(user) is None:
        request.session[NOT_HERE] = True


def load_tour(request: HttpRequest) -> Tour | None:
    """Return the tour, or None if it is over or there was no demo at sign-in.

    In these cases it costs no query.
    """
    if not is_signed_in(request):
        return None
    user = request.user
    if not 1 <= user.tour_step <= len(STEPS) or NOT_HERE in request.session:
        return None
    run = demo_run(user)
    if run is None:
        return None
    step = STEPS[user.tour_step - 1]
    if step == STEPS[-1] and run.slug.startswith("tone"):
        step = replace(step, words=step.words + REAL_MODEL)
    is_here = request.resolver_match is not None and request.resolver_match.url_name == step.page
    if not is_here:
        return Tour(user.tour_step, step, None, step.url(run))
    return Tour(user.tour_step, step, step, step.url(run), find_obstacle(request, run, step))
