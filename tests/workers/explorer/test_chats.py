"""People chat with a version: a real engine answers, beside the runs and in turn with them."""

import pytest

from apps.rollouts.models import Chat, ChatTurn, Comparison, Rollout
from apps.runs.models import NotPossible, Run, WeightVersion, Worker
from workers.explorer import chats as chatting
from workers.explorer import station as stations
from workers.explorer.chair import Chair
from workers.explorer.job import somebody_chats
from workers.explorer.station import Explorer

SORT = [{"role": "user", "content": "31425"}]


@pytest.fixture
def versions(watched_run, new_run) -> tuple[WeightVersion, WeightVersion]:
    """Version 0 of two runs of the same policy, both paused: nothing else goes on."""
    other = new_run(engine="transformers")
    for run in (watched_run, other):
        run.pause()
    return watched_run.weight_versions.get(), other.weight_versions.get()


@pytest.fixture
def explorers(transactional_db):
    """Make explorers; all are stopped at the end."""
    made: list[Explorer] = []

    def make() -> Explorer:
        key = f"explorer@chat:{len(made)}"
        made.append(Explorer(Worker.objects.create(key=key, role=Worker.Role.EXPLORER, host="test", pid=len(made) + 1)))
        return made[-1]

    yield make
    for explorer in made:
        explorer.stop()


@pytest.fixture
def explorer(explorers) -> Explorer:
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


def test_a_version_answers_though_its_run_is_paused(versions, alice, answered, explorer):
    _, turn = asked(versions[0], alice)
    answered(turn)
    assert (turn.state, turn.reason) == ("done", "")
    assert turn.stop_reason in ("stop", "length")
    assert 0 < turn.tokens <= 12
    assert turn.worker == explorer.worker
    assert turn.asked_at <= turn.begun_at <= turn.ended_at
    assert not Rollout.objects.exists()


def test_the_same_seed_says_the_same_and_colder_is_surer(versions, alice, answered):
    said = [answered(asked(versions[0], alice, seed=5)[1]).said for _ in range(2)]
    assert said[0] == said[1]
    cold = {answered(asked(versions[0], alice, seed=seed, temperature=0.01)[1]).said for seed in (1, 2, 3)}
    assert len(cold) == 1


def test_what_was_said_before_is_heard_again(versions, alice, answered):
    chat, turn = asked(versions[0], alice, system="12")
    first = answered(turn)
    second = chat.ask([{"role": "user", "content": "54321"}], 1.0, 8)
    assert second.messages == [
        {"role": "system", "content": "12"}, *SORT, {"role": "assistant", "content": first.said},
        {"role": "user", "content": "54321"},
    ]  # fmt: skip
    assert answered(second).state == "done"


def test_an_answer_that_is_asked_again_stands_in_the_earlier_ones_place(versions, alice, answered):
    chat, turn = asked(versions[0], alice)
    answered(turn)
    again = answered(chat.ask_again(1.0, 12))
    turn.refresh_from_db()
    assert (turn.is_replaced, list(chat.said)) == (True, [again])


def test_nothing_further_is_asked_while_an_answer_is_open(versions, alice):
    chat, turn = asked(versions[0], alice)
    with pytest.raises(NotPossible, match="still being written"):
        chat.ask(SORT, 1.0, 8)
    with pytest.raises(NotPossible, match="no finished answer"):
        chat.ask_again(1.0, 8)
    turn.wish_to_stop()
    turn.refresh_from_db()
    assert turn.state == "stopped"


def test_a_stopped_answer_keeps_what_it_said(versions, alice, explorer, eventually):
    _, turn = asked(versions[0], alice, max_tokens=12)
    eventually(lambda: explorer.serve() and next(iter(explorer.chats.chairs.values())).is_ready, 300)
    [chair] = explorer.chats.chairs.values()
    turn.refresh_from_db()
    if turn.is_open:
        turn.wish_to_stop()
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 60)
    turn.refresh_from_db()
    assert (turn.state, turn.stop_reason) in (("stopped", "abort"), ("done", "stop"), ("done", "length"))
    assert chair.is_idle


def test_what_was_not_begun_is_stopped_without_an_engine(versions, alice, explorer):
    _, turn = asked(versions[0], alice)
    chair = Chair(versions[0], turns=ChatTurn.objects.claim(versions[0].pk, "explorer@test", 60, explorer.worker))
    turn.wish_to_stop()
    turn.refresh_from_db()
    assert (turn.state, turn.stop_wanted) == ("loading", True)
    chair.stop_those({turn.pk})
    turn.refresh_from_db()
    assert (turn.state, turn.said) == ("stopped", "")


def test_a_conversation_that_is_too_long_fails_and_says_what_to_do(versions, alice, answered):
    chat = Chat.objects.create(weight_version=versions[0], by=alice)
    turn = answered(chat.ask([{"role": "user", "content": "1" * 500}], 1.0, 8))
    assert (turn.state, turn.reason[:34]) == ("failed", "the conversation is longer than th")


