"""What people's time bought: how fast they decided, what came of it, and where they and the machine part.

Read from the newest decisions and updates alone, so that no answer grows with the run.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean

from django.db.models import Max, Min

from apps.buffer.models import Experience, StepItem
from apps.feedback.models import Rating
from apps.rewards.combining import RATER_MODEL, Judgement, combined, full_reward, peoples_word
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run, TrainStep
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind, kind_of

NEWEST = 2_000  # decisions looked at
UPDATES = 20  # newest updates looked at
GAPS_SHOWN = 8
MOST_COUNTED = 20_000  # experiences
ACCEPTED = (Experience.State.READY, Experience.State.CLAIMED, Experience.State.TRAINED)
MINUTES_PER_HOUR, SECONDS_PER_MINUTE = 60, 60


@dataclass
class Time:
    """What one person, or several, gave: decisions, how many of them have a time, and the active seconds of those."""

    name: str = ""
    is_simulated: bool = False
    decisions: int = 0
    timed: int = 0
    seconds: float = 0.0
    late: int = 0

    @property
    def minutes(self) -> float:
        return self.seconds / SECONDS_PER_MINUTE

    @property
    def per_hour(self) -> float | None:
        """Decisions in an hour of active time; None where no decision was timed."""
        return self.timed * MINUTES_PER_HOUR / self.minutes if self.seconds else None

    def add(self, seconds: float | None, is_late: bool) -> None:
        self.decisions += 1
        self.late += is_late
        if seconds:
            self.timed, self.seconds = self.timed + 1, self.seconds + seconds


@dataclass(frozen=True)
class Gap:
    """A rollout on which people and machine part; all from 0 to 1."""

    rollout: Rollout
    people: float
    machine: float

    @property
    def size(self) -> float:
        return abs(self.people - self.machine)


@dataclass(frozen=True)
class Parting:
    """Where both have judged the same rollouts: how many, the mean distance, how often they order two alike, the widest gaps."""

    both: int = 0
    distance: float | None = None
    same_order: float | None = None
    widest: Sequence[Gap] = ()


@dataclass(frozen=True)
class Bought:
    """`people` and `simulated` are sums over their raters. `accepted`: experiences that came of what was judged,
    counted up to `most`.
    """

    raters: list[Time]
    people: Time
    simulated: Time
    accepted: int
    judged: int
    since: datetime | None
    parting: Parting = field(default_factory=Parting)
    taken: int = 0
    covered: int = 0
    most: int = MOST_COUNTED

    @property
    def decisions(self) -> int:
        return self.people.decisions + self.simulated.decisions

    @property
    def minutes_each(self) -> float | None:
        """Active minutes of people for one accepted experience; None where nobody's time is known, or nothing came of it."""
        return self.people.minutes / self.accepted if self.people.seconds and self.accepted else None

    @property
    def coverage(self) -> float | None:
        """Share of the newest updates' rollouts that a person judged."""
        return self.covered / self.taken if self.taken else None


def bought(run: Run) -> Bought:
    """Nine queries, whatever the run's size."""
    names = ("rater__username", "rater__is_simulated", "seconds", "is_late", "shown", "rollout", "at")
    rows = list(Rating.objects.counting().filter(run=run).order_by("-pk").values_list(*names)[:NEWEST])
    raters: dict[str, Time] = {}
    people, simulated = Time(), Time(is_simulated=True)
    judged: set[int] = set()
    for name, is_simulated, seconds, is_late, shown, rollout, _ in rows:
        for time in (raters.setdefault(name, Time(name, is_simulated)), simulated if is_simulated else people):
            time.add(seconds, is_late)
        if not is_simulated:
            judged.update(shown or [rollout])
    taken, covered = _coverage(run)
    return Bought(
        raters=sorted(raters.values(), key=lambda time: (time.is_simulated, -time.decisions)), people=people, simulated=simulated,
        accepted=_accepted(run, judged), judged=len(judged), since=rows[-1][-1] if rows else None,
        parting=parting(run.settings, judged), taken=taken, covered=covered,
    )  # fmt: skip


