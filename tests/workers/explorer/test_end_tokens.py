"""Every token that a policy's files declare as an end token ends its replies."""

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from apps.policies.end_tokens import declared_end_tokens
from apps.policies.manifest import read_manifest, seal_folder
from apps.policies.models import Policy
from apps.rollouts.models import Group, Rollout
from workers.explorer.chat_tokenizer import ChatTokenizer
from workers.trainer.lessons.tokenization import LessonTokenizer

LLAMA = (
    "{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content']"
    " }}<|eot_id|>{% endfor %}{% if add_generation_prompt"
    " %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
QWEN = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GEMMA = (
    "{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n{%"
    " endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
LLAMA_MARKS = [
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|eot_id|>",
]
QWEN_MARKS = ["<|im_start|>", "<|endoftext|>", "<|im_end|>"]
GEMMA_MARKS = ["<start_of_turn>", "<eos>", "<end_of_turn>"]


def folder_of(
    folder: Path, template: str, marks: list[str], eos: str, declared: dict[str, list[str]]
) -> Path:
    """Write a byte tokenizer with these special tokens, and files that declare end tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    others = [mark for mark in marks if mark != eos]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=eos,
        additional_special_tokens=others,
        chat_template=template,
    )
    fast.save_pretrained(folder)
    for name, texts in declared.items():
        ids = fast.convert_tokens_to_ids(texts)
        (folder / name).write_text(json.dumps({"eos_token_id": ids if len(ids) > 1 else ids[0]}))
    return folder


@pytest.mark.parametrize(
    ("template", "marks", "eos", "declared", "expected"),
    [
        (
            LLAMA,
            LLAMA_MARKS,
            "<|eot_id|>",
            {"generation_config.json": LLAMA_MARKS[2:]},
            ["<|eot_id|>", *LLAMA_MARKS[2:4]],
        ),
        (
            LLAMA,
            LLAMA_MARKS,
            "<|end_of_text|>",
            {"config.json": LLAMA_MARKS[2:]},
            ["<|eot_id|>", *LLAMA_MARKS[2:4]],
        ),
        (
            QWEN,
            QWEN_MARKS,
            "<|im_end|>",
            {
                "generation_config.json": ["<|im_end|>", "<|endoftext|>"],
                "config.json": ["<|im_end|>"],
            },
            ["<|im_end|>", "<|endoftext|>"],
        ),
        (
            GEMMA,
            GEMMA_MARKS,
            "<eos>",
            {"generation_config.json": ["<eos>", "<end_of_turn>"]},
            ["<end_of_turn>", "<eos>"],
        ),
        (QWEN, QWEN_MARKS, "<|im_end|>", {}, ["<|im_end|>"]),
    ],
    ids=["llama", "llama whose tokenizer names another", "qwen", "gemma", "nothing declared"],
)
def test_all_declared_end_tokens_end_a_reply_with_the_templates_own_first(
    tmp_path, template, marks, eos, declared, expected
):
    chat_tokenizer = ChatTokenizer(folder_of(tmp_path, template, marks, eos, declared))
    assert (
        chat_tokenizer.tokenizer.convert_ids_to_tokens(list(chat_tokenizer.stop_token_ids))
        == expected
    )
    said = chat_tokenizer.tokenizer.encode("yes", add_special_tokens=False)
    for end in chat_tokenizer.stop_token_ids:
        assert chat_tokenizer.text([*said, end]) == "yes"
    between = chat_tokenizer.follow_up_ids(
        [{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]
    )
    assert chat_tokenizer.tokenizer.decode(between).count("b") == 1


def test_invalid_end_tokens_are_ignored(tmp_path):
    folder_of(tmp_path, QWEN, QWEN_MARKS, "<|im_end|>", {})
    (tmp_path / "config.json").write_text(
        '{"eos_token_id": [99999, null, "x", true], "text_config": {"eos_token_id": 7}}'
    )
    assert declared_end_tokens(tmp_path) == [99999, 7]
    assert 99999 not in ChatTokenizer(tmp_path).stop_token_ids


def test_tokens_beyond_the_tokenizer_have_no_text(tmp_path):
    chat_tokenizer = ChatTokenizer(folder_of(tmp_path, QWEN, QWEN_MARKS, "<|im_end|>", {}))
    (letter,) = chat_tokenizer.tokenizer.encode("a", add_special_tokens=False)
    beyond = len(chat_tokenizer.tokenizer) + 3
    texts = chat_tokenizer.token_texts([letter, beyond, letter])
    assert texts == [("a", [97]), ("", []), ("a", [97])]


def test_lessons_end_with_the_token_that_ends_a_turn(tmp_path):
    declared = {"generation_config.json": ["<eos>", "<end_of_turn>"]}
    folder = folder_of(tmp_path, GEMMA, GEMMA_MARKS, "<eos>", declared)
    lesson_tokenizer = LessonTokenizer(folder)

    end = lesson_tokenizer.answer("yes")[-1]

    assert end == lesson_tokenizer.tokenizer.convert_tokens_to_ids("<end_of_turn>")
    assert end == ChatTokenizer(folder).stop_token_ids[0]


def test_texts_for_a_reward_model_end_as_it_reads_them(tmp_path):
    declared = {"generation_config.json": ["<eos>", "<end_of_turn>"]}
    folder = folder_of(tmp_path, GEMMA, GEMMA_MARKS, "<eos>", declared)
    lesson_tokenizer = LessonTokenizer(folder, scores=True)

    assert lesson_tokenizer.answer("yes")[-1] == lesson_tokenizer.tokenizer.eos_token_id


@pytest.mark.django_db(transaction=True)
def test_replies_of_a_run_end_with_any_declared_end_token(new_run, tiny_policy, tmp_path, stage):
    folder = tmp_path / "unfinished"
    shutil.copytree(tiny_policy.folder, folder)
    (folder / "manifest.json").unlink()
    tokenizer_end = ChatTokenizer(folder).tokenizer.eos_token_id
    ends = [tokenizer_end, 7, 9]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    probe = read_manifest(tiny_policy.folder).probe
    sealed = seal_folder(folder, tmp_path / "sealed", 0, None, probe)
    fields = {"folder": str(tmp_path / "sealed"), "fingerprint": sealed.fingerprint}
    Policy.objects.filter(pk=tiny_policy.pk).update(**fields)
    new_run(sampling={"max_tokens": 100}, engine="transformers", group_size=16, max_staleness=0)

    def ended() -> bool:
        stage.explorer.serve()
        return Group.objects.exists() and not Group.objects.filter(state="sampling").exists()

    stage.eventually(ended, 300)
    rollouts = list(Rollout.objects.filter(stop_reason="stop"))
    assert {rollout.tokens.completion_ids[-1] for rollout in rollouts} == set(ends)
    for rollout in rollouts:
        tokens = rollout.tokens
        assert not set(tokens.completion_ids[:-1]) & set(ends) and set(tokens.action_mask) == {1}
        assert rollout.text == stage.session.chat_tokenizer.text(list(tokens.completion_ids[:-1]))
