"""GGUF files give the model's logprobs when read by transformers and, where it is installed, by
llama.cpp."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader, TokenType
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.as_gguf import NotAsGguf
from tests.workers.exporting.tiny_models import (
    CONFIGS,
    SPECIAL,
    TEXTS,
    byte_level,
    sealed,
    sentencepiece,
)
from workers.exporting import gguf_writing
from workers.exporting.architectures import Model, size_label
from workers.exporting.gguf_writing import GgufDescription, write_gguf
from workers.exporting.vocabulary import read_vocabulary

IDS = [1, 40, 50, 60, 70, 80, 90, 100, 44, 45, 2, 10, 120, 200, 7]
LLAMA_CPP = os.environ.get("RFTWEB_TEST_LLAMA_CPP", sys.executable)
SAYS = Path(__file__).with_name("llama_cpp_says.py")
TOLD = GgufDescription("tiny", "run lab/tiny, version 3", 0.7, "Apache-2.0")
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
SPLITTINGS = ("gpt-2", "smollm", "qwen2", "llama-bpe")
BLANKS = ("before", "always", "first", "never")


def logprobs(model: torch.nn.Module, ids: list[int] = IDS) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].log_softmax(-1).double().numpy()


def written(
    tmp_path: Path, kind: str, tokenizer=None, form: str = "gguf-f16"
) -> tuple[torch.nn.Module, Path]:
    """Return a model and its GGUF file; gemma gets a SentencePiece tokenizer, like its own."""
    tokenizer = tokenizer or (sentencepiece("never") if kind.startswith("gemma") else byte_level())
    model = sealed(tmp_path / "policy", kind, tokenizer)
    out = tmp_path / "out"
    out.mkdir()
    return model, write_gguf(tmp_path / "policy", out, form, TOLD)


def said_by_llama_cpp(path: Path, texts: list[str]) -> dict:
    """Return llama.cpp's output for the texts; skip the test where the package is missing."""
    if subprocess.run(
        [LLAMA_CPP, "-c", "import llama_cpp"], capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "llama_cpp is not installed; RFTWEB_TEST_LLAMA_CPP may name an interpreter that has it"
        )
    asked = json.dumps({"ids": IDS, "texts": texts})
    done = subprocess.run(
        [LLAMA_CPP, SAYS, path], input=asked, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


# -- numbers ---------------------------------------------------------------------------------------


# transformers reads neither the first Gemma nor Llama 3's rope factors from GGUF, so only llama.cpp
# tests them.
@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind not in ("gemma", "llama3")])
def test_transformers_reads_the_gguf_file_with_nearly_equal_logprobs(tmp_path, kind):
    model, path = written(tmp_path, kind)
    read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype="float32")
    assert type(read).__name__ == type(model).__name__.replace(
        "Mistral", "Llama"
    )  # the same architecture in GGUF
    assert np.abs(logprobs(read) - logprobs(model)).max() < 0.02


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2"])
def test_q8_0_logprobs_are_close_and_matrices_are_quantised(tmp_path, kind):
    model, path = written(tmp_path, kind, form="gguf-q8_0")
    read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype="float32")
    assert 1e-4 < np.abs(logprobs(read) - logprobs(model)).max() < 0.5
    kinds = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(path).tensors}
    assert kinds["token_embd.weight"] == "Q8_0" and kinds["output_norm.weight"] == "F32"


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_llama_cpp_logprobs_match_the_model(tmp_path, kind):
    model, path = written(tmp_path, kind)
    said = said_by_llama_cpp(path, [])
    assert np.abs(np.array(said["logprobs"]) - logprobs(model)).max() < 0.05


def test_a_tied_head_is_written_once(tmp_path):
    _, path = written(tmp_path, "qwen2")
    assert "output.weight" not in {tensor.name for tensor in GGUFReader(path).tensors}


def test_llama_3_rope_factors_match_transformers(tmp_path):
    model, path = written(tmp_path, "llama3")
    [factors] = [
        tensor.data for tensor in GGUFReader(path).tensors if tensor.name == "rope_freqs.weight"
    ]
    plain = 10000.0 ** -(np.arange(0, 16, 2) / 16)
    assert plain / factors == pytest.approx(model.model.rotary_emb.inv_freq.numpy(), rel=1e-6)
    assert factors.max() == pytest.approx(8.0)


def test_converting_large_matrices_in_bands_gives_the_same_bytes(tmp_path, monkeypatch):
    _, path = written(tmp_path, "llama", form="gguf-q8_0")
    whole = path.read_bytes()
    monkeypatch.setattr(gguf_writing, "BAND", 100)
    assert write_gguf(tmp_path / "policy", path.parent, "gguf-q8_0", TOLD).read_bytes() == whole


def test_number_too_large_for_f16_is_refused_with_its_tensor_name(tmp_path):
    placed = gguf_writing.GgufTensor(
        None,
        "model.layers.0.mlp.up_proj.weight",
        "x",
        (96, 64),
        gguf_writing.GGMLQuantizationType.F16,
    )
    values = torch.zeros(96, 64, dtype=torch.bfloat16)
    values[3, 4] = 70000.0
    with pytest.raises(
        NotAsGguf, match=r"up_proj\.weight contains the value 70144; the maximum of F16 is 65504"
    ):
        gguf_writing._converted(values, placed)