def _accepted(run: Run, judged: set[int]) -> int:
    """Experiences of the judged rollouts; with a rater model, which fills the others, all since the first of them."""
    found = Experience.objects.usual().filter(run=run, state__in=ACCEPTED)
    if run.settings.people.rater_model is None:
        return found.filter(rollout__in=judged)[:MOST_COUNTED].count()
    ends = Rollout.objects.filter(pk__in=judged).aggregate(first=Min("pk"), last=Max("pk"))
    return found.filter(rollout__gte=ends["first"], rollout__lte=ends["last"])[:MOST_COUNTED].count() if judged else 0


def _coverage(run: Run) -> tuple[int, int]:
    """Rollouts that the newest updates took, and those of them that a person judged."""
    newest = list(TrainStep.objects.filter(run=run, state=TrainStep.State.COMMITTED).order_by("-number").values("pk")[:UPDATES])
    steps = [row["pk"] for row in newest]
    usual = StepItem.objects.filter(step__in=steps, experience__kind=Experience.Kind.USUAL)
    taken = set(usual.values_list("experience__rollout", flat=True))
    human = Reward.objects.by_people().filter(
        rollout__in=taken, is_current=True, value__isnull=False
    )
    return len(taken), human.values("rollout").distinct().count()


def parting(plan: RunConfig, judged: set[int]) -> Parting:
    """Of these rollouts: what people gave against what the machine gave, or foretold where the run has no scorer."""
    machine, people = _said(plan, judged)
    both = sorted(machine.keys() & people.keys())
    if not both:
        return Parting()
    pairs = [(people[pk], machine[pk]) for pk in both]
    wide = sorted(both, key=lambda pk: -abs(people[pk] - machine[pk]))[:GAPS_SHOWN]
    rollouts = Rollout.objects.select_related("group__task").in_bulk(wide)
    widest = [Gap(rollouts[pk], people[pk], machine[pk]) for pk in wide if people[pk] != machine[pk]]
    return Parting(len(both), fmean(abs(a - b) for a, b in pairs), same_order(pairs), widest)


def _said(plan: RunConfig, judged: set[int]) -> tuple[dict[int, float], dict[int, float]]:
    words: dict[int, list[Judgement]] = defaultdict(list)
    human: dict[int, list[Judgement]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=judged, is_current=True).exclude(details__has_key=LATE)
    current = current.without_simulated()
    for rollout, source, scorer, value in current.values_list("rollout", "source", "scorer", "value"):
        if source == Reward.Source.HUMAN:
            human[rollout].append(Judgement(scorer, value, is_human=True))
        elif plan.rewards or scorer == RATER_MODEL:
            words[rollout].append(Judgement(scorer, value))
    rows = Rollout.objects.filter(pk__in=words).values_list("pk", "group__task__domain", f"group__task__meta__{JUDGED_BY}")
    kinds = {pk: kind_of(domain, judged_by) for pk, domain, judged_by in rows}
    machine = {pk: _machine(said, plan, kinds[pk]) for pk, said in words.items()}
    people = {pk: peoples_word(said) for pk, said in human.items()}
    return tuple({pk: value for pk, value in found.items() if value is not None} for found in (machine, people))


def _machine(said: list[Judgement], plan: RunConfig, kind: Kind) -> float | None:
    """From 0 to 1: of what the scorers could give at most; without scorers what the rater model foretells."""
    if not plan.rewards:
        return next((judgement.value for judgement in said if judgement.scorer == RATER_MODEL), None)
    value = combined([judgement for judgement in said if judgement.scorer != RATER_MODEL], plan, kind)
    return None if value is None else value / full_reward(plan, kind)


def same_order(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Share of two rollouts that both rank alike, among those that neither finds equal; of at most the first 400."""
    some, same, counted = pairs[:400], 0, 0
    for n, (people, machine) in enumerate(some):
        for other_people, other_machine in some[n + 1 :]:
            if people != other_people and machine != other_machine:
                counted += 1
                same += (people > other_people) == (machine > other_machine)
    return same / counted if counted else None
