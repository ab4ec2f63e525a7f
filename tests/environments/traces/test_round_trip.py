"""Episodes are exported as lines and imported as a run: with the same tokens and rewards, and
usable for training.
"""

import json
import tracemalloc

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from apps.accounts.redacting import Redactor
from apps.buffer.models import Experience, plan_step
from apps.dashboard.reconciliation import CHECKS
from apps.environments.models import Episode, EpisodeTurn
from apps.environments.traces import importing, looking, reading
from apps.environments.traces.exporting import write_trace_lines
from apps.environments.traces.importing import Destination, import_episodes
from apps.environments.traces.looking import BadEpisodes
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout, RolloutPayload
from apps.runs.admission import groups_allowed
from apps.runs.config import ConfigError
from apps.runs.models import Run
from tests.environments.traces.conftest import TOKENS, rollouts_of, spelt_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def imported(played, file_of, project, policy) -> Run:
    return import_episodes(file_of(played), Destination(project, "again", policy)).run


def parsed(run: Run) -> list[dict]:
    return [json.loads(line) for line in write_trace_lines(run)]


def test_exported_line_contains_the_conversation_with_tokens_and_rewards(played):
    line, *_, broken = parsed(played)
    (trace,) = line["traces"]
    roles = [(node["message"]["role"], node["token_ids"], node["mask"]) for node in trace["nodes"]]
    assert roles == [
        ("user", [1, 2, 3], [False] * 3),
        ("assistant", [10, 11], [True] * 2),
        ("user", [20, 21], [False] * 2),
        ("assistant", [12, 13], [True] * 2),
        ("tool", [], []),
    ]
    assert [node["logprobs"] for node in trace["nodes"] if node["sampled"]] == [
        [-0.5, -0.25],
        [-0.125, -2.0],
    ]
    assert trace["rewards"] == {"guess_number": {"score": 1.0, "weight": 1.0}}
    assert (line["ok"], broken["ok"], broken["is_timeout"]) == (True, False, True)
    assert broken["traces"][0]["rewards"] == {"guess_number": None}


def test_personal_data_is_exported_without_its_text_and_tokens(played, file_of, project, policy):
    beside_the_broken_one = EpisodeTurn.objects.filter(number=1).latest("pk")
    EpisodeTurn.objects.filter(pk=beside_the_broken_one.pk).update(
        observation="call +4915112345678"
    )
    redactor = Redactor()
    whole = parsed(played)
    lines = [json.loads(line) for line in write_trace_lines(played, redactor)]
    changed = [
        n for n, (before, after) in enumerate(zip(whole, lines, strict=True)) if before != after
    ]
    [(trace,)] = [lines[n]["traces"] for n in changed]
    text = json.dumps(lines)
    assert (
        "4915112345678" not in text
        and redactor.counts["telephone numbers"] == text.count("[telephone number]") > 0
    )
    assert [(node["token_ids"], node["mask"], node["logprobs"]) for node in trace["nodes"]] == [
        ([], [], [])
    ] * len(trace["nodes"])
    again = import_episodes(file_of(lines=lines), Destination(project, "again", policy)).run
    assert [one.state for one in rollouts_of(again)].count(
        Rollout.State.FINISHED
    ) == 2  # of the three that were


def test_episodes_with_released_arrays_are_exported_without_tokens(played):
    whole = parsed(played)
    RolloutPayload.objects.filter(rollout__run=played).delete()
    played.rollouts.filter(state=Rollout.State.FINISHED).update(arrays_released_at=Now())
    for before, after in zip(whole, parsed(played), strict=True):
        (said,), (kept,) = before["traces"], after["traces"]
        assert [node["message"] for node in kept["nodes"]] == [
            node["message"] for node in said["nodes"]
        ]
        assert not any(node["token_ids"] or node["logprobs"] for node in kept["nodes"])
        assert (after["ok"], kept["rewards"]) == (before["ok"], said["rewards"])
        assert ("arrays_released_at" in kept["info"]["rftweb"]) == before["ok"]


