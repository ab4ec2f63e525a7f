"""Chat templates by name or file are adapted to the tokenizer, tried and shown; those that do not
work are refused.
"""

import json
import shutil

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.chat_presets import PRESETS
from workers.chat_encoder import ChatEncoder
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.policies.bringing_in import ModelRequest, NotAPolicy, bring_in
from workers.policies.chat_check import UnusableTemplate
from workers.policies.chat_template import NoTemplate
from workers.policies.tiny import build_tiny

SYSTEM = {"role": "system", "content": "Add."}
DIALOGUE = [
    SYSTEM,
    {"role": "user", "content": "1+1"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "2+2"},
]
WRITTEN = {
    "chatml": (
        "<|im_start|>system\nAdd.<|im_end|>\n<|im_start|>user\n1+1<|im_end|>\n"
        "<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\n2+2<|im_end|>\n<|im_start|>assistant\n"
    ),
    "llama3": (
        "<s><|start_header_id|>system<|end_header_id|>\n\nAdd.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n1+1<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n2<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n2+2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "gemma": (
        "<s><start_of_turn>user\nAdd.\n\n1+1<end_of_turn>\n<start_of_turn>model\n2<end_of_turn>\n"
        "<start_of_turn>user\n2+2<end_of_turn>\n<start_of_turn>model\n"
    ),
    "mistral": "<s>[INST] Add.\n\n1+1 [/INST] 2<|end|>[INST] 2+2 [/INST]",
    "zephyr": (
        "<|system|>\nAdd.<|end|>\n<|user|>\n1+1<|end|>\n<|assistant|>\n2<|end|>\n"
        "<|user|>\n2+2<|end|>\n<|assistant|>\n"
    ),
    "plain": "System: Add.\n\nUser: 1+1\n\nAssistant: 2<|end|>\n\nUser: 2+2\n\nAssistant:",
}
ENDS = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>", "gemma": "<end_of_turn>"}
# The tokenizer of the tiny policy has no tokens for letters: they become "unknown".


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Create a model without a chat template whose tokenizer has the special tokens of presets."""
    folder = tmp_path_factory.mktemp("model") / "policy"
    build_tiny(folder)
    (folder / "manifest.json").unlink()
    (folder / "chat_template.jinja").unlink()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    marks = [mark for name, preset in PRESETS.items() if name != "plain" for mark in preset.marks]
    new = [mark for mark in ("<s>", *marks) if mark not in tokenizer.get_vocab()]
    tokenizer.add_special_tokens({"bos_token": "<s>", "additional_special_tokens": new[1:]})
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert not AutoTokenizer.from_pretrained(folder).chat_template
    return folder


@pytest.fixture(scope="module")
def without_marks(tmp_path_factory):
    """Create a model whose tokenizer has only the end token as a special token."""
    folder = tmp_path_factory.mktemp("bare") / "policy"
    build_tiny(folder)
    (folder / "manifest.json").unlink()
    return folder


def given(source, tmp_path, template):
    folder = tmp_path / "sealed"
    bring_in(ModelRequest(str(source), chat_template=str(template)), folder)
    return folder


@pytest.mark.parametrize("name", PRESETS)
def test_preset_template_formats_dialogues_of_its_model_family(source, tmp_path, name, capsys):
    folder = given(source, tmp_path, name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    written = tokenizer.apply_chat_template(DIALOGUE, add_generation_prompt=True, tokenize=False)
    assert written == WRITTEN[name]
    shown = capsys.readouterr().err
    assert f"a dialogue by the chat template {name}:" in shown
    assert "What is 2 + 3?" in shown and "And 4 + 4?" in shown


@pytest.mark.parametrize("name", PRESETS)
def test_messages_cannot_forge_marks_of_the_preset(source, tmp_path, name):
    folder = given(source, tmp_path, name)
    ChatEncoder(AutoTokenizer.from_pretrained(folder)).require_safe()


@pytest.mark.parametrize("name", PRESETS)
def test_replies_stop_at_the_presets_end_of_turn_and_dialogues_continue(source, tmp_path, name):
    chat_tokenizer = ChatTokenizer(given(source, tmp_path, name))
    end = chat_tokenizer.tokenizer.convert_tokens_to_ids(ENDS.get(name, "<|end|>"))
    assert chat_tokenizer.stop_token_ids[0] == end
    assert chat_tokenizer.follow_up_ids(DIALOGUE[1:2], DIALOGUE[3:])


@pytest.mark.parametrize("name", ENDS)
def test_preset_whose_marks_are_not_tokens_is_refused(without_marks, tmp_path, name):
    with pytest.raises(NoTemplate, match=r"the tokenizer has no token .*; plain needs none"):
        given(without_marks, tmp_path, name)
    assert not (tmp_path / "sealed").exists()


@pytest.mark.parametrize("name", ["mistral", "plain"])
def test_preset_with_marks_as_plain_text_is_reported(without_marks, tmp_path, name, capsys):
    given(without_marks, tmp_path, name)
    assert "are ordinary text, which tasks may also contain" in capsys.readouterr().err


def test_template_file_replaces_the_models_own_template(without_marks, tmp_path, capsys):
    file = tmp_path / "mine.jinja"
    own = (without_marks / "chat_template.jinja").read_text()
    file.write_text("{{ '1' }}" + own)
    folder = given(without_marks, tmp_path, file)
    assert AutoTokenizer.from_pretrained(folder).chat_template == "{{ '1' }}" + own
    assert "    1<|user|>What is 2 + 3?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{{ raise_exception('never') }}", UnusableTemplate, "cannot render a message: never"),
        ("{% for m in messages %}", UnusableTemplate, "cannot render a message"),
        ("hello", UnusableTemplate, "omits the user's message"),
        ("", NotAPolicy, "has no chat template"),
        (
            "{% for m in messages %}{{ m['content'] | replace('\\n', '') }}{% endfor %}",
            NotAPolicy,
            "control tokens cannot be kept out of messages",
        ),
    ],
)
def test_template_that_does_not_work_is_refused(without_marks, tmp_path, text, error, words):
    file = tmp_path / "mine.jinja"
    file.write_text(text)
    with pytest.raises(error, match=words) as caught:
        given(without_marks, tmp_path, file)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "sealed").exists()


def test_unknown_template_name_is_refused_with_the_known_names(without_marks, tmp_path):
    with pytest.raises(NoTemplate, match="'chatlm' is neither a file nor one of chatml, llama3"):
        given(without_marks, tmp_path, "chatlm")


def test_template_file_that_is_not_utf8_or_too_long_is_refused(without_marks, tmp_path):
    file = tmp_path / "mine.jinja"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(NoTemplate, match=r"mine\.jinja is not UTF-8"):
        given(without_marks, tmp_path, file)
    file.write_text("x" * (1 << 20) + "x")
    with pytest.raises(NoTemplate, match="larger than 1048576 bytes"):
        given(without_marks, tmp_path, file)


def test_end_tokens_that_the_model_declares_are_kept(source, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(source, changed)
    (changed / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
    folder = given(changed, tmp_path, "chatml")
    ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    end = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("<|im_end|>")
    assert ends == [1, 3, end]
