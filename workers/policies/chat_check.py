"""Checks of the abilities of a policy's chat template, made when the policy is added."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from workers.chat_encoder import Message
from workers.explorer.chat_tokenizer import ChatTokenizer, UnsupportedDialogue

ASKED = "RFTWEBASKED"
ANSWERED = "RFTWEBANSWERED"
USER = {"role": "user", "content": ASKED}
ASSISTANT = {"role": "assistant", "content": ANSWERED}


class UnusableTemplate(ValueError):
    """Raised for a template by which no task can be asked; the message says why."""


def notes_on_chat(folder: Path) -> list[str]:
    """Return sentences on what the template cannot do. Raises UnusableTemplate."""
    chat_tokenizer = ChatTokenizer(folder)
    question = render_chat(chat_tokenizer, [USER])
    if ASKED not in question:
        raise UnusableTemplate("the chat template omits the user's message")
    return [*_about_prompts(chat_tokenizer, question), *_about_dialogues(chat_tokenizer)]


def render_chat(
    chat_tokenizer: ChatTokenizer, messages: Sequence[Message], begins_answer: bool = True
) -> str:
    """Return what the policy's chat template writes. Raises UnusableTemplate."""
    shows_pictures = chat_tokenizer.image_processor is not None
    rendered: list[dict[str, Any]]
    rendered = [in_parts(message) if shows_pictures else dict(message) for message in messages]
    try:
        text = chat_tokenizer.tokenizer.apply_chat_template(
            rendered, add_generation_prompt=begins_answer, tokenize=False
        )
        return str(text)
    except (TemplateError, TypeError, KeyError, ValueError) as error:
        raise UnusableTemplate(f"the chat template cannot render a message: {error}") from error


def in_parts(message: Message) -> dict[str, Any]:
    """Return the message as a list of parts, which templates of models with pictures expect."""
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _about_prompts(chat_tokenizer: ChatTokenizer, question: str) -> Iterator[str]:
    if question == render_chat(chat_tokenizer, [USER], begins_answer=False):
        end = question.partition(ASKED)[2]
        yield (
            "the chat template has no generation prompt: add_generation_prompt has no "
            f"effect. A reply begins directly after {end!r}; check that the model was trained "
            "this way"
        )


def _about_dialogues(chat_tokenizer: ChatTokenizer) -> Iterator[str]:
    """Yield what rules out dialogues.

    Several turns need an answer that is written out, ended, and distinct from what users say.
    """
    try:
        answered = render_chat(chat_tokenizer, [USER, ASSISTANT, USER])
        chat_tokenizer.follow_up_ids([USER], [USER])
    except (UnusableTemplate, UnsupportedDialogue) as why:
        yield f"tasks with follow-ups and environments of several turns cannot be used: {why}"
        return
    as_user = _rendered_or_none(chat_tokenizer, [USER, {**ASSISTANT, "role": "user"}, USER])
    if as_user == answered:
        yield (
            "the chat template renders turns of assistant and user in the same way, so the "
            "model cannot distinguish them"
        )


def _rendered_or_none(chat_tokenizer: ChatTokenizer, messages: Sequence[Message]) -> str | None:
    """Return the rendered messages, or None if the template refuses two turns of one role in a row.

    Mistral's template does that.
    """
    try:
        return render_chat(chat_tokenizer, messages)
    except UnusableTemplate:
        return None
