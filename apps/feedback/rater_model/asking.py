"""Choose the replies to ask people about, in runs with a budget of decisions.

By default they are random rows of different groups. Some of them are audits (always random), some
are asked a second time to measure agreement, some ask for a rewrite, and a part may go to the
groups whose predicted rewards spread most.
"""

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count

from apps.feedback.models import Item, RaterModel, Slot
from apps.feedback.rater_model.learner import RIDGE, means_from
from apps.feedback.rater_model.replies import extract_features_by_rollout, learn_topics, replies
from apps.feedback.rater_model.schedule import most_per_group, read_schedule, schedule_decisions
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.runs.people import COMPARES

Purpose = Item.Purpose
COUNTED = (Purpose.REWARD, Purpose.AUDIT, Purpose.REPEAT, Purpose.REWRITE)
# Slots closed unanswered are asked again elsewhere.
STANDING = (
    Slot.State.OPEN,
    Slot.State.HELD,
    Slot.State.DONE,
)
CANDIDATES = 50  # earlier items from which a repeat is sampled


def build_questions(
    groups: Sequence[Group],
    rollouts: Mapping[int, Sequence[int]],
    rated: Mapping[int, Mapping[int, int]],
) -> list[Item]:
    """Return unsaved items for those of the groups whose run has a schedule.

    `rollouts` and `rated` are keyed by group. A repeat belongs to the group of the item it repeats.
    The number of statements per run is fixed.
    """
    items = []
    for run in {
        group.run_id: group.run for group in groups if group.run.settings.people.schedule
    }.values():
        ours = [group for group in groups if group.run_id == run.pk]
        unrated = {
            group.pk: [r for r in rollouts[group.pk] if r not in rated[group.pk]] for group in ours
        }
        items += _Round(run, ours, unrated).items()
    return items


@dataclass
class _Round:
    """The questions about one run's groups that arrived together."""

    run: Run
    groups: list[Group]
    unrated: dict[int, list[int]]
    counts: Counter = field(init=False)
    repeated: set[int] = field(default_factory=set)
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.plan = self.run.settings
        self.people = self.plan.people
        self.counts = asked_so_far(self.run)
        self.chance = random.Random(f"{self.run.pk} {self.groups[0].pk}")
        for members in self.unrated.values():
            self.chance.shuffle(members)

    def items(self) -> list[Item]:
        came = (
            Group.objects.filter(run=self.run)
            .exclude(state__in=[Group.State.SAMPLING, Group.State.SCORING])
            .count()
        )
        before = came - len(self.groups)
        items = []
        spread_share = read_schedule(self.plan).spread_share
        spread = self._by_spread() if spread_share else list(self.groups)
        room = dict.fromkeys(self.unrated, most_per_group(self.plan))
        for n, group in enumerate(self.groups, start=1):
            target = schedule_decisions(self.plan, before + n)
            for _ in range(target.decisions - self.counts.total()):
                item = self._next(group, spread, room, target.rewrites)
                if item is None:
                    break
                self.counts[item.purpose] += item.overlap
                items.append(item)
        return items

    def _next(
        self, group: Group, spread: list[Group], room: dict[int, int], rewrites: int
    ) -> Item | None:
        counts = self.counts
        model = self.people.rater_model
        assert model is not None  # a schedule needs one
        total = counts.total() + 1
        if counts[Purpose.REWRITE] < rewrites:
            return self._build_item(group, room, Purpose.REWRITE)
        if counts[Purpose.REPEAT] < int(total * model.repeats) and (original := self._original()):
            return Item(
                run=self.run,
                group_id=original.group_id,
                form=original.form,
                purpose=Purpose.REPEAT,
                members=original.members,
                repeats=original,
            )
        if counts[Purpose.AUDIT] < int(total * model.audits):
            return self._build_item(group, room, Purpose.AUDIT)
        if _falls_due(counts[Purpose.REWARD], read_schedule(self.plan).spread_share):
            group = next((g for g in spread if room[g.pk] and self.unrated[g.pk]), group)
        return self._build_item(group, room, Purpose.REWARD)

    def _build_item(self, group: Group, room: dict[int, int], purpose: str) -> Item | None:
        """Return an item about this group; None if it has no more replies to ask about."""
        form = "rewrite" if purpose == Purpose.REWRITE else self.people.form
        count = 1 if form not in COMPARES else 2 if form == "pairwise" else self.people.per_group
        unrated = self.unrated[group.pk]
        if not room[group.pk] or len(unrated) < (1 if form not in COMPARES else 2):
            return None
        members = unrated[:count]
        del unrated[: 1 if form == "pairwise" else count]
        room[group.pk] -= 1
        overlap = 1 if form == "rewrite" else self.people.overlap
        return Item(
            run=self.run,
            group=group,
            form=form,
            purpose=purpose,
            members=sorted(members),
            overlap=overlap,
        )

    def _original(self) -> Item | None:
        """Return a decided item of this run that was not repeated yet, sampled among the newest."""
        decided = Item.objects.filter(
            run=self.run,
            state=Item.State.DONE,
            purpose__in=[Purpose.REWARD, Purpose.AUDIT],
            repeated_by=None,
        )
        newest = list(decided.order_by("-pk")[:CANDIDATES])
        fresh = [item for item in newest if item.pk not in self.repeated]
        if not fresh:
            return None
        original = self.chance.choice(fresh)
        self.repeated.add(original.pk)
        return original

    def _by_spread(self) -> list[Group]:
        """Return the groups ordered by the spread of predicted rewards, the largest first."""
        models = RaterModel.objects.filter(run=self.run, kind=RIDGE).order_by("-number")
        model = models.values_list("coefficients", flat=True).first()
        if not model:
            return list(self.groups)
        features = extract_features_by_rollout(
            replies(itertools.chain(*self.unrated.values())), learn_topics(self.run.taskset_ids)
        )
        means = dict(zip(features, means_from(model, list(features.values())), strict=True))
        width = {
            pk: _width([means[r] for r in members if r in means])
            for pk, members in self.unrated.items()
        }
        return sorted(self.groups, key=lambda group: -width[group.pk])


def asked_so_far(run: Run) -> Counter:
    """Return the number of decisions by purpose.

    It counts decisions that were made, and open requests for others.
    """
    slots = Slot.objects.filter(run=run, state__in=STANDING, item__purpose__in=COUNTED)
    return Counter(dict(slots.values_list("item__purpose").annotate(n=Count("pk"))))


def _falls_due(n: int, share: float) -> bool:
    """Tell whether the decision after n others belongs to this share of all."""
    return int((n + 1) * share + 1e-9) > int(n * share + 1e-9)


def _width(values: Sequence[float]) -> float:
    return max(values) - min(values) if values else 0.0
