"""The template of the Modelfile renders the same text as the chat template."""

import re

import pytest

from tests.workers.exporting.tiny_models import byte_level
from workers.exporting.modelfile import ChatShape, renderer

CHATML = byte_level().chat_template
DEFAULT = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe kind<|im_end|>\\n' }}"
    "{% endif %}" + CHATML
)
LLAMA3 = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    "{% endif %}"
)
FOLDED = (  # the system text is part of the first question, as in Gemma
    "{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\\n\\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}"
    "{% endif %}"
    "{% for message in rest %}{{ '<turn>' + message['role'] + '\\n' }}"
    "{{ (first if loop.first else '') + message['content'] + '<end>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<turn>assistant\\n' }}{% endif %}"
)
COUNTED = "{% for message in messages %}{{ loop.index ~ message['content'] }}{% endfor %}"
TALK = [
    {"role": "system", "content": "Short."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "1 + 1?"},
]


def shape_of(template: str, adds_bos: bool = False) -> ChatShape | None:
    tokenizer = byte_level()
    tokenizer.chat_template = template
    return ChatShape.of(renderer(tokenizer, adds_bos))


def as_ollama(template: str, chat: list[dict]) -> str:
    """Render the Go template: its conditions, the loop over messages, and quoted texts."""
    lead = re.match(r"\{\{ if not \.System \}\}(.*?)\{\{ end \}\}", template)
    head = "" if lead is None or chat[0]["role"] == "system" else _texts(lead[1])
    rest = template[lead.end() :] if lead else template
    loop, asks = re.fullmatch(
        r"\{\{ range \.Messages \}\}(.*)\{\{ end \}\}\{\{ end \}\}(.*)", rest
    ).groups()
    branches = re.split(r'\{\{ (?:else )?if eq \.Role "(\w+)" \}\}', loop)[1:]
    by_role = dict(zip(branches[::2], branches[1::2], strict=True))
    said = [_texts(by_role[one["role"]]).replace("\0", one["content"]) for one in chat]
    return head + "".join(said) + _texts(asks)


def _texts(part: str) -> str:
    pieces = re.findall(r'\{\{ (?:"((?:[^"\\]|\\.)*)"|(\.Content)) \}\}', part)
    return "".join("\0" if content else text.replace("\\n", "\n") for text, content in pieces)


@pytest.mark.parametrize("template", [CHATML, DEFAULT, LLAMA3])
def test_modelfile_template_renders_conversations_like_the_chat_template(template):
    tokenizer = byte_level()
    tokenizer.chat_template = template
    written = shape_of(template).template()
    for chat in (TALK, TALK[1:]):
        wanted = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert as_ollama(written, chat) == wanted


def test_first_token_is_left_out_when_the_tokenizer_adds_it():
    assert "<|im_start|>" in shape_of(LLAMA3).template()
    assert "<|im_start|>" not in shape_of(LLAMA3, adds_bos=True).template()


@pytest.mark.parametrize("template", [COUNTED, FOLDED])
def test_unrecognised_template_shape_gives_none(template):
    assert shape_of(template) is None
