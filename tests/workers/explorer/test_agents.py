"""The policy sees only the agent's messages, with tools through its template; a silent agent
breaks nothing.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from apps.environments.action_sampling import ActionSampling
from apps.environments.closing import end_episode
from apps.environments.environment_lookup import find_or_register
from apps.environments.episode_opening import assign_episode
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.playing import observe, record_turn_reward
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from workers.explorer.chat_tokenizer import ChatTokenizer

TEMPLATE = "{% for tool in tools or [] %}{{ tool['function']['name'] }}{% endfor %}"


@pytest.fixture
def agent(project) -> Environment:
    return find_or_register(project, "agent")


@pytest.fixture
def agents_run(new_run, tiny_policy, agent):
    return new_run(
        sampling={"max_tokens": 100},
        engine="transformers",
        group_size=2,
        max_staleness=0,
        environment={"name": "agent"},
        rewards=[],
    )


def taken(stage, agent, alice) -> Episode:
    """Return an episode of the agent that the explorer has opened."""
    found: list[Episode | None] = [None]

    def is_taken() -> bool:
        found[0] = assign_episode(agent, alice)
        return found[0] is not None

    served_until(stage, is_taken)
    return found[0]


def served_until(stage, is_so: Callable[[], bool]) -> None:
    def look() -> bool:
        stage.explorer.serve()
        return is_so()

    stage.eventually(look, 300)


def answered(stage, episode: Episode, number: int) -> EpisodeTurn:
    served_until(
        stage, lambda: episode.seen.filter(number=number, answered_at__isnull=False).exists()
    )
    return episode.seen.get(number=number)


@pytest.mark.django_db(transaction=True)
def test_agents_messages_are_the_whole_prompt_and_answer_tokens_are_counted(
    stage, agents_run, agent, alice
):
    episode = taken(stage, agent, alice)
    said = [{"role": "system", "content": "12"}, {"role": "user", "content": "34"}]
    observe(episode.pk, 0, said)
    turn = answered(stage, episode, 0)
    prompt = stage.session.chat_tokenizer.prompt_ids(said)
    assert (turn.before, turn.is_cut) == (len(prompt), turn.tokens == 100)
    record_turn_reward(episode.pk, 0, 0.5)
    end_episode(episode.pk, "the agent ended it")
    served_until(stage, lambda: Reward.objects.filter(rollout=episode.rollout_id).exists())
    rollout = Rollout.objects.get(pk=episode.rollout_id)
    assert rollout.tokens.prompt_ids == prompt
    assert Reward.objects.get(rollout=rollout).value == 0.5


@pytest.mark.django_db(transaction=True)
def test_silent_agent_ends_its_episode_without_counting_as_a_failure(
    stage, agents_run, agent, alice
):
    episode = taken(stage, agent, alice)
    observe(episode.pk, 0, "12")
    answered(stage, episode, 0)
    Episode.objects.filter(pk=episode.pk).update(
        moved_at=timezone.now() - timedelta(seconds=agent.turn_s + 1)
    )
    served_until(stage, lambda: not Episode.objects.get(pk=episode.pk).is_open)
    episode.refresh_from_db()
    agent.refresh_from_db()
    assert (episode.state, agent.failures) == ("done", 0) and "sent nothing for" in episode.reason


@pytest.mark.django_db(transaction=True)
def test_explorer_stays_awake_while_a_finished_answer_was_not_yet_read(
    stage, agents_run, agent, alice
):
    episode = taken(stage, agent, alice)
    assert stage.session.waits_for_callers
    observe(episode.pk, 0, "12")
    served_until(stage, lambda: stage.session.awaits_engine)
    stage.eventually(
        lambda: not stage.session.engine.in_flight(), 300
    )  # the answer has ended but was not read yet
    assert not stage.session.waits_for_callers
    answered(stage, episode, 0)
    assert stage.session.waits_for_callers


# -- how it is to answer


def asked(
    stage, agent, alice, said: str | list = "12", **wishes: object
) -> tuple[Episode, EpisodeTurn]:
    episode = taken(stage, agent, alice)
    observe(episode.pk, 0, said, wishes=ActionSampling(**wishes))
    return episode, answered(stage, episode, 0)


def written(stage, episode: Episode) -> Rollout:
    end_episode(episode.pk, "the agent ended it")
    served_until(stage, lambda: Rollout.objects.get(pk=episode.rollout_id).state == "finished")
    return Rollout.objects.get(pk=episode.rollout_id)


@pytest.mark.django_db(transaction=True)
def test_stop_text_ends_an_answer_at_its_token_and_the_episode_continues(
    stage, agents_run, agent, alice
):
    stops = ("1", "2", "3", "4", "5")
    episode, turn = asked(stage, agent, alice, stop=stops)
    assert not set(turn.action) & set(stops) and not turn.is_cut
    observe(episode.pk, 1, "34")
    after = answered(stage, episode, 1)
    rollout = written(stage, episode)
    tokens = rollout.tokens
    chat_tokenizer = stage.session.chat_tokenizer
    said = list(tokens.completion_ids[: turn.tokens])
    ended = turn.tokens and said[-1] in chat_tokenizer.stop_token_ids
    assert ended or (
        chat_tokenizer.text(said)[-1] in stops
        and not set(chat_tokenizer.text(said[:-1])) & set(stops)
    )
    assert all(tokens.action_mask[: turn.tokens]) and all(
        value < 0 for value in tokens.logprobs[: turn.tokens]
    )
    between = tokens.completion_ids[turn.tokens : after.first]
    follow_up = chat_tokenizer.follow_up_ids(
        [{"role": "user", "content": "12"}], [{"role": "user", "content": "34"}]
    )
    assert between == (follow_up if ended else (*chat_tokenizer.stop_token_ids[:1], *follow_up))
    assert set(tokens.action_mask[turn.tokens : after.first]) == {0}


@pytest.mark.django_db(transaction=True)
def test_answer_is_cut_at_the_requested_length_and_the_episode_continues(
    stage, agents_run, agent, alice
):
    episode, turn = asked(stage, agent, alice, max_tokens=1)
    assert turn.tokens == 1 and (turn.is_cut or not turn.action)
    observe(episode.pk, 1, "34", wishes=ActionSampling(max_tokens=1))
    assert answered(stage, episode, 1).tokens == 1
    assert Episode.objects.get(pk=episode.pk).is_open


@pytest.mark.django_db(transaction=True)
def test_equal_seeds_give_equal_answers_with_the_logprobs_they_were_sampled_with(
    stage, agents_run, agent, alice
):
    (one, first), (_, again) = (asked(stage, agent, alice, seed=7, logprobs=True) for _ in range(2))
    assert (first.action, first.logprobs) == (again.action, again.logprobs)
    assert "".join(text for text, _, _ in first.logprobs) == first.action
    assert bytes(byte for _, own, _ in first.logprobs for byte in own).decode() == first.action
    tokens = written(stage, one).tokens
    assert [logprob for *_, logprob in first.logprobs] == pytest.approx(
        tokens.logprobs[: len(first.logprobs)]
    )


@pytest.mark.django_db(transaction=True)
def test_raw_text_is_the_whole_prompt(stage, agents_run, agent, alice):
    episode, turn = asked(stage, agent, alice, raw=True)
    prompt = written(stage, episode).tokens.prompt_ids
    assert prompt == stage.session.chat_tokenizer.bare_ids("12") and turn.before == len(prompt)


@pytest.mark.django_db(transaction=True)
def test_prefix_of_a_required_call_is_part_of_the_prompt_in_every_turn(
    stage, agents_run, agent, alice
):
    episode, turn = asked(stage, agent, alice, prefix="5 6", max_tokens=3)
    observe(episode.pk, 1, "34", wishes=ActionSampling(prefix="7", max_tokens=3))
    after = answered(stage, episode, 1)
    tokens = written(stage, episode).tokens
    chat_tokenizer = stage.session.chat_tokenizer
    begun = tuple(chat_tokenizer.encoder.answer_ids("5 6"))
    asked_for = chat_tokenizer.prompt_ids([{"role": "user", "content": "12"}])
    assert begun and tokens.prompt_ids == (*asked_for, *begun)
    between = tokens.completion_ids[turn.tokens : after.first]
    assert between[-1:] == tuple(chat_tokenizer.encoder.answer_ids("7"))
    assert set(tokens.action_mask[turn.tokens : after.first]) == {0}
    assert all(tokens.action_mask[: turn.tokens])


def test_byte_level_tokenizer_returns_the_bytes_of_each_token(untrained: Path):
    chat_tokenizer = ChatTokenizer(untrained)
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer, learned.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    learned.train_from_iterator(
        [],
        trainers.BpeTrainer(
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
    )
    chat_tokenizer.tokenizer = PreTrainedTokenizerFast(tokenizer_object=learned)
    told = chat_tokenizer.token_texts(chat_tokenizer.tokenizer.encode("a é"))
    assert [own for _, own in told] == [[97], [32], [0xC3], [0xA9]] and told[0][0] == "a"


def test_tools_are_passed_to_the_chat_template(untrained: Path):
    chat_tokenizer = ChatTokenizer(untrained)
    chat_tokenizer.tokenizer.chat_template = TEMPLATE + chat_tokenizer.tokenizer.chat_template
    said = [{"role": "user", "content": "34"}]
    [tool] = chat_tokenizer.tokenizer.encode("7")
    assert chat_tokenizer.prompt_ids(said, [{"function": {"name": "7"}}]) == (
        tool,
        *chat_tokenizer.prompt_ids(said),
    )
