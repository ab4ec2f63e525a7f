"""The tour of a first visit: five pages of the demo's run, a sentence or two on each."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.models import User
from apps.runs.models import Run

NOT_HERE = "tour_not_here"  # of a session: whoever signed in had no demo to be shown
DEMO, RUN = "demo", "tone"  # the project that `make demo` makes, and the run in it that people rate


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
        "● is what people said, ◆ what the rule said. The strip above follows every reply from its task to new weights; whatever "
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
        "Where it came from, which engines serve it, which ratings made it; compare versions, talk to one, take it with you.",
        ".tablebox", "Finish",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Tour:
    """Where somebody is on it. `step` is the page that is open, or None on a page the tour does not tell of now."""

    number: int
    next: Step
    step: Step | None
    url: str

    @property
    def of(self) -> int:
        return len(STEPS)


def demo_run(user: User) -> Run | None:
    """The newest run that the tour can be taken on: of the demo, and seen by this person."""
    runs = Run.objects.visible_to(user).filter(project__slug=DEMO, slug__startswith=RUN)
    return runs.select_related("project").order_by("-pk").first()


def look_for_it(request: HttpRequest, user: User, **_: object) -> None:
    """At each sign-in, so that pages need not look again where there is no demo."""
    request.session.pop(NOT_HERE, None)
    if user.tour_step and demo_run(user) is None:
        request.session[NOT_HERE] = True


def tour_of(request: HttpRequest) -> Tour | None:
    """None where it is over, or there was no run to take it on at sign-in. One query for those who are on it, none for others."""
    user = getattr(request, "user", None)
    if not user or not user.is_authenticated or not 1 <= user.tour_step <= len(STEPS) or NOT_HERE in request.session:
        return None
    run = demo_run(user)
    if run is None:
        return None
    step = STEPS[user.tour_step - 1]
    is_here = request.resolver_match is not None and request.resolver_match.url_name == step.page
    return Tour(user.tour_step, step, step if is_here else None, step.url(run))
