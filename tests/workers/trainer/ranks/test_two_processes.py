"""Two processes make the same updates as one: equal losses, metrics and weights."""

from dataclasses import replace

import pytest
import torch

from apps.policies.manifest import verify_folder
from tests.workers.trainer.batches import experts, rows
from tests.workers.trainer.ranks.measuring import course_of, require_alike, weights_of
from workers.trainer import checkpoint, launching
from workers.trainer.batch_queue import Interrupted
from workers.trainer.lessons import rows as lesson_rows
from workers.trainer.spec import Divergence, Experts, Lora, Loss, Objective, ReferenceModel

PPO = Loss("ppo", {"clip_low": 0.2, "clip_high": 0.28})
LORA = Lora(rank=4, alpha=8, target_modules=("q_proj", "v_proj"))
KL = Objective(PPO, kl=Divergence("k3", 0.05))
AVERAGE = Objective(
    PPO, kl=Divergence("k3", 0.05, target=0.01), reference=ReferenceModel("average", decay=0.8)
)
MIX = Objective(PPO, "seq-mean-token-mean", entropy=0.01, experts=Experts(3, 0.3))
SIX = [rows(step) for step in range(1, 7)]
# Fewer rows than planned, tool tokens, and expert rows: one process has rows without loss tokens,
# or none of a kind.
UNEVEN = [[*rows(step, 6, tokens_of_tools=True), *experts(step, 3)] for step in range(1, 7)]
CASES = {
    "all weights": ("ddp", SIX, {}),
    "micro-batches": ("ddp", SIX, {"micro_batch_rows": 2}),
    "KL": ("ddp", SIX, {"objective": KL}),
    "adapters": ("ddp", SIX, {"objective": KL, "lora": LORA, "micro_batch_rows": 4}),
    "experts": ("ddp", UNEVEN, {"objective": MIX, "micro_batch_rows": 4}),
    "an average": ("ddp", SIX, {"objective": AVERAGE}),
    "parts": ("fsdp2", SIX, {}),
    "parts, micro-batches": ("fsdp2", SIX, {"objective": KL, "micro_batch_rows": 2}),
    "parts of adapters": ("fsdp2", SIX, {"objective": KL, "lora": LORA}),
    "parts, experts": ("fsdp2", UNEVEN, {"objective": MIX}),
    "parts of an average": ("fsdp2", SIX, {"objective": AVERAGE, "reset_every": 3}),
}


@pytest.mark.parametrize("name", CASES)
def test_metrics_and_weights_match_those_of_one_process(spec, hosted, in_two, tmp_path, name):
    sharding, batches, fields = CASES[name]
    plan = spec(learning_rate=1e-3, output=tmp_path / "one", **fields)
    wanted = course_of(hosted(plan), batches)
    shared = in_two(replace(plan, output=tmp_path / "two"), sharding)
    require_alike(course_of(hosted(shared), batches), wanted)


def lesson(number: int) -> lesson_rows.Pair:
    chosen, rejected = rows(number, 2)
    answers = [
        lesson_rows.build_lesson_row(chosen.prompt_ids, one.completion_ids)
        for one in (chosen, rejected)
    ]
    return lesson_rows.Pair(*answers, margin=0.5 if number % 2 else None)


def thumb(number: int) -> lesson_rows.JudgedAnswer:
    return lesson_rows.JudgedAnswer(lesson(number).chosen, bool(number % 2))


LESSONS = {
    "dpo": (lesson, Loss("dpo")),
    "kto": (thumb, Loss("kto")),
    "reward_model": (lesson, Loss("bradley_terry")),
}


@pytest.mark.parametrize("sharding", ["ddp", "fsdp2"])
@pytest.mark.parametrize("name", LESSONS)
def test_training_on_lessons_matches_one_process(spec, hosted, in_two, tmp_path, name, sharding):
    make, loss = LESSONS[name]
    batches = [[make(10 * step + number) for number in range(4)] for step in range(6)]
    fields = {"rows_per_step": 4, "micro_batch_rows": 2, "learning_rate": 1e-3}
    plan = spec(objective=Objective(loss), output=tmp_path / "a" / "one", **fields)
    wanted = course_of(hosted(plan, lessons=True), batches)
    shared = in_two(replace(plan, output=tmp_path / "b" / "two"), sharding)
    require_alike(course_of(hosted(shared, lessons=True), batches), wanted)


