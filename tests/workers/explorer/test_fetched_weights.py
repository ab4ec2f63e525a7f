"""An explorer without the shared folder fetches its weights from a real web process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.policies.manifest import seal_folder
from apps.rollouts.models import Chat, ChatTurn, Rollout
from apps.runs.models import Acknowledgement, Run, WeightVersion, Worker
from tests.web_process import WebProcess
from tests.weight_folders import PROBE
from workers import weight_folders
from workers.explorer import chats, loop
from workers.trainer.metrics import describe_missing_groups

SECRET = "s" * 32


@pytest.fixture
def publisher(transactional_db, monkeypatch) -> Iterator[WebProcess]:
    monkeypatch.setenv("RFTWEB_WEIGHTS_SECRET", SECRET)
    process = WebProcess()
    process.start()
    yield process
    process.end()


@pytest.fixture
def cache(publisher, settings, tmp_path, monkeypatch) -> Iterator[Path]:
    """Return the folder where this machine keeps fetched weights."""
    settings.WEIGHTS_URL = publisher.address
    settings.WEIGHTS_SECRET = SECRET
    settings.WEIGHTS_ROOT = tmp_path / "elsewhere"
    monkeypatch.setattr(weight_folders, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(chats, "ELSEWHERE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "REPORT_SECONDS", 0.0)
    yield settings.WEIGHTS_ROOT / "fetched"
    weight_folders.stop_fetching()


def words_of(run: Run) -> str:
    return Worker.objects.get(key="explorer@test").for_runs.get(str(run.pk), "")


def served_until(stage, look: Callable[[], object]) -> object:
    """Serve the explorer until `look` finds something, and return it."""

    def turn() -> object:
        stage.explorer.serve()
        return look()

    return stage.eventually(turn, 120)


def seated(stage) -> None:
    served_until(stage, lambda: stage.explorer.sessions)


def test_rollouts_are_sampled_from_fetched_weights_and_acknowledged(cache, stage, watched_run):
    seated(stage)
    word = Acknowledgement.objects.get(weight_version__run=watched_run)
    assert word.fingerprint == watched_run.policy.fingerprint
    tokenizer = Path(stage.session.chat_tokenizer.tokenizer.name_or_path)
    assert tokenizer.parent == cache
    assert tokenizer.name == f"policies-{watched_run.policy_id}-{word.fingerprint}"
    sampled = Rollout.objects.filter(group__run=watched_run, state="finished")
    served_until(stage, sampled.exists)


def test_wrong_secret_is_shown_with_the_run_and_the_worker(cache, stage, watched_run, settings):
    settings.WEIGHTS_SECRET = "t" * 32

    def told() -> str:
        stage.explorer.serve()
        words = words_of(watched_run)
        return words if "RFTWEB_WEIGHTS_SECRET" in words else ""

    words = stage.eventually(told, 60)
    assert words.startswith("waiting for weights: policy tiny: the publisher rejected the request")
    assert words in describe_missing_groups(watched_run)
    assert not cache.exists() and not stage.explorer.sessions
    watched_run.refresh_from_db()
    assert watched_run.state == Run.State.RUNNING
    settings.WEIGHTS_SECRET = SECRET
    seated(stage)
    assert words_of(watched_run) != words


def test_locally_damaged_folder_is_fetched_again_and_its_version_stays_published(
    cache, stage, watched_run
):
    version = watched_run.weight_versions.get()
    weight_folders.describe_missing_weights(watched_run, version)
    here = stage.eventually(
        lambda: not weight_folders.describe_missing_weights(watched_run, version) and cache, 60
    )
    [model] = here.glob("versions-*/model.safetensors")
    data = model.read_bytes()
    model.unlink()  # other folders link to the same file
    model.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    acknowledged = Acknowledgement.objects.filter(weight_version=version)
    served_until(stage, acknowledged.exists)
    version.refresh_from_db()
    assert version.state == WeightVersion.State.PUBLISHED
    assert model.read_bytes() == data


def test_version_with_intact_files_that_fails_its_probe_is_refused(
    cache, stage, watched_run, tmp_path
):
    """The files match their manifest, but no engine can load them."""
    unfinished = tmp_path / "broken.tmp"
    unfinished.mkdir()
    version = watched_run.weight_versions.get()
    for file in Path(version.folder).iterdir():
        if file.name != "manifest.json":
            (unfinished / file.name).write_bytes(file.read_bytes())
    manifest = seal_folder(unfinished, tmp_path / "broken", 0, None, PROBE)  # of another probe
    assert manifest.fingerprint == version.fingerprint
    WeightVersion.objects.filter(pk=version.pk).update(folder=str(tmp_path / "broken"))

    def refused() -> bool:
        stage.explorer.serve()
        version.refresh_from_db()
        return version.state == WeightVersion.State.REFUSED

    stage.eventually(refused, 120)
    watched_run.refresh_from_db()
    assert watched_run.state == Run.State.PAUSED


def asked(run: Run, by) -> ChatTurn:
    chat = Chat.objects.create(weight_version=run.weight_versions.get(), by=by)
    return chat.ask([{"role": "user", "content": "31425"}], temperature=1.0, max_tokens=12)


def test_a_chat_is_answered_from_fetched_weights(cache, stage, watched_run, alice):
    watched_run.pause()
    turn = asked(watched_run, alice)

    def answered() -> bool:
        stage.explorer.serve()
        turn.refresh_from_db()
        return turn.state == ChatTurn.State.DONE

    stage.eventually(answered, 120)
    assert list(cache.glob("versions-*/model.safetensors"))


def test_prompt_to_a_model_is_answered_from_its_fetched_folder(cache, stage, tiny_policy, alice):
    prompt = [{"role": "user", "content": "31425"}]
    chat = Chat.try_prompt(tiny_policy, alice, prompt, temperature=1.0, max_tokens=12)

    def answered() -> bool:
        stage.explorer.serve()
        return chat.turns.get().state == ChatTurn.State.DONE

    stage.eventually(answered, 120)
    assert list(cache.glob("policies-*/model.safetensors"))


def test_chat_without_access_to_weights_fails_with_the_reason(
    cache, stage, watched_run, alice, settings
):
    settings.WEIGHTS_SECRET = "t" * 32
    watched_run.pause()
    turn = asked(watched_run, alice)

    def failed() -> str:
        stage.explorer.serve()
        turn.refresh_from_db()
        return turn.reason if turn.state == ChatTurn.State.FAILED else ""

    assert "RFTWEB_WEIGHTS_SECRET" in stage.eventually(failed, 60)
