"""Copy a run's recorded data into the run that replays it, in the recorded order.

Ratings are those in force when each group was refined: late ones were never trained on, and are not
copied. The copies wait for the refiner, which computes advantages and people's rewards as before.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.db import transaction
from django.db.models import Count, Q
from django.db.models.functions import Now

from apps.accounts.locking import retrying
from apps.buffer.models import Experience, Recorded, StepItem
from apps.buffer.retention import count_deleted_arrays
from apps.buffer.rows import copied_rows
from apps.feedback.experts import expert_experience
from apps.feedback.models import (
    Adjudication,
    ExpertAnswer,
    Item,
    RaterModel,
    Rating,
    RatingReward,
    RolloutBaseNll,
)
from apps.feedback.rater_model.learner import RIDGE
from apps.feedback.rater_model.learning import LearnerState, refit
from apps.feedback.rater_model.predicted_rewards import rewards_by
from apps.lineage.replaying.leaving_out import LeftOut
from apps.rewards.combining import PEOPLE, RATER_MODEL
from apps.rewards.models import RescoredReward, Rescoring, Reward
from apps.rewards.scoring import find_score_source
from apps.rollouts.models import Group, Rollout, RolloutPayload
from apps.rollouts.payload import ArraysReleased
from apps.runs.models import Run, TrainStep

STEPS_AT_ONCE = 50  # steps whose data is copied together
LEFT_OUT = "left out: based on ratings of an excluded person"


@dataclass
class Copied:
    """The numbers of copied rows."""

    groups: int = 0
    rollouts: int = 0
    ratings: int = 0


@retrying
def copy_recorded(run: Run, fence: int) -> Copied:
    """Copy the recorded data of the run's `replay` section, in one transaction.

    The run's row is locked only at the end, because a long run takes minutes to copy, and people
    may pause or stop the new one meanwhile. Nobody else sees the copied rows before the commit.
    Raises StaleFence, and LookupError, including ArraysReleased.
    """
    with run.fenced(fence):
        pass  # a trainer that has lost the run copies nothing
    with transaction.atomic():
        copy = _Copy.of(run)
        source_steps = copy.steps()
        if deleted_count := count_deleted_arrays(
            TrainStep.objects.filter(pk__in=[step.pk for step in source_steps])
        ):
            raise ArraysReleased(
                f"the arrays of {deleted_count} rollouts that {copy.source.slug} learned from"
                " were deleted by retention"
            )
        for steps in _batches(source_steps, STEPS_AT_ONCE):
            copy.bring(steps)
        with run.fenced(fence) as locked:
            Run.objects.filter(pk=locked.pk).update(groups_opened=copy.copied.groups)
    run.refresh_from_db()
    return copy.copied


def _batches(rows: Iterable, size: int) -> Iterator[list]:
    stream = iter(rows)
    while batch := list(islice(stream, size)):
        yield batch


@dataclass
class _Copy:
    """The copying of one run into another, with the id maps, old → new, that several steps need."""

    run: Run
    source: Run
    left_out: LeftOut
    rescoring: Rescoring | None = None
    copied: Copied = field(default_factory=Copied)
    groups: dict[int, int] = field(default_factory=dict)
    experts: dict[int, int] = field(default_factory=dict)  # rollouts
    expert_groups: dict[int, int] = field(default_factory=dict)
    # Rater models by number; the states of those fitted again.
    models: dict[int, LearnerState | None] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> "_Copy":
        plan = run.settings.replay
        assert plan is not None  # the run is a replay
        source = Run.objects.get(project=run.project_id, slug=plan.run)
        new_set = Rescoring.objects.get(run=source, pk=plan.rescoring) if plan.rescoring else None
        return cls(
            run, source, LeftOut.of(source, plan.without_raters, plan.without_tasks), new_set
        )

    def steps(self) -> list[TrainStep]:
        plan = self.run.settings.replay
        assert plan is not None  # the run is a replay
        after = self.source.weight_versions.values_list("step", flat=True).get(version=plan.version)
        steps = self.source.steps.filter(
            state=TrainStep.State.COMMITTED, number__gt=after, number__lte=plan.last_step
        )
        return list(steps.order_by("number"))

    def bring(self, steps: Sequence[TrainStep]) -> None:
        """Copy the data of these steps."""
        items = StepItem.objects.filter(step__in=steps).order_by("step__number", "position")
        rows = list(
            items.values_list(
                "step__number", "experience__kind", "experience__group", "experience__rollout"
            )
        )
        sampled_groups = dict.fromkeys(
            group for _, kind, group, _ in rows if kind == Experience.Kind.USUAL
        )
        # A group may be in several steps.
        groups = self._groups([group for group in sampled_groups if group not in self.groups])
        self.groups |= groups
        rollouts = self._rollouts(groups)
        self._copy_rewards(groups, rollouts)
        self._experts({rollout for _, kind, _, rollout in rows if kind == Experience.Kind.EXPERT})
        self._record(rows, self.groups)

    def _groups(self, ids: list[int]) -> dict[int, int]:
        """Copy the groups of tasks that are kept, in this order; return old id → new id.

        With a new set of rewards, only groups that it judges are copied.
        """
        staying = Group.objects.filter(pk__in=ids).exclude(task__in=self.left_out.tasks)
        if self.rescoring:
            staying = staying.filter(rescored__rescoring=self.rescoring)
        stay = {group.pk: group for group in staying}
        old = [stay[pk] for pk in ids if pk in stay]
        new = Group.objects.bulk_create(
            Group(
                run=self.run,
                draw_index=self.copied.groups + n,
                task_id=group.task_id,
                size=group.size,
                state=Group.State.JUDGED,
                opened_version=group.opened_version,
                sampled_at=group.sampled_at,
                judged_at=Now(),
            )
            for n, group in enumerate(old)
        )
        self.copied.groups += len(new)
        return {before.pk: after.pk for before, after in zip(old, new, strict=True)}

    def _rollouts(self, groups: Mapping[int, int]) -> dict[int, int]:
        """Copy all rollouts of these groups with their tokens.

        Those in which an excluded person intervened are marked unusable.
        """
        self.copied.rollouts += copied_rows(Rollout, "group", groups, run=self.run.pk)
        places = ("group_id", "origin", "sample_index")
        copied_ids = {
            tuple(place): pk
            for pk, *place in Rollout.objects.filter(group__in=groups.values()).values_list(
                "pk", *places
            )
        }
        originals = Rollout.objects.filter(group__in=groups).values_list("pk", *places)
        copies = {
            pk: copied_ids[groups[group], origin, index] for pk, group, origin, index in originals
        }
        copied_rows(RolloutPayload, "rollout", copies)
        copied_rows(RolloutBaseNll, "rollout", copies)
        intervened = [
            copies[pk]
            for pk in self.left_out.interventions.filter(rollout__in=copies).values_list(
                "rollout", flat=True
            )
        ]
        Rollout.objects.filter(pk__in=intervened).update(
            state=Rollout.State.FAILED, stop_reason=LEFT_OUT
        )
        return copies

    # -- recorded text

    def _copy_rewards(self, groups: Mapping[int, int], rollouts: Mapping[int, int]) -> None:
        """Copy the rewards.

        Automatic rewards are copied unchanged, or from the new set. People's are copied without
        those of excluded people. Aggregated ones are copied only if they are unchanged.
        """
        touched = self.left_out.touched(list(groups))
        remade = [
            pk for pk, group in Rollout.objects.filter(group__in=touched).values_list("pk", "group")
        ]
        copied_rows(
            Reward,
            "rollout",
            rollouts,
            "o.by_id IS NULL AND NOT (o.scorer = %s AND o.rollout_id = ANY(%s)) "
            "AND NOT (o.scorer = %s AND coalesce(o.details ->> 'rater_model', '') = ANY(%s)) "
            "AND (o.scorer = ANY(%s) OR NOT %s)",
            [
                PEOPLE,
                remade,
                RATER_MODEL,
                [str(number) for number in self.left_out.tainted_models],
                [PEOPLE, RATER_MODEL],
                self.rescoring is not None,
            ],
        )
        if self.rescoring:
            Reward.objects.bulk_create(
                Reward(
                    rollout_id=rollouts[word.rollout_id],
                    source=find_score_source(word.scorer),
                    **word.copied_fields(),
                )
                for word in RescoredReward.objects.filter(
                    rescoring=self.rescoring, rollout__in=rollouts
                ).order_by("pk")
            )
        self._copy_rater_models(rollouts)
        ratings = self._ratings(groups, rollouts)
        self._rewards_of(ratings, rollouts)
        self._rename_ratings(ratings, rollouts)
        self.copied.ratings += len(ratings)

    def _copy_rater_models(self, rollouts: Mapping[int, int]) -> None:
        """Copy the rater models and their rewards.

        A model that had learned excluded data is fitted without it, and its rewards are predicted
        again.
        """
        rewards = Reward.objects.filter(
            rollout__in=rollouts, scorer=RATER_MODEL, details__has_key="rater_model"
        )
        by_model: dict[int, list[int]] = {}
        for number, rollout in rewards.order_by("pk").values_list(
            "details__rater_model", "rollout"
        ):
            by_model.setdefault(number, []).append(rollouts[rollout])
        new_numbers = [number for number in by_model if number not in self.models]
        originals = {
            model.number: model
            for model in RaterModel.objects.filter(run=self.source, number__in=new_numbers)
        }
        self.models |= {number: self._model(originals[number]) for number in sorted(originals)}
        for number in by_model.keys() & self.left_out.tainted_models:
            usable = Rollout.objects.filter(
                pk__in=by_model[number], state=Rollout.State.FINISHED
            ).values_list("pk", flat=True)
            model = self.models[number]
            assert model is not None  # a tainted one was fitted again
            Reward.objects.bulk_create(rewards_by(model, self.run, list(usable)))

    def _model(self, model: RaterModel) -> LearnerState | None:
        """Save the model in this run; return its state if it was fitted again."""
        model = RaterModel(
            run=self.run,
            number=model.number,
            kind=model.kind,
            decisions=model.decisions,
            last_rating_id=model.last_rating_id,
            coefficients=model.coefficients,
            metrics=model.metrics,
            fitted_at=model.fitted_at,
        )
        state = None
        if model.number in self.left_out.tainted_models:
            # A head that learned excluded data is not retrained: the ridge, fitted without it,
            # replaces it.
            state = refit(
                self.source, self.left_out.left_to_learn(model.last_rating_id), model.number
            )
            model.kind = RIDGE
            model.decisions = state.learner.decisions
            model.metrics = {}
            model.coefficients = state.fitted.coefficients() if state.fitted else {}
        model.save(force_insert=True)
        return state

    def _ratings(self, groups: Mapping[int, int], rollouts: Mapping[int, int]) -> dict[int, int]:
        """Copy the ratings in time of the people who are kept; return old id → new id."""
        ratings = Rating.objects.filter(
            Q(item__group__in=groups) | Q(rollout__in=rollouts), run=self.source, is_late=False
        )
        old = list(ratings.exclude(rater__in=self.left_out.raters).order_by("pk"))
        items = self._items({rating.item_id for rating in old if rating.item_id}, groups, rollouts)
        replaced = {rating.replaces_id for rating in old if rating.replaces_id}
        new = Rating.objects.bulk_create(
            Rating(
                item_id=items.get(rating.item_id) if rating.item_id else None,
                rollout_id=rollouts.get(rating.rollout_id) if rating.rollout_id else None,
                run=self.run,
                rater_id=rating.rater_id,
                form=rating.form,
                answer=replace_rollout_ids(rating.answer, rollouts),
                critique=rating.critique,
                shown=[rollouts[pk] for pk in rating.shown if pk in rollouts],
                client_uuid=uuid.uuid5(rating.client_uuid, str(self.run.pk)),
                is_current=rating.pk not in replaced and not rating.is_withdrawn,
                is_withdrawn=rating.is_withdrawn,
                seconds=rating.seconds,
                first_key_ms=rating.first_key_ms,
                changes=rating.changes,
                at=rating.at,
            )
            for rating in old
        )
        ids = {before.pk: after.pk for before, after in zip(old, new, strict=True)}
        self._link_replaced(old, new, ids)
        self._adjudications(ids, items)
        return ids

    def _link_replaced(
        self, old: Sequence[Rating], new: Sequence[Rating], ids: Mapping[int, int]
    ) -> None:
        """Let each copy replace the copy of the rating that its original replaced."""
        linked = []
        for before, after in zip(old, new, strict=True):
            replaced = before.replaces_id
            if replaced is not None and replaced in ids:
                after.replaces_id = ids[replaced]
                linked.append(after)
        Rating.objects.bulk_update(linked, ["replaces"], batch_size=1_000)

    def _adjudications(self, ratings: Mapping[int, int], items: Mapping[int, int]) -> None:
        """Copy the adjudications that these ratings decided."""
        rows = Adjudication.objects.filter(rating__in=ratings).values_list("rating", "item", "at")
        Adjudication.objects.bulk_create(
            Adjudication(rating_id=ratings[rating], item_id=items[item], at=at)
            for rating, item, at in rows
            if item in items
        )

    def _items(
        self, ids: set[int], groups: Mapping[int, int], rollouts: Mapping[int, int]
    ) -> dict[int, int]:
        old = list(Item.objects.filter(pk__in=ids, group__in=groups).order_by("pk"))
        new = Item.objects.bulk_create(
            Item(
                run=self.run,
                group_id=groups[item.group_id],
                form=item.form,
                purpose=item.purpose,
                members=[rollouts[pk] for pk in item.members if pk in rollouts],
                overlap=item.overlap,
                version=item.version,
                expected=item.expected,
                explanation=item.explanation,
                state=Item.State.CLOSED,
                opened_at=item.opened_at,
            )
            for item in old
        )
        return {before.pk: after.pk for before, after in zip(old, new, strict=True)}

    def _rewards_of(self, ratings: Mapping[int, int], rollouts: Mapping[int, int]) -> None:
        """Copy the rewards that these ratings made.

        Of the rewards by one person and one scorer, the last that was not withdrawn is current.
        """
        ties = (
            RatingReward.objects.filter(rating__in=ratings)
            .select_related("reward")
            .order_by("reward")
        )
        old = [(tie.rating_id, tie.reward) for tie in ties if tie.reward.rollout_id in rollouts]
        standing = set(
            Rating.objects.filter(pk__in=ratings.values(), is_current=True).values_list(
                "pk", flat=True
            )
        )
        last = {_reward_key(reward): reward.pk for _, reward in old}
        new = Reward.objects.bulk_create(
            Reward(
                rollout_id=rollouts[reward.rollout_id],
                source=reward.source,
                scorer=reward.scorer,
                value=reward.value,
                version=reward.version,
                options=reward.options,
                seconds=reward.seconds,
                uncertainty=reward.uncertainty,
                reason=reward.reason,
                details=replace_rollout_ids(reward.details, rollouts),
                by_id=reward.by_id,
                is_current=last[_reward_key(reward)] == reward.pk and ratings[rating] in standing,
            )
            for rating, reward in old
        )
        RatingReward.objects.bulk_create(
            RatingReward(rating_id=ratings[rating], reward=reward)
            for (rating, _), reward in zip(old, new, strict=True)
        )

    def _rename_ratings(self, ratings: Mapping[int, int], rollouts: Mapping[int, int]) -> None:
        """Replace the rating ids in people's rewards by those of the copies."""
        rewards = list(Reward.objects.filter(rollout__in=rollouts.values(), scorer=PEOPLE, by=None))
        for reward in rewards:
            reward.details["ratings"] = [ratings[pk] for pk in reward.details["ratings"]]
        Reward.objects.bulk_update(rewards, ["details"], batch_size=1_000)

    # -- experts

    def _experts(self, rollouts: set[int]) -> None:
        """Copy the experts' answers that these steps took.

        Answers by excluded people or about excluded tasks are left out.
        """
        excluded_answers = self.left_out.demonstrations.values("pk")
        uncopied_answers = ExpertAnswer.objects.filter(
            rollout__in=rollouts - self.experts.keys(), run=self.source
        )
        answers = list(
            uncopied_answers.exclude(demonstration__in=excluded_answers)
            .select_related("rollout__group")
            .order_by("rollout")
        )
        self._expert_groups(answers)
        made_of = Rollout.objects.filter(
            group__in=self.expert_groups.values(), origin=Rollout.Origin.EXPERT
        )
        places = dict(made_of.values_list("group").annotate(n=Count("pk")))
        expert_rollouts = []
        for answer in answers:
            group = self.expert_groups[answer.rollout.group_id]
            expert_rollouts.append(self._expert(answer.rollout, group, places.get(group, 0)))
            places[group] = places.get(group, 0) + 1
        Rollout.objects.bulk_create(expert_rollouts)
        pairs = list(zip(answers, expert_rollouts, strict=True))
        copied_rows(
            RolloutPayload, "rollout", {answer.rollout_id: rollout.pk for answer, rollout in pairs}
        )
        ExpertAnswer.objects.bulk_create(
            ExpertAnswer(demonstration_id=answer.demonstration_id, run=self.run, rollout=rollout)
            for answer, rollout in pairs
        )
        Experience.objects.bulk_create(expert_experience(rollout) for rollout in expert_rollouts)
        self.experts |= {answer.rollout_id: rollout.pk for answer, rollout in pairs}

    def _expert_groups(self, answers: Sequence[ExpertAnswer]) -> None:
        """Create the groups of these answers that are not copied yet."""
        groups = {
            answer.rollout.group_id: answer.rollout.group
            for answer in answers
            if answer.rollout.group_id not in self.expert_groups
        }
        new_groups = Group.objects.bulk_create(
            Group(
                run=self.run,
                task_id=group.task_id,
                size=0,
                state=Group.State.ADMITTED,
                opened_version=0,
                sampled_at=Now(),
                closed_at=Now(),
            )
            for group in groups.values()
        )
        self.expert_groups |= {
            before: after.pk for before, after in zip(groups, new_groups, strict=True)
        }

    def _expert(self, rollout: Rollout, group: int, place: int) -> Rollout:
        return Rollout(
            run=self.run,
            group_id=group,
            sample_index=place,
            origin=Rollout.Origin.EXPERT,
            state=Rollout.State.FINISHED,
            text=rollout.text,
            stop_reason=rollout.stop_reason,
            prompt_tokens=rollout.prompt_tokens,
            completion_tokens=rollout.completion_tokens,
            finished_at=rollout.finished_at,
        )

    # -- assignment to steps

    def _record(self, rows: Sequence[tuple[int, str, int, int]], groups: Mapping[int, int]) -> None:
        """Save the recorded batches from `rows`: (step, kind, group, rollout), in order."""
        keys: dict[tuple[int, int, int | None], None] = {}
        for step, kind, group, rollout in rows:
            if kind == Experience.Kind.EXPERT:
                if rollout in self.experts:
                    keys[step, group, rollout] = None
            elif group in groups:
                keys[step, group, None] = None
        places: dict[int, int] = {}
        recorded = []
        for step, group, expert in keys:
            place = places.setdefault(step, 0)
            places[step] += 1
            recorded.append(
                Recorded(
                    run=self.run,
                    recorded_step=step,
                    place=place,
                    of_id=group,
                    expert_id=expert and self.experts[expert],
                    group_id=groups[group] if expert is None else self.expert_groups[group],
                )
            )
        Recorded.objects.bulk_create(recorded)


def _reward_key(reward: Reward) -> tuple[int, str, int | None]:
    """Return the key of a reward (rollout, scorer, author), for which one reward is current."""
    return reward.rollout_id, reward.scorer, reward.by_id


def replace_rollout_ids(answer: dict, rollouts: Mapping[int, int]) -> dict:
    """Return an answer with the rollout ids replaced by those of the copies."""
    replaced = dict(answer)
    if isinstance(ranks := answer.get("ranks"), dict):
        replaced["ranks"] = {
            str(rollouts[int(pk)]): rank for pk, rank in ranks.items() if int(pk) in rollouts
        }
    for place in ("best", "worst"):
        if answer.get(place) in rollouts:
            replaced[place] = rollouts[answer[place]]
    return replaced
