"""Modelfile that Ollama reads beside a GGUF file, and the chat template in it.

See https://docs.ollama.com/modelfile. Ollama knows a GGUF file's own chat template only if it is
one of those on its list, and would otherwise send bare text. So a template in its language (Go's
text/template) is made from what the chat template renders, and compared with it on conversations;
if the two differ, no template is written, and the Modelfile says so.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from workers.exporting.vocabulary import Vocabulary

Chat = list[dict[str, str]]
ASKED = "Wq1xu"
SAID = "Wq2xa"
AGAIN = "Wq3xu"
TOLD = "Wq4xs"  # contents that no template has in it
NO_TEMPLATE = (
    "# This chat template cannot be said in Ollama's language. Ollama uses the one in the file\n"
    "# if it is on its own list. See `ollama show --modelfile`; where none is shown, write one.\n"
)


def modelfile(
    file: str,
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: Vocabulary,
    temperature: float,
    licence: str,
) -> str:
    """Return the Modelfile's text.

    `file`: the GGUF file's name beside it; `licence`: its text, empty where nobody knows it.
    """
    shape = ChatShape.of(renderer(tokenizer, vocabulary.adds_bos))
    parts = [f"FROM ./{file}\n"]
    parts.append(f'TEMPLATE """{shape.template()}"""\n' if shape else NO_TEMPLATE)
    stops = tokenizer.convert_ids_to_tokens(vocabulary.ends)
    parts += [f"PARAMETER stop {_quoted(stop)}\n" for stop in stops]
    parts.append(f"PARAMETER temperature {temperature:g}\n")
    if licence and '"""' not in licence:
        parts.append(f'LICENSE """{licence.strip()}\n"""\n')
    return "".join(parts)


def renderer(tokenizer: PreTrainedTokenizerBase, adds_bos: bool) -> Callable[[Chat, bool], str]:
    """Render a chat as text, without the first token where the file's reader puts it there by
    itself."""

    def render(chat: Chat, asks: bool) -> str:
        text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=asks))
        return text.removeprefix(tokenizer.bos_token) if adds_bos and tokenizer.bos_token else text

    return render


@dataclass(frozen=True)
class ChatShape:
    """Texts around messages; `lead` comes first without a system message.

    `system` is None if there is none.
    """

    lead: str
    system: tuple[str, str] | None
    user: tuple[str, str]
    assistant: tuple[str, str]
    asks: str

    @classmethod
    def of(cls, render: Callable[[Chat, bool], str]) -> "ChatShape | None":
        """Return the shape of what `render` makes; None where it has another one."""
        try:
            shape = cls._read(render)
            chats = [
                _chat(roles)
                for roles in ("u", "uau", "uauau", *(("su", "suau") if shape.system else ()))
            ]
            return shape if all(shape.text(chat) == render(chat, True) for chat in chats) else None
        except (TemplateError, ValueError):
            return None

    @classmethod
    def _read(cls, render: Callable[[Chat, bool], str]) -> "ChatShape":
        """Read the shape from rendered chats. Raises ValueError if a text is not at its place."""
        question = {"role": "user", "content": ASKED}
        reply = {"role": "assistant", "content": SAID}
        again = {"role": "user", "content": AGAIN}
        before, after_user = _cut(render([question], False), ASKED)
        asks = _behind(_cut(render([question], True), ASKED)[1], after_user)
        _, behind = _cut(render([question, reply], False), ASKED)
        between, after_reply = _cut(behind, SAID)
        third = _cut(render([question, reply, again], True), SAID)[1]
        before_user = _behind(_cut(third, AGAIN)[0], after_reply)
        return cls(
            lead=_ahead(before, before_user),
            system=cls._system(render, before_user),
            user=(before_user, after_user),
            assistant=(_behind(between, after_user), after_reply),
            asks=asks,
        )

    @staticmethod
    def _system(render: Callable[[Chat, bool], str], before_user: str) -> tuple[str, str] | None:
        chat = [{"role": "system", "content": TOLD}, {"role": "user", "content": ASKED}]
        try:
            before, behind = _cut(render(chat, True), TOLD)
        except (TemplateError, ValueError):  # it takes none, or drops it
            return None
        return before, _ahead(_cut(behind, ASKED)[0], before_user)

    def text(self, chat: Chat) -> str:
        """Return the chat as the template below renders it."""
        lead = "" if chat[0]["role"] == "system" else self.lead
        parts = {"user": self.user, "assistant": self.assistant}
        if self.system is not None:
            parts["system"] = self.system
        turns = "".join(
            parts[message["role"]][0] + message["content"] + parts[message["role"]][1]
            for message in chat
        )
        return lead + turns + self.asks

    def template(self) -> str:
        """Return the template in Go's text/template, on one line.

        Blanks and line ends occur only within quotes.
        """
        branches = [("user", self.user), ("assistant", self.assistant)]
        if self.system:
            branches.insert(0, ("system", self.system))
        lines = ["{{ if not .System }}", _put(self.lead), "{{ end }}"] if self.lead else []
        lines.append("{{ range .Messages }}")
        for number, (role, (before, after)) in enumerate(branches):
            lines.append(f'{{{{ {"else " if number else ""}if eq .Role "{role}" }}}}')
            lines.append(_put(before) + "{{ .Content }}" + _put(after))
        return "".join([*lines, "{{ end }}{{ end }}", _put(self.asks)])


def _chat(roles: str) -> Chat:
    names = {"s": "system", "u": "user", "a": "assistant"}
    return [
        {"role": names[role], "content": f"Wr{number}x{role}"} for number, role in enumerate(roles)
    ]


def _cut(text: str, word: str) -> tuple[str, str]:
    before, separator, after = text.partition(word)
    if not separator:
        raise ValueError(f"{word} is not there")
    return before, after


def _behind(text: str, start: str) -> str:
    if not text.startswith(start):
        raise ValueError(f"does not start with {start!r}")
    return text[len(start) :]


def _ahead(text: str, end: str) -> str:
    if not text.endswith(end):
        raise ValueError(f"does not end with {end!r}")
    return text[: len(text) - len(end)]


def _put(text: str) -> str:
    return f"{{{{ {_quoted(text)} }}}}" if text else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