def test_imported_run_exports_the_same_lines(played, imported):
    assert parsed(imported) == parsed(played)


def test_tokens_masks_logprobs_and_rewards_are_equal_after_import(played, imported):
    for before, after in zip(rollouts_of(played), rollouts_of(imported), strict=True):
        assert (after.state, after.text, after.turns, after.stop_reason) == (
            before.state,
            before.text,
            before.turns,
            before.stop_reason,
        )
        if after.state == Rollout.State.FINISHED:
            assert (after.tokens.prompt_ids, after.tokens.completion_ids) == (
                TOKENS.prompt_ids,
                TOKENS.completion_ids,
            )
            assert (after.tokens.logprobs, after.tokens.action_mask) == (
                TOKENS.logprobs,
                TOKENS.action_mask,
            )
    word = Reward.objects.order_by("rollout").values_list("value", "reason")
    assert list(word.filter(rollout__run=imported)) == list(word.filter(rollout__run=played))


def test_imported_run_trains_on_the_file_and_samples_nothing(played, imported):
    experiences = Experience.objects.filter(run=imported)
    assert (
        sorted(experiences.values_list("advantage", flat=True))[0]
        < 0
        < max(experiences.values_list("advantage", flat=True))
    )
    imported.start()
    imported.refresh_from_db()
    assert groups_allowed(imported.pace) == 0
    wrong = [f"{check.name}: {found}" for check in CHECKS for found in check.find()]
    assert [
        found for found in wrong if f"run {played.pk}:" not in found
    ] == []  # the other run has no engine here


def test_training_step_takes_the_imported_experiences(imported):
    imported.start()
    imported.claim_trainer("trainer@test", 60)
    run = Run.objects.get(pk=imported.pk)
    step = plan_step(run, run.fence)
    assert step.items.count() == imported.settings.usual_rows_per_step == 2


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            ("traces", 0, "nodes", 1, "mask"),
            [True],
            "line 2: traces.0.nodes.1.mask: has 1 entries for 2 token_ids",
        ),
        (("traces", 0, "nodes", 1, "logprobs"), [-0.5], "line 2: traces.0.nodes.1.logprobs"),
        (("traces", 0, "nodes", 3, "token_ids"), [1, True], "line 2: traces.0.nodes.3.token_ids.1"),
        (
            ("traces", 0, "nodes", 3, "token_ids"),
            [12, 130],
            "line 2: traces.nodes.token_ids: contain 130",
        ),
        (("traces", 0, "nodes", 3, "parent"), 0, "line 2: traces.0.nodes.3.parent"),
        (("traces", 0, "info", "rftweb", "seed"), "7", "line 2: traces.0.info.rftweb.seed"),
        (("traces", 0, "info", "rftweb", "more"), 1, "line 2: traces.0.info.rftweb.more"),
        (
            ("traces", 0, "info", "rftweb", "tokenizer"),
            "b" * 64,
            "line 2: traces.info.rftweb.tokenizer",
        ),
        (
            ("traces", 0, "info", "rftweb", "turns", 0, "observation"),
            [{"role": "robot", "content": ""}],
            "turns.0",
        ),
        (("traces", 0, "info", "rftweb", "turns", 1, "reward"), 7.0, "line 2: traces.rewards"),
        (("traces",), [], "line 2: traces: contains 0"),
        (("id",), 5, "line 2: id"),
        (("env", "id"), "nowhere", "env.id: the file contains several"),
    ],
)
def test_invalid_line_is_reported_with_its_field_and_nothing_is_stored(
    played, file_of, project, policy, path, value, words
):
    lines = parsed(played)
    *way, last = path
    place = lines[1]
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(BadEpisodes, match=words.replace("[", r"\[")):
        import_episodes(file_of(lines=lines), Destination(project, "again", policy))
    assert Run.objects.count() == 1 and Episode.objects.exclude(run=played).count() == 0


