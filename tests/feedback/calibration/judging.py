"""Runs whose replies have rewards from a scorer and from people, as many as a test needs."""

import itertools
import uuid
from collections.abc import Sequence

from apps.accounts.models import User
from apps.feedback.models import Rating
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run

numbers = itertools.count(1)


def said_by(rater: User, rollout: int, run: Run, stars: int, **more: object) -> Rating:
    """Create a current rating, as the queue would have written it."""
    return Rating.objects.create(
        run=run,
        rollout_id=rollout,
        rater=rater,
        form="stars",
        answer={"stars": stars},
        shown=[rollout],
        client_uuid=uuid.uuid4(),
        **more,
    )


def both_judge(
    run: Run,
    rater: User,
    pairs: Sequence[tuple[float, int]],
    scorer: str = "sort",
    tokens: Sequence[int] = (5,),
) -> list[int]:
    """Create finished replies, two per group, from pairs of (scorer's value, people's stars).

    Write all rows in bulk; return the ids of the replies.
    """
    tasks = list(run.taskset.tasks.order_by("index"))
    size = (len(pairs) + 1) // 2
    groups = Group.objects.bulk_create(
        Group(
            run=run,
            draw_index=10_000 + next(numbers),
            task=tasks[n % len(tasks)],
            size=2,
            opened_version=0,
            state="waiting",
        )
        for n in range(size)
    )
    rollouts = Rollout.objects.bulk_create(
        Rollout(
            run=run,
            group=groups[n // 2],
            sample_index=n % 2,
            state="finished",
            text=f"reply {n}",
            completion_tokens=tokens[n % len(tokens)],
        )
        for n in range(len(pairs))
    )
    Reward.objects.bulk_create(
        Reward(rollout=rollout, source="rule", scorer=scorer, value=value)
        for rollout, (value, _) in zip(rollouts, pairs, strict=True)
    )
    Rating.objects.bulk_create(
        Rating(
            run=run,
            rollout=rollout,
            rater=rater,
            form="stars",
            answer={"stars": stars},
            shown=[rollout.pk],
            client_uuid=uuid.uuid4(),
        )
        for rollout, (_, stars) in zip(rollouts, pairs, strict=True)
    )
    return [rollout.pk for rollout in rollouts]
