"""Limitations of a chat template are shown when its policy is added."""

import shutil

import pytest

from workers.policies.bringing_in import NotAPolicy, adopt_model
from workers.policies.chat_check import UnusableTemplate, notes_on_chat
from workers.policies.tiny import build_tiny
from workers.policies.tokenizing import CHAT_TEMPLATE

ALL = "{% for m in messages %}"
NO_PROMPT = CHAT_TEMPLATE.partition("{% if add_generation_prompt")[0]
NO_ROLES = CHAT_TEMPLATE.replace("<|{{ message['role'] }}|>", "<|user|>")
MISTRAL = (
    ALL + "{% if m['role'] == 'user' %}{% if loop.index0 % 2 %}{{ raise_exception('roles must"
    " alternate') }}{% endif %}<|user|>{{ m['content'] }}<|assistant|>{% else %}{{ m['content']"
    " }}<|end|>{% endif %}{% endfor %}"
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "policy"
    build_tiny(folder)
    return folder


@pytest.fixture
def with_template(tiny, tmp_path):
    def make(template: str):
        folder = tmp_path / "changed"
        shutil.copytree(tiny, folder)
        (folder / "manifest.json").unlink()
        (folder / "chat_template.jinja").write_text(template)
        return folder

    return make


@pytest.mark.parametrize(
    ("template", "notes"),
    [
        (CHAT_TEMPLATE, []),
        (NO_PROMPT, ["no generation prompt"]),
        (MISTRAL, ["no generation prompt"]),
        (NO_ROLES, ["cannot distinguish them"]),
        (
            ALL + "{{ m['content'] }}\n{% endfor %}",
            ["no generation prompt", "does not end an answer"],
        ),
        (
            ALL
            + "{% if m['role'] != 'user' %}{{ raise_exception('one question, please') }}{% endif"
            " %}<|user|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt"
            " %}<|assistant|>{% endif %}",
            ["one question, please"],
        ),
    ],
    ids=["whole", "no prompt", "mistral", "no roles", "no marks", "no answers"],
)
def test_notes_describe_what_a_template_lacks(with_template, template, notes):
    found = notes_on_chat(with_template(template))
    assert len(found) == len(notes)
    for note, words in zip(found, notes, strict=True):
        assert words in note


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('never') }}", "cannot render a message: never"),
        ("{{ messages[0].content.no.such }}", "cannot render a message"),
        ("{% for m in messages %}", "cannot render a message"),
        ("<|user|>hello<|assistant|>", "omits the user's message"),
    ],
)
def test_template_that_cannot_express_a_prompt_is_refused(with_template, template, words):
    with pytest.raises(UnusableTemplate, match=words):
        notes_on_chat(with_template(template))


def test_note_is_printed_when_a_policy_is_added_and_a_refused_one_leaves_no_folder(
    with_template, tmp_path, capsys
):
    source = with_template(NO_PROMPT)
    adopt_model(str(source), "main", tmp_path / "sealed")
    assert "note: the chat template has no generation prompt" in capsys.readouterr().err
    (source / "chat_template.jinja").write_text("<|user|>hello<|assistant|>")
    with pytest.raises((NotAPolicy, UnusableTemplate), match="template"):
        adopt_model(str(source), "main", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
