"""Estimates on the page of a new run: time, memory and ratings."""

import json

import pytest
from django.urls import reverse

from apps.dashboard.estimate import estimate_run
from apps.dashboard.people_time import estimate_people_time, most_ratings
from apps.feedback.models import Rating
from apps.policies.models import Policy
from apps.runs.config import RunConfig
from apps.runs.models import Metric, Run
from apps.runs.parsing import parse_config
from apps.tasksets.importing import generate
from tests.dashboard.run_forms import alice_client, lab  # noqa: F401  (fixtures)


def test_time_estimate_scales_the_step_time_of_an_earlier_run(seeded):
    plan = seeded.run.settings
    known = estimate_run(plan, seeded.run.policy)
    twice = estimate_run(
        parse_config({**plan.model_dump(mode="json"), "group_size": 8}), seeded.run.policy
    )
    assert known.like == seeded.run and known.step_s == known.like_s
    assert twice.step_s == pytest.approx(2 * known.step_s) and known.total_s == pytest.approx(
        200 * known.step_s
    )


def test_preference_run_estimate_uses_trainer_time_alone_scaled_by_sequences(seeded):
    run = seeded.run
    Metric.objects.filter(
        run=run, name__in=("step_seconds", "wait_seconds", "starved_people")
    ).delete()
    Metric.record(run, run.step, {"step_seconds": 10.0, "wait_seconds": 6.0, "starved_people": 5.0})
    said = {"policy": run.policy.slug, "taskset": "tone", "steps": 10, "algorithm": {"name": "dpo"}}
    lessons = estimate_run(
        parse_config({**said, "snapshot": {"source": "preferences", "rows": 32}}), run.policy
    )
    assert (
        lessons.step_s == pytest.approx(4.0 * 2 * 32 / run.settings.rows_per_step)
        and not lessons.samples
    )
    assert estimate_run(run.settings, run.policy).step_s == pytest.approx(
        5.0
    )  # sampling is part of it, people are not


def test_run_that_samples_is_not_estimated_from_a_run_on_preferences(seeded):
    run = seeded.run
    plan = run.settings
    lessons = {"steps": 9, "algorithm": {"name": "dpo"}, "snapshot": {"source": "preferences"}}
    lessons = parse_config({"policy": run.policy.slug, "taskset": "tone", **lessons})
    Run.objects.filter(pk=run.pk).update(config=lessons.model_dump(mode="json"))
    assert estimate_run(plan, run.policy).like is None


def test_evaluation_estimate_counts_replies_and_their_sampling_time(alice_client, seeded):
    run = seeded.run
    Metric.objects.filter(run=run, name="explore_tokens_per_s").delete()
    Metric.record(run, run.step, {"explore_tokens_per_s": 100.0})
    said = {
        "policy": run.policy.slug,
        "taskset": "tone",
        "steps": 0,
        "group_size": 4,
        "evaluation": {"tasks": 5},
    }
    found = estimate_run(
        parse_config({**said, "rewards": [{"scorer": "tone"}], "sampling": {"max_tokens": 50}}),
        run.policy,
    )
    assert (found.rows, found.tokens, found.like) == (
        20,
        1_000,
        run,
    ) and found.total_s == pytest.approx(10.0)
    assert (
        "No trainer is needed"
        in alice_client.get(reverse("run-new"), {"preset": "evaluation"}).content.decode()
    )


def test_memory_estimate_is_sixteen_bytes_per_trained_parameter(seeded):
    policy = seeded.run.policy
    said = seeded.run.settings.model_dump(mode="json")
    bare = estimate_run(parse_config({**said, "algorithm": {"name": "grpo", "kl": "none"}}), policy)
    assert (
        bare.trainer == 16 * policy.parameters and not bare.memory.is_whole
    )  # the model's folder does not exist
    assert (
        estimate_run(parse_config({**said, "algorithm": "grpo"}), policy).reference
        == 4 * policy.parameters
    )


def test_page_lists_memory_parts_that_add_up_to_the_estimate(alice_client, lab, seeded, tmp_path):
    config = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    Policy.objects.filter(pk=seeded.run.policy_id).update(folder=str(tmp_path))
    generate(lab, "math-easy", "arithmetic", 4, 0)
    page = alice_client.get(reverse("run-new"), {"preset": "gpu-1.5b-full"})
    estimate = page.context["estimate"]
    assert estimate.on_gpu and estimate.trainer + estimate.explorer == sum(
        part.bytes for part in estimate.memory.parts
    )
    text = page.content.decode()
    assert "Memory by part" in text and "KV cache" in text
    assert estimate.memory.updating < estimate.memory.sampling  # the engine sleeps during an update


def asked(plan: RunConfig, **people: object) -> RunConfig:
    said = plan.model_dump(mode="json")
    sizes = {"group_size": 8, "groups_per_step": 2, "steps": 10}
    return parse_config(
        {**said, **sizes, "people": {**said["people"], "simulated": False, **people}}
    )


@pytest.mark.parametrize(
    ("people", "ratings"),
    [
        ({"per_group": 4}, 80),
        ({"per_group": 4, "overlap": 3}, 240),
        ({"per_group": 4, "form": "ranking"}, 20),
        ({"per_group": 4, "form": "pairwise"}, 80),
        ({"per_group": 4, "form": "pairwise", "pairs": 2}, 40),
        ({"per_group": 4, "rater_model": {}, "schedule": {"decisions": 50}}, 50),
        ({"per_group": 4, "simulated": True}, 0),
        ({"per_group": 0}, 0),
    ],
)
def test_estimate_counts_the_ratings_requested_from_people(seeded, people, ratings):
    assert most_ratings(asked(seeded.run.settings, **people)) == ratings


def test_peoples_time_uses_the_median_rating_time_or_has_no_estimate(lab, seeded):
    plan = asked(seeded.run.settings, per_group=4)
    Rating.objects.all().update(seconds=None)
    before = estimate_people_time(plan, lab)
    assert (before.ratings, before.total_s) == (80, None)
    rating = Rating.objects.filter(form="stars", rater__is_simulated=False).first()
    Rating.objects.filter(pk=rating.pk).update(seconds=12.5)
    after = estimate_people_time(plan, lab)
    assert (after.each_s, after.measured, after.total_s) == (12.5, 1, 1_000)
    assert estimate_people_time(asked(plan, form="thumbs"), lab).each_s is None
    assert estimate_people_time(asked(plan, per_group=0), lab) is None
