"""Users chat with a version: a real engine answers, next to the runs and in turn with them."""

import pytest

from apps.rollouts.models import Chat, ChatTurn, Comparison, Rollout
from apps.rollouts.models.chats import ChatSubject
from apps.runs.model_use import delete_model
from apps.runs.models import NotPossible, Run, WeightVersion, Worker
from apps.runs.parsing import parse_config
from workers import gpu_turns
from workers.explorer import chats as chatting
from workers.explorer import loop as loop_module
from workers.explorer.chat_session import ChatSession
from workers.explorer.chat_weights import ChatWeights, find_chat_weights
from workers.explorer.job import somebody_chats
from workers.explorer.loop import ExplorerLoop

SORT = [{"role": "user", "content": "31425"}]


@pytest.fixture
def versions(watched_run, new_run) -> tuple[WeightVersion, WeightVersion]:
    """Return version 0 of two paused runs of one policy, so that nothing else is sampled."""
    other = new_run(engine="transformers")
    for run in (watched_run, other):
        run.pause()
    return watched_run.weight_versions.get(), other.weight_versions.get()


@pytest.fixture
def explorers(transactional_db):
    """Return a function that creates explorers; all are stopped at the end."""
    made: list[ExplorerLoop] = []

    def make() -> ExplorerLoop:
        key = f"explorer@chat:{len(made)}"
        made.append(
            ExplorerLoop(
                Worker.objects.create(
                    key=key, role=Worker.Role.EXPLORER, host="test", pid=len(made) + 1
                )
            )
        )
        return made[-1]

    yield make
    for explorer in made:
        explorer.stop()


@pytest.fixture
def explorer(explorers) -> ExplorerLoop:
    return explorers()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(chatting, "ELSEWHERE_SECONDS", 0.0)


def asked(version: WeightVersion, by, system: str = "", **knobs: object) -> tuple[Chat, ChatTurn]:
    chat = Chat.objects.create(weight_version=version, by=by, system=system)
    return chat, chat.ask(SORT, **{"temperature": 1.0, "max_tokens": 12, **knobs})


@pytest.fixture
def answered(explorer, eventually):
    def wait(turn: ChatTurn) -> ChatTurn:
        def look() -> bool:
            explorer.serve()
            turn.refresh_from_db()
            return not turn.is_open

        eventually(look, 300)
        return turn

    return wait


def test_version_answers_a_chat_while_its_run_is_paused(versions, alice, answered, explorer):
    _, turn = asked(versions[0], alice)
    answered(turn)
    assert (turn.state, turn.reason) == ("done", "")
    assert turn.stop_reason in ("stop", "length")
    assert 0 < turn.tokens <= 12
    assert turn.worker == explorer.worker
    assert turn.requested_at <= turn.begun_at <= turn.ended_at
    assert not Rollout.objects.exists()


def test_turns_that_a_dead_engine_cannot_take_fail_with_the_reason(
    versions, alice, answered, explorer, eventually
):
    answered(asked(versions[0], alice)[1])
    [session] = explorer.chats.sessions.values()
    session.engine.stop()
    for _ in range(2):
        asked(versions[0], alice)

    def has_failed() -> bool:
        explorer.serve()
        return ChatTurn.objects.filter(state="failed", reason__contains="engine").count() == 2

    eventually(has_failed, 20)


@pytest.fixture
def shared_gpu(settings, tmp_path, monkeypatch, versions) -> gpu_turns.GpuTurn:
    """Return another process's turn on the GPU that both runs share with their trainers."""
    settings.VAR = tmp_path
    monkeypatch.setattr(gpu_turns, "visible_gpus", lambda: ["GPU-test"])
    for version in versions:
        plan = {**version.run.config, "engine": "auto", "max_staleness": 0}
        config = parse_config({**plan, "vllm": {"sleep_level": 1}}).model_dump(mode="json")
        Run.objects.filter(pk=version.run_id).update(config=config)
    return gpu_turns.GpuTurn(["GPU-test"], tmp_path / "run" / "gpu")