def test_size_labels():
    assert [size_label(number) for number in (950, 134_515_008, 1_543_714_304, 70_553_706_496)] == [
        "950",
        "135M",
        "1.5B",
        "71B",
    ]


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pre", SPLITTINGS)
def test_llama_cpp_tokenizes_like_the_byte_level_tokenizer(tmp_path, pre):
    tokenizer = byte_level(pre)
    _, path = written(tmp_path, "llama", tokenizer)
    assert GGUFReader(path).fields["tokenizer.ggml.pre"].contents() == pre
    texts = [*TEXTS, "a <note> in it"]
    said = said_by_llama_cpp(path, texts)
    assert said["tokens"] == [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    assert set(said["ends"]) == {
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    }  # <|endoftext|> is an end token by its name


@pytest.mark.parametrize("blank", BLANKS)
def test_llama_cpp_tokenizes_like_the_sentencepiece_tokenizer(tmp_path, blank):
    tokenizer = sentencepiece(blank)
    _, path = written(tmp_path, "llama", tokenizer)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "It isn't 12"}], tokenize=False, add_generation_prompt=True
    )
    own = [
        text for text in TEXTS if not (blank == "always" and text.startswith(" "))
    ]  # only llama.cpp adds a second blank
    texts = (
        [prompt] if blank == "first" else [*own, prompt]
    )  # "first": texts that begin with a special token, like prompts
    said = said_by_llama_cpp(path, texts)
    assert said["tokens"] == [tokenizer(text, add_special_tokens=False).input_ids for text in texts]


@pytest.mark.parametrize("make", [byte_level, sentencepiece])
def test_transformers_reads_the_same_tokenizer_from_gguf(tmp_path, make):
    tokenizer = make()
    _, path = written(tmp_path, "llama", tokenizer)
    read = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    assert (read.eos_token, read.pad_token, read.bos_token) == (SPECIAL[2], SPECIAL[0], SPECIAL[1])
    assert read.chat_template == tokenizer.chat_template
    vocabulary = tokenizer.get_vocab()
    assert {
        text: token for text, token in read.get_vocab().items() if text in vocabulary
    } == vocabulary
    for text in [
        text for text in TEXTS if make is byte_level or SPECIAL[1] not in text
    ]:  # it adds no blank after special tokens
        assert (
            read(text, add_special_tokens=False).input_ids
            == tokenizer(text, add_special_tokens=False).input_ids
        )


def test_embedding_rows_without_tokenizer_tokens_are_marked_unused(tmp_path):
    tokenizer = byte_level()
    sealed(tmp_path / "policy", "llama", tokenizer)
    told = read_vocabulary(tokenizer, tmp_path / "policy", len(tokenizer) + 3)
    assert (
        told.tokens[-1] == f"[PAD{len(tokenizer) + 2}]"
        and told.kinds[-3:] == [TokenType.UNUSED] * 3
    )
    assert (
        told.kinds[1] == TokenType.CONTROL
        and told.kinds[tokenizer.get_vocab()["<note>"]] == TokenType.USER_DEFINED
    )


def test_all_end_tokens_are_written(tmp_path):
    tokenizer = byte_level()
    sealed(tmp_path / "policy", "llama", tokenizer)
    (tmp_path / "policy" / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [0, 2, 1, 5]})
    )
    (tmp_path / "out").mkdir()
    path = write_gguf(tmp_path / "policy", tmp_path / "out", "gguf-f16", TOLD)
    fields = GGUFReader(path).fields
    named = [fields[f"tokenizer.ggml.{name}_token_id"].contents() for name in ("eos", "eot", "eom")]
    assert named == [2, 0, 1]
    text = (path.parent / "Modelfile").read_text()
    assert text.count("PARAMETER stop") == 4


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("llama", {"hidden_act": "gelu"}, "hidden_act is gelu"),
        ("llama", {"attention_bias": True}, "attention_bias is True"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8}, "use_sliding_window is True"),
        ("gemma", {"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ("gemma2", {"query_pre_attn_scalar": 144}, "query_pre_attn_scalar is 144"),
        ("gemma3", {"layer_types": ["full_attention"] * 7}, "layer_types is"),
        ("qwen3", {"rope_parameters": DYNAMIC}, "rope_type is dynamic"),
    ],
)
def test_config_that_llama_cpp_computes_differently_is_refused_by_its_field(kind, changes, words):
    config = CONFIGS[kind](500)
    for name, value in changes.items():
        setattr(config, name, value)
    with pytest.raises(NotAsGguf, match=words):
        Model(config)


def test_merges_that_scores_cannot_express_are_refused():
    tokenizer = sentencepiece()
    document = json.loads(tokenizer.backend_tokenizer.to_str())
    document["model"]["merges"].pop(20)
    tokenizer._tokenizer = tokenizer.backend_tokenizer.from_str(json.dumps(document))
    with pytest.raises(NotAsGguf, match="form a token but are not merged"):
        read_vocabulary(tokenizer, Path("/nowhere"), 2000)


def test_command_reports_the_reason_in_one_line_and_leaves_no_file(tmp_path):
    from workers.policies.tiny import build_tiny

    build_tiny(tmp_path / "sort")
    out = tmp_path / "out"
    out.mkdir()
    command = [
        sys.executable,
        "-m",
        "workers.exporting.gguf_file",
        tmp_path / "sort",
        "--out",
        out,
        "--form",
        "gguf-f16",
    ]
    done = subprocess.run(
        [*command, "--description", '{"name": "x"}'], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "GGUF does not support tokenizers of the type WordLevel"
    assert not list(out.iterdir())
