"""Rollouts that operators derived from others are tokenized once by the trainer and trained as
expert rows.
"""

from pathlib import Path

import pytest

from apps.buffer.ledger import derived_rollouts_match_their_parents
from apps.buffer.models import Experience, Offspring
from apps.policies.models import Policy
from apps.rewards.scorers import Verdict
from apps.rewards.scoring import Question
from apps.rollouts.models import Rollout
from apps.runs.models import Metric, Run
from apps.tasksets.importing import generate
from tests.workers.trainer import feeding
from tests.workers.trainer.feeding import feed, train_to_the_end
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.trainer import experts

MIX = {"name": "mix", "expert": {"ratio": 0.2, "mu": 0.3, "source": "buffer"}}


@pytest.fixture
def relabelling(tiny_run, project, monkeypatch):
    """Return a function that starts a MIX run over sums (8 usual and 2 expert rows per step) whose
    answers are all wrong: each reaches another value.
    """
    generate(project, "sums", "arithmetic", 64, 0)
    monkeypatch.setattr(feeding, "_verdict", missed)
    plan = {
        "algorithm": MIX,
        "taskset": "sums",
        "rewards": [{"scorer": "arithmetic"}],
        "pipeline": [{"operator": "hindsight"}],
    }
    return lambda **changes: tiny_run(**{**plan, **changes})


def missed(question: Question) -> Verdict:
    left, _ = question.task.prompt[0]["content"].split("+")
    rollout = Rollout.objects.select_related("group").get(pk=question.rollout_ids[0])
    number = rollout.sample_index + 4 * (rollout.group.draw_index % 2)
    return Verdict(number / 10, "another number", {"reached": {"value": int(left) + number}})


def test_run_trains_on_relabelled_answers(relabelling, new_loop, base: Path):
    run = train_to_the_end(new_loop(), relabelling())
    assert (run.state, run.step) == (Run.State.COMPLETED, 6)
    metrics = dict(Metric.objects.filter(run=run, step=6).values_list("name", "value"))
    assert (metrics["expert_rows"], metrics["rows"]) == (2, 10) and metrics["expert_nll"] > 0
    taken = Experience.objects.expert().filter(run=run, uses__gt=0)
    assert taken.exists() and set(taken.values_list("rollout__origin", flat=True)) == {"synthetic"}
    assert not list(derived_rollouts_match_their_parents())
    chat_tokenizer = ChatTokenizer(base)
    for one in Offspring.objects.exclude(rollout=None).select_related(
        "rollout__payload", "of__payload", "task"
    ):
        assert one.rollout.tokens.prompt_ids == tuple(
            chat_tokenizer.encode_prompt(one.task.prompt).token_ids
        )
        assert one.rollout.tokens.completion_ids == one.of.tokens.completion_ids


def test_derived_rollouts_are_admitted_once(relabelling):
    run = relabelling()
    feed(run)
    assert run.claim_trainer("t", 60)
    waiting = Offspring.objects.waiting().count()
    assert waiting == 4 == experts.admit_experts(run, run.fence)
    assert experts.admit_experts(run, run.fence) == 0 == Offspring.objects.waiting().count()


def test_derived_rollouts_longer_than_the_context_are_refused(relabelling, new_loop):
    run = relabelling()
    feed(run)
    Policy.objects.filter(pk=run.policy_id).update(context_tokens=4)
    assert run.claim_trainer("t", 60)
    assert experts.admit_experts(Run.objects.get(pk=run.pk), run.fence) == 0
    refused = set(Offspring.objects.values_list("refused", flat=True))
    assert refused and all(why.endswith("but the policy's context is 4") for why in refused)
    assert not Experience.objects.expert().exists() and not Offspring.objects.waiting().exists()
