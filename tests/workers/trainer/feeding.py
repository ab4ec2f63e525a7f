"""Experiences created through the real pipeline, with random replies instead of an engine's; equal
draws give equal experiences.
"""

import random

from apps.pipelines.refining import refine
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import AnsweredQuestion, Question, open_questions, record_verdicts
from apps.rollouts.models import Group, Outcome, Rollout
from apps.rollouts.payload import Tokens
from apps.runs.models import Run
from workers.trainer.loop import TrainerLoop

LEASE = 60


def feed(run: Run, groups: int | None = None, version: int | None = None) -> int:
    """Open, sample, score and admit as many groups as the run may open; return their number."""
    run.refresh_from_db()
    opened = Group.open(
        run, "explorer", LEASE, groups or run.settings.groups_per_step, run.published_version
    )
    rollouts = Rollout.objects.filter(group__in=opened).select_related("group")
    outcomes = [
        Outcome(
            rollout.pk,
            _tokens(rollout, rollout.group.opened_version if version is None else version),
            "12345",
            "stop",
        )
        for rollout in rollouts
    ]
    Group.finish_rollouts({group.pk: group.claimed for group in opened}, outcomes)
    scored = Group.objects.claim(Group.State.SCORING, "scorer", LEASE, 1000, run)
    record_verdicts(
        scored,
        [AnsweredQuestion(question, [_verdict(question)]) for question in open_questions(scored)],
    )
    refine(Group.objects.claim(Group.State.JUDGED, "refiner", LEASE, 1000, run))
    return len(opened)


def train_to_the_end(loop: TrainerLoop, run: Run, turns: int = 40) -> Run:
    """Feed and serve until the run has ended."""
    for _ in range(turns):
        run.refresh_from_db()
        if not run.is_live:
            return run
        feed(run)
        loop.serve()
    raise AssertionError(
        f"{run} is at step {run.step} after {turns} turns, waiting for {run.waiting_on!r}"
    )


def _verdict(question: Question) -> Verdict:
    rollout = Rollout.objects.select_related("group").get(pk=question.rollout_ids[0])
    return Verdict(
        random.Random(f"{rollout.group.draw_index}/{rollout.sample_index}").random(), "", {}
    )


def _tokens(rollout: Rollout, version: int) -> Tokens:
    draw = random.Random(f"{rollout.group.draw_index}:{rollout.sample_index}")
    length = draw.randint(2, 6)
    return Tokens(
        prompt_ids=tuple(draw.randrange(6, 20) for _ in range(4)),
        completion_ids=tuple(draw.randrange(6, 20) for _ in range(length)),
        logprobs=tuple(-3.0 + draw.gauss(0, 0.3) for _ in range(length)),
        action_mask=(1,) * length,
        segments=((0, version),),
    )