def test_large_file_is_never_held_whole_in_memory(played, project, policy, tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "BYTES_AT_ONCE", 1_000)
    path = tmp_path / "long.jsonl"
    pair = parsed(played)[:2]
    with path.open("w") as stream:
        for number in range(40):
            line = {**pair[number % 2], "id": str(number), "group": {"id": str(number // 2)}}
            line["traces"][0]["info"]["rftweb"]["options"] = {
                "long": f"{number:02}" * 300_000
            }  # keeps the line long
            stream.write(json.dumps(line) + "\n")
    tracemalloc.start()
    try:
        made = import_episodes(path, Destination(project, "again", policy))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (made.episodes, made.groups, made.admitted) == (40, 20, 20)
    assert path.stat().st_size > 20e6 > 2 * most


def test_overlong_line_is_rejected_without_reading_it_whole(project, policy, tmp_path, monkeypatch):
    monkeypatch.setattr(looking, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1000)
    (tmp_path / "bad.jsonl").write_bytes(b"x" * (3 << 20) + b"\n{\n")
    with pytest.raises(BadEpisodes) as refused:
        import_episodes(tmp_path / "bad.jsonl", Destination(project, "again", policy))
    assert [line[:26] for line in str(refused.value).splitlines()] == [
        "line 1: has more than 1000",
        "line 2: is not strict JSON",
    ]


@pytest.mark.parametrize(
    "raw", [b"{", b'{"id": NaN}', b'{"id": "a", "id": "b"}', b"[" * 50, b"", b"\xff"]
)
def test_line_that_is_not_strict_json_is_reported_by_number(project, policy, tmp_path, raw):
    (tmp_path / "bad.jsonl").write_bytes(raw + b"\n")
    with pytest.raises(BadEpisodes, match="line 1: is not strict JSON"):
        import_episodes(tmp_path / "bad.jsonl", Destination(project, "again", policy))


def test_file_without_trainable_groups_is_rejected_with_the_reason(
    played, file_of, project, policy
):
    alone_and_failed = parsed(played)[2:]
    with pytest.raises(BadEpisodes, match="no group can be used for training: "):
        import_episodes(file_of(lines=alone_and_failed), Destination(project, "again", policy))
    assert Run.objects.count() == 1


def test_tokens_of_another_tokenizer_are_rejected(played, file_of, project, policy, tmp_path):
    path = file_of(played)
    spelt_by(policy, tmp_path / "other", "b")
    with pytest.raises(BadEpisodes, match="its tokens have other meanings"):
        import_episodes(path, Destination(project, "again", policy))


def test_configuration_can_be_changed_except_where_the_file_decides(
    played, file_of, project, policy
):
    changes = {"groups_per_step": 1, "algorithm": {"name": "rloo"}}
    run = import_episodes(
        file_of(played), Destination(project, "again", policy, changes=changes)
    ).run
    assert (run.settings.algorithm.name, run.settings.groups_per_step) == ("rloo", 1)
    with pytest.raises(ConfigError, match="policy, environment and rewards"):
        import_episodes(
            file_of(played),
            Destination(project, "more", policy, changes={"rewards": [{"scorer": "sort"}]}),
        )


def test_command_exports_and_imports_episodes_and_prints_the_result(
    played, project, policy, tmp_path, capsys
):
    with (tmp_path / "taken.jsonl").open("w") as stream:
        call_command("episodes", "export", played.slug, stdout=stream)
    call_command("episodes", "import", "lab", str(tmp_path / "taken.jsonl"))
    assert (
        "run taken: 4 episodes in 2 groups; 1 can be used for training, in 1 steps"
        in capsys.readouterr().out
    )
    with pytest.raises(CommandError, match="has a run 'taken'"):
        call_command("episodes", "import", "lab", str(tmp_path / "taken.jsonl"))
