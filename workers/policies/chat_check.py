"""What a policy's chat template can do, tried when the policy is added."""

from collections.abc import Iterator
from pathlib import Path

from jinja2 import TemplateError

from workers.explorer.speaker import NoDialogue, Speaker

ASKED, ANSWERED = "RFTWEBASKED", "RFTWEBANSWERED"
USER, ASSISTANT = {"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWERED}


class UnusableTemplate(ValueError):
    """No task can be asked by this template; the message says why."""


def notes_on_chat(folder: Path) -> list[str]:
    """Say in sentences what the template cannot do. Raises UnusableTemplate."""
    speaker = Speaker(folder)
    asked = rendered(speaker, [USER])
    if ASKED not in asked:
        raise UnusableTemplate("its chat template leaves out what the user says")
    return [*_about_prompts(speaker, asked), *_about_dialogues(speaker)]


def rendered(speaker: Speaker, messages: list[dict], begins_answer: bool = True) -> str:
    """Return what the policy's chat template writes. Raises UnusableTemplate."""
    said = messages if speaker.eyes is None else [_in_parts(message) for message in messages]
    try:
        return speaker.tokenizer.apply_chat_template(
            said, add_generation_prompt=begins_answer, tokenize=False
        )
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise UnusableTemplate(f"its chat template fails to render a message: {error}") from error


def _in_parts(message: dict) -> dict:
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _about_prompts(speaker: Speaker, asked: str) -> Iterator[str]:
    if asked == rendered(speaker, [USER], begins_answer=False):
        end = asked.partition(ASKED)[2]
        yield (
            "the chat template has no generation prompt: add_generation_prompt changes nothing. A "
            f"reply begins right behind {end!r}; check that the model was trained so"
        )


def _about_dialogues(speaker: Speaker) -> Iterator[str]:
    """Several turns need an answer that is written out, ended, and told from what users say."""
    try:
        answered = rendered(speaker, [USER, ASSISTANT, USER])
        speaker.between([USER], [USER])
    except (UnusableTemplate, NoDialogue) as why:
        yield (f"tasks with follow-ups and environments of several turns cannot be used: {why}")
        return
    as_user = _rendered_or_none(speaker, [USER, {**ASSISTANT, "role": "user"}, USER])
    if as_user == answered:
        yield (
            "the chat template writes turns of the assistant like those of users: in a dialogue "
            "the model cannot tell who said what"
        )


def _rendered_or_none(speaker: Speaker, messages: list[dict]) -> str | None:
    """None where the template refuses two turns of one role in a row, as Mistral's does."""
    try:
        return rendered(speaker, messages)
    except UnusableTemplate:
        return None
