"""Lessons in tokens, as the policy would have been asked and would have answered."""

from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer

from apps.feedback.models import Demonstration, Lesson, Preference, Thumb
from apps.rollouts.payload import Tokens
from apps.tasksets.messages import pictures_of
from workers.chat_encoder import ChatEncoder
from workers.trainer.collate import Row
from workers.trainer.lessons import rows


class TooLong(ValueError):
    """A lesson has more tokens than the policy can read; the message names it."""


class ShowsPicture(ValueError):
    """A lesson cannot be spelt in text alone."""


class Speller:
    """A policy's tokenizer and chat template; `context` is the most tokens the policy can read, 0 where it does not say."""

    def __init__(self, policy: Path | str, context: int = 0) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(policy, local_files_only=True)
        self.encoder = ChatEncoder(self.tokenizer)
        self.context = context

    def prompt(self, messages: list[dict]) -> list[int]:
        """Ready to be answered. Raises ShowsPicture."""
        if pictures_of(messages):
            raise ShowsPicture("a lesson shows a picture, and lessons are learned from in text alone: leave its taskset out")
        return self.encoder.prompt_ids(messages)

    def answer(self, text: str) -> list[int]:
        """Said to the end, the end token included."""
        return [*self.encoder.answer_ids(text), self.tokenizer.eos_token_id]

    def batch(self, lessons: Sequence[Lesson]) -> list[Row | rows.Pair | rows.Judged]:
        """Each lesson in the form its loss reads. Raises TooLong."""
        return [self._spelt(lesson) for lesson in lessons]

    def expert(self, lesson: Demonstration) -> Tokens:
        """A demonstration as an expert's rollout; no version sampled it. Raises TooLong."""
        row = self._row(lesson, lesson.answer)
        return Tokens(row.prompt_ids, row.completion_ids, row.behaviour_logprobs, row.action_mask, ())

    def _spelt(self, lesson: Lesson) -> Row | rows.Pair | rows.Judged:
        match lesson:
            case Demonstration():
                return self._row(lesson, lesson.answer)
            case Preference():
                return rows.Pair(self._row(lesson, lesson.chosen), self._row(lesson, lesson.rejected), lesson.margin)
            case Thumb():
                return rows.Judged(self._row(lesson, lesson.completion), lesson.is_up)
        raise TypeError(f"no such lesson: {lesson!r}")

    def _row(self, lesson: Lesson, said: str) -> Row:
        prompt, answer = self.prompt(lesson.prompt), self.answer(said)
        if self.context and len(prompt) + len(answer) > self.context:
            raise TooLong(f"{lesson} has {len(prompt) + len(answer)} tokens; the policy reads {self.context}")
        return rows.row(prompt, answer)