def test_bfloat16_results_of_two_processes_differ_only_by_rounding(spec, hosted, in_two, tmp_path):
    plan = spec(learning_rate=1e-3, output=tmp_path / "one", precision="bfloat16")
    wanted = course_of(hosted(plan), SIX)
    shared = in_two(replace(plan, output=tmp_path / "two"), "fsdp2")
    require_alike(course_of(hosted(shared), SIX), wanted, close=2e-2)


@pytest.mark.parametrize(("sharding", "lora"), [("ddp", None), ("fsdp2", None), ("fsdp2", LORA)])
def test_run_can_resume_with_another_number_of_processes(
    spec, hosted, in_two, tmp_path, sharding, lora
):
    fields = {"objective": AVERAGE, "lora": lora}
    plan = spec(learning_rate=1e-3, output=tmp_path / "straight", **fields)
    wanted = course_of(hosted(plan), SIX)
    plan = replace(plan, output=tmp_path / "moved")
    reports = []
    newest = None
    for step, here in ((2, in_two(plan, sharding)), (4, plan), (6, in_two(plan, sharding))):
        host = hosted(here, newest)
        reports += [host.update(rows(number), save=number == step) for number in (step - 1, step)]
        newest = checkpoint.checkpoint_folder(plan.output, step)
        checkpoint.verify_checkpoint(newest)
    found = [replace(report, checkpoint=False) for report in reports]
    require_alike(replace(wanted, reports=found, weights=weights_of(host)), wanted)


@pytest.mark.parametrize("sharding", ["ddp", "fsdp2"])
def test_update_that_fails_in_one_process_is_skipped_by_both(spec, hosted, in_two, sharding):
    host = hosted(in_two(spec(), sharding))
    before = weights_of(host)
    *well, last = rows(1)
    broken = replace(last, behaviour_logprobs=(float("nan"),) * len(last.completion_ids))
    assert host.update([*well, broken]).skipped == "the loss is not finite"
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(host).items())
    assert not host.update(rows(2)).skipped


@pytest.mark.parametrize("sharding", ["ddp", "fsdp2"])
def test_interrupted_update_ends_in_both_processes_and_the_checkpoint_is_unchanged(
    spec, hosted, in_two, tmp_path, sharding
):
    plan = in_two(spec(micro_batch_rows=1, learning_rate=1e-3), sharding)
    host = hosted(plan)
    host.update(rows(1))
    before = weights_of(host)
    host.batch_queue.interrupt()
    with pytest.raises(Interrupted):
        host.update(rows(2))
    host.save()
    resumed = hosted(plan, checkpoint.checkpoint_folder(plan.output, 1))
    assert resumed.step == 1
    for name, tensor in weights_of(resumed).items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("lora", [None, LORA])
def test_sharded_weights_are_published_complete(spec, hosted, in_two, tmp_path, lora):
    plan = spec(learning_rate=1e-3, lora=lora, planned_steps=2)  # the second after the last update
    host = hosted(in_two(plan, "fsdp2"))
    for version in (1, 2):
        host.update(rows(version))
        manifest = host.publish(tmp_path / f"v{version}", version, version - 1)
        assert verify_folder(tmp_path / f"v{version}") == manifest
        assert manifest.tensors == host.layout()
        said = host.probe_logprobs(manifest.probe.token_ids)
        assert said == pytest.approx(list(manifest.probe.logprobs), abs=1e-6)


def test_processes_of_one_machine_share_its_threads(spec):
    assert launching.threads_per_rank(spec(threads=5, processes=2)) == 2
    assert launching.threads_per_rank(spec(threads=5, processes=8)) == 1
    elsewhere = spec(threads=5, processes=8, ranks_here=2, rendezvous="trainer-1:29400")
    assert launching.threads_per_rank(elsewhere) == 2