def test_chat_waits_for_the_trainer_on_its_gpu_and_soon_gives_it_back(
    versions, alice, answered, explorer, shared_gpu, monkeypatch, eventually
):
    shared_gpu.take()
    _, turn = asked(versions[0], alice)
    explorer.serve()
    [session] = explorer.chats.sessions.values()
    assert not session.is_ready and not session.gpu.is_held
    shared_gpu.give_back()
    assert answered(turn).state == "done"
    assert not shared_gpu.take()
    monkeypatch.setattr(chatting, "IN_TURN_SECONDS", 0.0)
    eventually(lambda: explorer.serve() or shared_gpu.take(), 60)
    assert not explorer.chats.sessions


def test_stopped_explorer_gives_up_the_gpu_that_a_chat_waits_for(
    versions, alice, explorer, shared_gpu, eventually
):
    shared_gpu.take()
    asked(versions[0], alice)
    explorer.serve()
    [session] = explorer.chats.sessions.values()
    explorer.chats.stop()
    shared_gpu.give_back()
    eventually(lambda: session.loading.done() and shared_gpu.take(), 60)


def test_equal_seeds_give_equal_answers_and_low_temperature_removes_variation(
    versions, alice, answered
):
    said = [answered(asked(versions[0], alice, seed=5)[1]).reply for _ in range(2)]
    assert said[0] == said[1]
    cold = {
        answered(asked(versions[0], alice, seed=seed, temperature=0.01)[1]).reply
        for seed in (1, 2, 3)
    }
    assert len(cold) == 1


def test_second_question_includes_the_earlier_conversation(versions, alice, answered):
    chat, turn = asked(versions[0], alice, system="12")
    first = answered(turn)
    second = chat.ask([{"role": "user", "content": "54321"}], 1.0, 8)
    assert second.messages == [
        {"role": "system", "content": "12"},
        *SORT,
        {"role": "assistant", "content": first.reply},
        {"role": "user", "content": "54321"},
    ]
    assert answered(second).state == "done"


def test_regenerated_answer_replaces_the_earlier_one(versions, alice, answered):
    chat, turn = asked(versions[0], alice)
    answered(turn)
    again = answered(chat.ask_again(1.0, 12))
    turn.refresh_from_db()
    assert (turn.is_replaced, list(chat.current_turns)) == (True, [again])


def test_no_question_is_accepted_while_an_answer_is_open(versions, alice):
    chat, turn = asked(versions[0], alice)
    with pytest.raises(NotPossible, match="still being generated"):
        chat.ask(SORT, 1.0, 8)
    with pytest.raises(NotPossible, match="no finished reply"):
        chat.ask_again(1.0, 8)
    turn.wish_to_stop()
    turn.refresh_from_db()
    assert turn.state == "stopped"


def test_stopped_answer_keeps_its_text(versions, alice, explorer, eventually):
    _, turn = asked(versions[0], alice, max_tokens=12)
    eventually(
        lambda: explorer.serve() and next(iter(explorer.chats.sessions.values())).is_ready, 300
    )
    [session] = explorer.chats.sessions.values()
    turn.refresh_from_db()
    if turn.is_open:
        turn.wish_to_stop()
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 60)
    turn.refresh_from_db()
    assert (turn.state, turn.stop_reason) in (
        ("stopped", "abort"),
        ("done", "stop"),
        ("done", "length"),
    )
    assert session.is_idle


def test_turn_that_was_not_started_is_stopped_without_an_engine(versions, alice, explorer):
    _, turn = asked(versions[0], alice)
    weights = ChatWeights.of_version(versions[0])
    turns = ChatTurn.objects.claim(weights.subject, "explorer@test", 60, explorer.worker)
    session = ChatSession(weights, turns=turns)
    turn.wish_to_stop()
    turn.refresh_from_db()
    assert (turn.state, turn.stop_wanted) == ("loading", True)
    session.stop_those({turn.pk})
    turn.refresh_from_db()
    assert (turn.state, turn.reply) == ("stopped", "")


