"""Cost and benefit of human ratings: pace, experiences gained, and disagreement with machines.

Computed from the newest decisions and steps only, so that no query grows with the run.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

from django.db.models import Max, Min

from apps.buffer.models import Experience, StepItem
from apps.feedback.quality.decisions import Decision
from apps.rewards.combining import RATER_MODEL, Judgement, combined, full_reward, peoples_word
from apps.rewards.models import LATE, Reward
from apps.rollouts.models import Rollout
from apps.runs.config import RunConfig
from apps.runs.models import Run, TrainStep
from apps.tasksets.judged_by import KEY as JUDGED_BY
from apps.tasksets.judged_by import Kind, find_judged_kind

NEWEST = 2_000  # decisions read
UPDATES = 20  # newest steps read
GAPS_SHOWN = 8
MAX_COUNTED = 20_000  # experiences
ACCEPTED = (Experience.State.READY, Experience.State.CLAIMED, Experience.State.TRAINED)
MINUTES_PER_HOUR = 60
SECONDS_PER_MINUTE = 60


@dataclass
class TimedDecisions:
    """Decisions of one or several people: how many, how many are timed, their active seconds."""

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
        """Return the decisions per hour of active time; None if no decision was timed."""
        return self.timed * MINUTES_PER_HOUR / self.minutes if self.seconds else None

    def add(self, seconds: float | None, is_late: bool) -> None:
        self.decisions += 1
        self.late += is_late
        if seconds:
            self.timed = self.timed + 1
            self.seconds = self.seconds + seconds


@dataclass(frozen=True)
class RewardGap:
    """A rollout on which people and machine disagree; all values from 0 to 1."""

    rollout: Rollout
    people: float
    machine: float

    @property
    def size(self) -> float:
        return abs(self.people - self.machine)


@dataclass(frozen=True)
class HumanMachineAgreement:
    """The agreement of people and machine on rollouts that both have rated.

    The fields are the number of such rollouts, the mean distance, the share of pairs ordered alike,
    and the widest gaps.
    """

    rated_by_both: int = 0
    distance: float | None = None
    same_order: float | None = None
    widest: Sequence[RewardGap] = ()


@dataclass(frozen=True)
class CostBenefit:
    """The cost and benefit of ratings; `people` and `simulated` are sums over their raters.

    `accepted` counts experiences made from rated rollouts, up to `limit`.
    """

    raters: list[TimedDecisions]
    people: TimedDecisions
    simulated: TimedDecisions
    accepted: int
    judged: int
    since: datetime | None
    parting: HumanMachineAgreement = field(default_factory=HumanMachineAgreement)
    rollouts: int = 0
    rated_rollouts: int = 0
    limit: int = MAX_COUNTED

    @property
    def decisions(self) -> int:
        return self.people.decisions + self.simulated.decisions

    @property
    def minutes_each(self) -> float | None:
        """Return people's active minutes per accepted experience.

        None if no time is known, or no experience was accepted.
        """
        return (
            self.people.minutes / self.accepted if self.people.seconds and self.accepted else None
        )

    @property
    def coverage(self) -> float | None:
        """Return the share of the newest steps' rollouts that a person rated."""
        return self.rated_rollouts / self.rollouts if self.rollouts else None


def bought(run: Run, decisions: Sequence[Decision]) -> CostBenefit:
    """Return the cost and benefit of these decisions in force about a run, newest first.

    Eight queries, whatever its size.
    """
    raters: dict[str, TimedDecisions] = {}
    people = TimedDecisions()
    simulated = TimedDecisions(is_simulated=True)
    judged: set[int] = set()
    for decision in decisions:
        for time in (
            raters.setdefault(decision.name, TimedDecisions(decision.name, decision.is_simulated)),
            simulated if decision.is_simulated else people,
        ):
            time.add(decision.seconds, decision.is_late)
        if not decision.is_simulated:
            judged.update(decision.shown)
    rollout_count, rated_count = _coverage(run)
    return CostBenefit(
        raters=sorted(raters.values(), key=lambda time: (time.is_simulated, -time.decisions)),
        people=people,
        simulated=simulated,
        accepted=_count_experiences(run, judged),
        judged=len(judged),
        since=datetime.fromtimestamp(decisions[-1].at, UTC) if decisions else None,
        parting=parting(run.settings, judged),
        rollouts=rollout_count,
        rated_rollouts=rated_count,
    )


