"""Tokenize lessons as the policy's prompts and replies are tokenized."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apps.feedback.models import Demonstration, Lesson, Preference, Thumb
from apps.rollouts.payload import Tokens
from apps.tasksets.messages import list_pictures
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.trainer.collate import Row
from workers.trainer.lessons import rows


class TooLong(ValueError):
    """Raised for a lesson with more tokens than the policy can read; the message names it."""


class ShowsPicture(ValueError):
    """Raised for a lesson that cannot be tokenized as text alone."""


class LessonTokenizer:
    """Tokenizer and chat template of a policy; `context`: its longest text, 0 if unknown.

    `scores`: whether the texts are for a reward model, which reads them as
    `workers.reward_models` encodes them. All others are encoded as rollouts are.
    """

    def __init__(self, policy: Path | str, context: int = 0, scores: bool = False) -> None:
        self.chat_tokenizer = ChatTokenizer(Path(policy))
        self.tokenizer = self.chat_tokenizer.tokenizer
        self.encoder = self.chat_tokenizer.encoder
        self.context = context
        self.scores = scores

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        """Tokenize messages as a prompt that is ready to be answered. Raises ShowsPicture."""
        if list_pictures(messages):
            raise ShowsPicture(
                "a lesson contains an image, but lessons must be text: exclude its taskset"
            )
        if self.scores:
            return self.encoder.prompt_ids(messages)
        return list(self.chat_tokenizer.prompt_ids(messages))

    def answer(self, text: str) -> list[int]:
        """Tokenize a complete answer, with the token that ends it.

        It is the one with which the chat template ends a turn, which may not be the tokenizer's own
        end token (Gemma, Phi-3).
        """
        if self.scores:
            return [*self.encoder.answer_ids(text), self.tokenizer.eos_token_id]
        return [*self.encoder.answer_ids(text), *self.chat_tokenizer.stop_token_ids[:1]]

    def batch(self, lessons: Sequence[Lesson]) -> list[Row | rows.Pair | rows.JudgedAnswer]:
        """Return each lesson in the form its loss reads. Raises TooLong."""
        return [self._encoded(lesson) for lesson in lessons]

    def expert(self, lesson: Demonstration) -> Tokens:
        """Return a demonstration as an expert's rollout; no version sampled it. Raises TooLong."""
        row = self._row(lesson, lesson.answer)
        return Tokens(
            row.prompt_ids, row.completion_ids, row.behaviour_logprobs, row.action_mask, ()
        )

    def _encoded(self, lesson: Lesson) -> Row | rows.Pair | rows.JudgedAnswer:
        match lesson:
            case Demonstration():
                return self._row(lesson, lesson.answer)
            case Preference():
                return rows.Pair(
                    self._row(lesson, lesson.chosen),
                    self._row(lesson, lesson.rejected),
                    lesson.margin,
                )
            case Thumb():
                return rows.JudgedAnswer(self._row(lesson, lesson.completion), lesson.is_up)
        raise TypeError(f"no such lesson: {lesson!r}")

    def _row(self, lesson: Lesson, text: str) -> Row:
        prompt = self.prompt(lesson.prompt)
        answer = self.answer(text)
        if self.context and len(prompt) + len(answer) > self.context:
            raise TooLong(
                f"{lesson} has {len(prompt) + len(answer)} tokens; the policy's context is "
                f"{self.context}"
            )
        return rows.build_lesson_row(prompt, answer)