def test_too_long_conversation_fails_with_the_reason(versions, alice, answered):
    chat = Chat.objects.create(weight_version=versions[0], by=alice)
    turn = answered(chat.ask([{"role": "user", "content": "1" * 500}], 1.0, 8))
    assert turn.state == "failed"
    assert turn.reason.startswith("the conversation exceeds the policy")


def test_missing_weights_fail_the_answer_with_the_reason(versions, alice, answered, tmp_path):
    WeightVersion.objects.filter(pk=versions[0].pk).update(folder=str(tmp_path / "gone"))
    turn = answered(asked(versions[0], alice)[1])
    assert turn.state == "failed"
    assert "cannot be loaded" in turn.reason


def test_retired_version_refuses_chats(versions, alice):
    WeightVersion.objects.filter(pk=versions[0].pk).update(state="retired")
    with pytest.raises(NotPossible, match="is retired"):
        asked(versions[0], alice)


def test_worker_with_one_engine_answers_chats_of_two_versions_in_turn(
    settings, versions, alice, answered, explorer
):
    settings.ENGINES_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    first, second = (asked(version, alice)[1] for version in versions)
    assert answered(first).state == answered(second).state == "done"
    assert list(explorer.chats.sessions) == [ChatSubject(versions[1].pk, None)]


def test_run_releases_its_engine_for_a_waiting_chat(
    settings, new_run, tiny_policy, alice, answered, explorer, eventually, monkeypatch
):
    settings.ENGINES_PER_WORKER = 1
    settings.RESIDENT_MEMORY_MB = 0
    settings.ENGINE_TURN_SECONDS = 1
    monkeypatch.setattr(chatting, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 0.0)
    plan = {"engine": "transformers", "sampling": {"max_tokens": 8}}
    greedy = new_run(**plan, max_staleness=1000, steps=100_000)  # always has something to sample
    other = new_run(**plan)
    other.pause()
    eventually(lambda: explorer.serve() is not None and explorer.sessions, 300)
    turn = answered(asked(other.weight_versions.get(), alice)[1])
    assert turn.state == "done"
    eventually(lambda: explorer.serve() is not None and explorer.sessions, 300)  # the run continues
    assert not explorer.chats.sessions
    assert Run.objects.get(pk=greedy.pk).state == "running"


def test_turn_of_a_dead_explorer_is_answered_by_another(versions, alice, explorer, answered):
    _, turn = asked(versions[0], alice)
    subject = ChatSubject(versions[0].pk, None)
    [lost] = ChatTurn.objects.claim(subject, "explorer@gone", 60, explorer.worker)
    assert not ChatTurn.objects.claim(subject, "explorer@late", 60, explorer.worker)
    ChatTurn.objects.filter(pk=turn.pk).update(lease_until="2000-01-01T00:00Z")
    assert answered(turn).state == "done"
    assert not lost.write("from the grave", 3)
    assert not lost.end("done", "from the grave")


def test_turn_fails_after_three_explorers_died(versions, alice, answered):
    _, turn = asked(versions[0], alice)
    ChatTurn.objects.filter(pk=turn.pk).update(attempts=3)
    assert answered(turn).reason == "3 explorers stopped while writing the reply"


def test_stopped_explorer_leaves_its_turns_to_others(versions, alice, explorers, answered):
    leaving = explorers()
    held: list[ChatTurn] = []
    while not held:  # a fast machine may answer them all in one round
        turns = [asked(versions[0], alice, seed=seed)[1] for seed in range(16)]
        leaving.chats.looked_at = 0.0  # it claims them in this round
        leaving.serve()
        assert leaving.chats.sessions
        held = [
            turn
            for turn in ChatTurn.objects.filter(pk__in=[turn.pk for turn in turns])
            if turn.is_open
        ]
    leaving.stop()
    held[-1].refresh_from_db()
    assert held[-1].state == "waiting"
    assert answered(held[-1]).state == "done"