def test_damaged_weights_fail_the_answer_with_the_reason(versions, alice, answered, tmp_path):
    WeightVersion.objects.filter(pk=versions[0].pk).update(folder=str(tmp_path / "gone"))
    turn = answered(asked(versions[0], alice)[1])
    assert turn.state == "failed"
    assert "cannot be loaded" in turn.reason


def test_a_retired_version_is_not_asked(versions, alice):
    WeightVersion.objects.filter(pk=versions[0].pk).update(state="retired")
    with pytest.raises(NotPossible, match="is retired"):
        asked(versions[0], alice)


def test_a_full_worker_takes_turns(settings, versions, alice, answered, explorer):
    settings.ENGINES_PER_WORKER, settings.RESIDENT_MEMORY_MB = 1, 0
    first, second = (asked(version, alice)[1] for version in versions)
    assert answered(first).state == answered(second).state == "done"
    assert list(explorer.chats.chairs) == [versions[1].pk]


def test_a_run_makes_way_for_who_has_waited(
    settings, new_run, tiny_policy, alice, answered, explorer, eventually, monkeypatch
):
    settings.ENGINES_PER_WORKER, settings.RESIDENT_MEMORY_MB, settings.ENGINE_TURN_SECONDS = 1, 0, 1
    monkeypatch.setattr(chatting, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(stations, "QUIET_SECONDS", 0.0)
    plan = {"engine": "transformers", "sampling": {"max_tokens": 8}}
    greedy = new_run(**plan, max_staleness=1000, steps=100_000)  # always has something to sample
    other = new_run(**plan)
    other.pause()
    eventually(lambda: explorer.serve() is not None and explorer.seats, 300)
    turn = answered(asked(other.weight_versions.get(), alice)[1])
    assert turn.state == "done"
    eventually(lambda: explorer.serve() is not None and explorer.seats, 300)  # and the run goes on
    assert not explorer.chats.chairs
    assert Run.objects.get(pk=greedy.pk).state == "running"


def test_what_a_dead_explorer_held_another_answers(versions, alice, explorer, answered):
    _, turn = asked(versions[0], alice)
    [lost] = ChatTurn.objects.claim(versions[0].pk, "explorer@gone", 60, explorer.worker)
    assert not ChatTurn.objects.claim(versions[0].pk, "explorer@late", 60, explorer.worker)
    ChatTurn.objects.filter(pk=turn.pk).update(lease_until="2000-01-01T00:00Z")
    assert answered(turn).state == "done"
    assert not lost.write("from the grave", 3)
    assert not lost.end("done", "from the grave")


def test_a_turn_at_which_explorers_die_is_given_up(versions, alice, answered):
    _, turn = asked(versions[0], alice)
    ChatTurn.objects.filter(pk=turn.pk).update(attempts=3)
    assert answered(turn).reason == "3 explorers went away while they answered it"


def test_an_explorer_that_stops_leaves_its_turns_to_others(versions, alice, explorers, answered):
    _, turn = asked(versions[0], alice)
    leaving = explorers()
    leaving.serve()
    assert leaving.chats.chairs
    leaving.stop()
    turn.refresh_from_db()
    assert turn.state == "waiting"
    assert answered(turn).state == "done"


def test_two_versions_answer_the_same_prompts_with_the_same_seeds(versions, alice, explorer, eventually):
    made = Comparison.begin(*versions, alice, [SORT, [{"role": "user", "content": "13254"}]], 1.0, 12)
    eventually(lambda: explorer.serve() is not None and not ChatTurn.objects.open().exists(), 300)
    cells = {(chat.place, chat.weight_version): chat.turns.get() for chat in made.chats.all()}
    assert {(turn.state, turn.reason) for turn in cells.values()} == {("done", "")}
    for place in (0, 1):  # the same weights, under two names
        assert cells[place, versions[0]].said == cells[place, versions[1]].said


def test_the_explorer_is_woken_though_no_run_is_live(versions, alice, explorer, monkeypatch):
    from workers.explorer import job

    monkeypatch.setattr(job, "explorer", lambda: explorer)
    assert not somebody_chats()
    asked(versions[0], alice)
    assert somebody_chats()


@pytest.mark.parametrize(("order", "goes_on"), [(Worker.Order.DRAIN, True), (Worker.Order.QUARANTINE, False)])
def test_an_explorer_that_takes_nothing_takes_no_question(versions, alice, explorers, answered, order, goes_on):
    _, turn = asked(versions[0], alice)
    told = explorers()
    told.chats.serve(lambda: True, 0.0)
    assert [one.pk for one in told.chats.chairs[versions[0].pk].held] == [turn.pk]
    told.worker.order, told.chats.looked_at = order, 0.0
    _, later = asked(versions[1], alice)
    told.chats.serve(lambda: True, 0.0)
    for one in (turn, later):
        one.refresh_from_db()
    assert (turn.state != "waiting", later.state) == (goes_on, "waiting")
    told.stop()
    assert answered(turn).state == answered(later).state == "done"