def _count_experiences(run: Run, judged: set[int]) -> int:
    """Count the experiences of the rated rollouts.

    With a rater model, which rates the others, all from the first rated rollout to the last count.
    """
    experiences = Experience.objects.usual().filter(run=run, state__in=ACCEPTED)
    if run.settings.people.rater_model is None:
        return experiences.filter(rollout__in=judged)[:MAX_COUNTED].count()
    ends = Rollout.objects.filter(pk__in=judged).aggregate(first=Min("pk"), last=Max("pk"))
    return (
        experiences.filter(rollout__gte=ends["first"], rollout__lte=ends["last"])[
            :MAX_COUNTED
        ].count()
        if judged
        else 0
    )


def _coverage(run: Run) -> tuple[int, int]:
    """Return the number of rollouts in the newest steps, and how many of them a person rated."""
    newest = list(
        TrainStep.objects.filter(run=run, state=TrainStep.State.COMMITTED)
        .order_by("-number")
        .values("pk")[:UPDATES]
    )
    steps = [row["pk"] for row in newest]
    usual = StepItem.objects.filter(step__in=steps, experience__kind=Experience.Kind.USUAL)
    rollout_ids = set(usual.values_list("experience__rollout", flat=True))
    human = Reward.objects.by_people().filter(
        rollout__in=rollout_ids, is_current=True, value__isnull=False
    )
    return len(rollout_ids), human.values("rollout").distinct().count()


def parting(plan: RunConfig, judged: set[int]) -> HumanMachineAgreement:
    """Compare people's ratings of these rollouts with the machine's.

    Without a scorer, the machine's rating is the prediction of the rater model.
    """
    machine, people = _judged_values(plan, judged)
    judged_by_both = sorted(machine.keys() & people.keys())
    if not judged_by_both:
        return HumanMachineAgreement()
    pairs = [(people[pk], machine[pk]) for pk in judged_by_both]
    wide = sorted(judged_by_both, key=lambda pk: -abs(people[pk] - machine[pk]))[:GAPS_SHOWN]
    rollouts = Rollout.objects.select_related("group__task").in_bulk(wide)
    widest = [
        RewardGap(rollouts[pk], people[pk], machine[pk]) for pk in wide if people[pk] != machine[pk]
    ]
    return HumanMachineAgreement(
        len(judged_by_both), fmean(abs(a - b) for a, b in pairs), same_order(pairs), widest
    )


def _judged_values(plan: RunConfig, judged: set[int]) -> tuple[dict[int, float], dict[int, float]]:
    words: dict[int, list[Judgement]] = defaultdict(list)
    human: dict[int, list[Judgement]] = defaultdict(list)
    current = Reward.objects.filter(rollout__in=judged, is_current=True).exclude(
        details__has_key=LATE
    )
    current = current.without_simulated()
    for rollout, source, scorer, value in current.values_list(
        "rollout", "source", "scorer", "value"
    ):
        if source == Reward.Source.HUMAN:
            human[rollout].append(Judgement(scorer, value, is_human=True))
        elif plan.rewards or scorer == RATER_MODEL:
            words[rollout].append(Judgement(scorer, value))
    rows = Rollout.objects.filter(pk__in=words).values_list(
        "pk", "group__task__domain", f"group__task__meta__{JUDGED_BY}"
    )
    kinds = {pk: find_judged_kind(domain, judged_by) for pk, domain, judged_by in rows}
    machine = {pk: _machine(judgements, plan, kinds[pk]) for pk, judgements in words.items()}
    people = {pk: peoples_word(judgements) for pk, judgements in human.items()}
    return _without_missing(machine), _without_missing(people)


def _without_missing(values: Mapping[int, float | None]) -> dict[int, float]:
    return {pk: value for pk, value in values.items() if value is not None}


def _machine(judgements: list[Judgement], plan: RunConfig, kind: Kind) -> float | None:
    """Return the machine's rating from 0 to 1, or None.

    This is the share of what the scorers could give at most; without scorers, the prediction of the
    rater model.
    """
    if not plan.rewards:
        return next(
            (judgement.value for judgement in judgements if judgement.scorer == RATER_MODEL), None
        )
    value = combined(
        [judgement for judgement in judgements if judgement.scorer != RATER_MODEL], plan, kind
    )
    return None if value is None else value / full_reward(plan, kind)


def same_order(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the share of pairs that both rank alike, of those that neither finds equal.

    At most the first 400 rollouts are compared.
    """
    compared = pairs[:400]
    agreeing = 0
    counted = 0
    for n, (people, machine) in enumerate(compared):
        for other_people, other_machine in compared[n + 1 :]:
            if people != other_people and machine != other_machine:
                counted += 1
                agreeing += (people > other_people) == (machine > other_machine)
    return agreeing / counted if counted else None