def test_two_versions_answer_the_same_prompts_with_the_same_seeds(
    versions, alice, explorer, eventually
):
    made = Comparison.begin(
        *versions, alice, [SORT, [{"role": "user", "content": "13254"}]], 1.0, 12
    )
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 300)
    cells = {(chat.place, chat.weight_version): chat.turns.get() for chat in made.chats.all()}
    assert {(turn.state, turn.reason) for turn in cells.values()} == {("done", "")}
    for place in (0, 1):  # the same weights, under two names
        assert cells[place, versions[0]].reply == cells[place, versions[1]].reply


def test_model_without_runs_answers_a_prompt(tiny_policy, alice, answered, explorer):
    chat = Chat.try_prompt(tiny_policy, alice, SORT, 1.0, 12)
    turn = answered(chat.turns.get())
    assert (turn.state, turn.reason) == ("done", "")
    assert 0 < turn.tokens <= 12
    assert list(explorer.chats.sessions) == [ChatSubject(None, tiny_policy.pk)]
    assert not Run.objects.exists()


def test_model_and_version_0_of_its_run_give_the_same_answer(
    versions, tiny_policy, alice, answered
):
    of_version = answered(asked(versions[0], alice, temperature=0.01)[1])
    of_model = answered(Chat.try_prompt(tiny_policy, alice, SORT, 0.01, 12).turns.get())
    assert of_model.reply == of_version.reply


def test_deleting_a_model_during_a_chat_leaves_no_turn_and_no_session(
    tiny_policy, alice, explorer, eventually
):
    Chat.try_prompt(tiny_policy, alice, SORT, 1.0, 12)
    delete_model(tiny_policy, alice)
    assert not ChatTurn.objects.exists()
    assert find_chat_weights(ChatSubject(None, tiny_policy.pk)) is None
    explorer.serve()
    assert not explorer.chats.sessions


def test_model_chat_takes_a_gpu_turn_only_where_a_gpu_is_visible(
    tiny_policy, settings, tmp_path, monkeypatch
):
    settings.VAR = tmp_path
    weights = ChatWeights.of_policy(tiny_policy)
    monkeypatch.setattr(gpu_turns, "visible_gpus", lambda: [])
    assert weights.gpu_turn() is None
    monkeypatch.setattr(gpu_turns, "visible_gpus", lambda: ["GPU-test"])
    assert weights.gpu_turn().take()


def test_waiting_chat_wakes_the_explorer_without_a_live_run(versions, alice, explorer, monkeypatch):
    from workers.explorer import job

    monkeypatch.setattr(job, "explorer", lambda: explorer)
    assert not somebody_chats()
    asked(versions[0], alice)
    assert somebody_chats()


@pytest.mark.parametrize(
    ("order", "goes_on"), [(Worker.Order.DRAIN, True), (Worker.Order.QUARANTINE, False)]
)
def test_draining_or_quarantined_explorer_accepts_no_new_chat(
    versions, alice, explorers, answered, order, goes_on
):
    _, turn = asked(versions[0], alice)
    told = explorers()
    told.chats.serve(lambda: True, 0.0)
    session = told.chats.sessions[ChatSubject(versions[0].pk, None)]
    assert [one.pk for one in session.held] == [turn.pk]
    told.worker.order, told.chats.looked_at = order, 0.0
    _, later = asked(versions[1], alice)
    told.chats.serve(lambda: True, 0.0)
    for one in (turn, later):
        one.refresh_from_db()
    assert (turn.state != "waiting", later.state) == (goes_on, "waiting")
    told.stop()
    assert answered(turn).state == answered(later).state == "done"
