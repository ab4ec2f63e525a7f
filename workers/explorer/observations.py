"""Apply environments' observations to rollouts in flight: the policy's turn follows, or the end."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from apps.environments.agents.waiting import NO_ROOM
from apps.environments.episode_changes import News
from apps.environments.observations import messages, observation_text
from apps.streaming.chunks import ChunkWriter
from apps.tasksets.messages import content_text as text_in
from workers.explorer.chat_tokenizer import EncodedPrompt, UnsupportedDialogue
from workers.explorer.episodes import TURN_LIMIT, Episodes, PlayedRollout
from workers.explorer.rollout import InFlightRollout
from workers.explorer.rollout_plan import FollowUp, RolloutPlanner
from workers.vision.image_processor import Unreadable


@dataclass(frozen=True)
class AnsweredRollout:
    """A rollout whose environment has answered: why it ends, or None if the policy continues."""

    rollout: InFlightRollout
    ends: str | None = None


@dataclass(frozen=True)
class ObservationReader:
    """Reads the observations of a session's episodes into its rollouts.

    `version`: the weight version that is served.
    """

    episodes: Episodes
    planner: RolloutPlanner
    writer: ChunkWriter
    version: int | None

    def read(
        self, ended: Container[InFlightRollout], is_beside: bool, is_notified: bool
    ) -> Iterator[AnsweredRollout]:
        """Read new observations, and yield each rollout that they concern.

        `ended` holds the rollouts that need no more observations. The caller may add to it between
        two results. `is_beside` and `is_notified` are as in `Episodes.news`.
        """
        for played, news in self.episodes.news(is_beside, is_notified):
            rollout = played.rollout
            if rollout in ended:
                continue
            if news.has_ended:
                yield AnsweredRollout(rollout, _reason_of_end(rollout, news))
            else:
                yield AnsweredRollout(rollout, self._why_no_more(played, news) or None)

    def _why_no_more(self, played: PlayedRollout, news: News) -> str:
        """Show the observation to the policy; return the reason when the rollout ends instead."""
        rollout = played.rollout
        if played.cut:
            return "length"
        if news.number >= played.turn_limit:
            return TURN_LIMIT
        rollout.wishes = news.wishes
        rollout.has_stopped = False
        assert news.observation is not None  # the episode has not ended
        try:
            texts = messages(news.observation)
            if news.number == 0:
                first_words = self.episodes.first_words(rollout, news)
                if reason := self._begin(rollout, first_words, news.tools):
                    self.episodes.refuses(played, reason)
                return rollout.failure
            passage = self.planner.chat_tokenizer.encode_follow_up(
                rollout.plan.prompt, texts, self.planner.pictures_in(texts)
            )
            begun = self._add_prefix(passage, rollout)
            text = observation_text(news.observation) + rollout.wishes.prefix
            follow_up = FollowUp(text, begun.token_ids, begun.pictures)
        except (UnsupportedDialogue, TemplateError, Unreadable) as why:
            self.episodes.breaks(
                played, f"the policy's chat template cannot render the observation: {why}"
            )
            return rollout.failure
        offset = len(rollout.token_ids)
        appended = rollout.append_message(follow_up)
        if appended is None:
            return "length"
        self.writer.turn(rollout.rollout_id, offset, len(appended.token_ids), appended.text)
        return ""

    def _begin(
        self,
        rollout: InFlightRollout,
        messages: list[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
    ) -> str:
        """Complete the prompt with the first observation, which may be all of it."""
        tokenizer = self.planner.chat_tokenizer
        if rollout.wishes.raw:
            prompt = EncodedPrompt(tokenizer.bare_ids(messages[0]["content"]))
        else:
            prompt = tokenizer.encode_prompt(messages, tools, self.planner.pictures_in(messages))
            prompt = self._add_prefix(prompt, rollout)
        rollout.plan = self.planner.with_prompt(rollout.plan, messages, prompt)
        self.writer.started(
            rollout.rollout_id, rollout.claim.pk, text_in(messages[-1]["content"]), self.version
        )
        if not prompt.token_ids:
            rollout.failure = "the prompt has no tokens"
        elif rollout.room < 1:
            rollout.failure = f"the prompt of {len(rollout.plan.prompt_ids)} tokens {NO_ROOM}"
        return rollout.failure

    def _add_prefix(self, prompt: EncodedPrompt, rollout: InFlightRollout) -> EncodedPrompt:
        """Return the prompt with the beginning of the policy's message that it does not choose."""
        if not rollout.wishes.prefix:
            return prompt
        begun = self.planner.chat_tokenizer.encoder.answer_ids(rollout.wishes.prefix)
        return EncodedPrompt((*prompt.token_ids, *begun), prompt.pictures)


def _reason_of_end(rollout: InFlightRollout, news: News) -> str:
    if news.is_failure:
        rollout.failure = f"environment {news.state}: {news.reason}"
    return rollout.failure or news.reason
