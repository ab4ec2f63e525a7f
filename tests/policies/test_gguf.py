"""GGUF files become policies with the logits of the files' models; everything else is refused with
a message.
"""

import struct

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.damage import Damage, DamagedWeights
from apps.policies.end_tokens import declared_end_tokens
from apps.policies.manifest import verify_folder
from tests.policies.gguf_files import END, KINDS, SPECIAL, TOKENS, write_gguf
from workers.policies.bringing_in import ModelRequest, NotAPolicy, bring_in
from workers.policies.gguf_header import read_header
from workers.policies.gguf_model import UnreadableGguf, _llama3_factors
from workers.weights import publish_weights

TEXT = "the cat sat on the mat, 14 + 8 – naïve"
TOKEN_IDS = torch.tensor([[7, 90, 150, 3, 261, 262, 20, 21, 22, 5]])


def sealed(source, tmp_path, **how):
    """Adopt the source; return folder, manifest and origin."""
    folder = tmp_path / "sealed"
    manifest, origin = bring_in(ModelRequest(str(source), **how), folder)
    return folder, manifest, origin


def refused(source, tmp_path) -> Exception:
    with pytest.raises((DamagedWeights, UnreadableGguf, NotAPolicy)) as caught:
        sealed(source, tmp_path)
    assert not [path.name for path in tmp_path.iterdir() if path.suffix != ".gguf"]
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_adopted_gguf_has_the_logits_of_its_source_model(tmp_path, architecture, kind):
    made = write_gguf(tmp_path / "tiny.gguf", architecture, kind)
    folder, manifest, origin = sealed(made.path, tmp_path)
    ours = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        wanted = made.model(TOKEN_IDS).logits
        found = ours(TOKEN_IDS).logits
    # Gemma's norms are written as weight + 1, which is rounded.
    assert torch.allclose(found, wanted, rtol=0, atol=1e-4 if architecture == "gemma3" else 0)
    assert {spec.dtype for spec in manifest.tensors.values()} == {"F32"}
    assert verify_folder(folder) == manifest
    assert origin.licence == "apache-2.0"


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_separate_output_matrix_is_kept(tmp_path, architecture):
    made = write_gguf(tmp_path / "tiny.gguf", architecture, "F32", tied=False)
    folder, manifest, _ = sealed(made.path, tmp_path)
    assert "lm_head.weight" in manifest.tensors
    with torch.no_grad():
        found = AutoModelForCausalLM.from_pretrained(folder).eval()(TOKEN_IDS).logits
        assert torch.equal(found, made.model(TOKEN_IDS).logits)


def test_tokenizer_is_that_of_the_gguf_file(tmp_path):
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32")
    folder, _, _ = sealed(made.path, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(TEXT, add_special_tokens=False)
    assert tokenizer.decode(ids) == TEXT
    assert [TOKENS[one] for one in ids[:3]] == ["the", "Ġ", "c"]
    assert "Ġthe" in [TOKENS[one] for one in ids]
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL)) == list(range(len(SPECIAL)))
    assert (tokenizer.eos_token, declared_end_tokens(folder)) == ("<|end|>", [END])


def test_all_tokens_that_end_a_reply_are_declared(tmp_path):
    ends = {"tokenizer.ggml.eot_token_id": 3, "tokenizer.ggml.eom_token_id": 4}
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", metadata=ends)
    folder, _, _ = sealed(made.path, tmp_path)
    assert declared_end_tokens(folder) == [END, 3, 4]


def test_small_updates_of_an_adopted_gguf_are_kept_when_published(tmp_path):
    made = write_gguf(tmp_path / "tiny.gguf", "qwen2", "Q8_0")
    folder, manifest, _ = sealed(made.path, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder)
    weight = model.model.layers[0].mlp.up_proj.weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1e-5)
    newer = publish_weights(model, folder, tmp_path / "v1", 1, 0)
    assert newer.tensors == manifest.tensors
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "v1")
    moved = read.model.layers[0].mlp.up_proj.weight - before
    assert torch.allclose(moved, torch.full_like(moved, 1e-5), rtol=1e-2, atol=0)


def test_folder_with_one_gguf_file_is_accepted_and_its_other_files_are_ignored(tmp_path):
    source = tmp_path / "model.gguf.d"
    source.mkdir()
    write_gguf(source / "tiny.gguf", "llama", "F16")
    (source / "config.json").write_text('{"model_type": "other", "auto_map": {"AutoModel": "x.Y"}}')
    (source / "adapter_config.json").write_text("{}")
    folder, _, _ = sealed(source, tmp_path)
    assert '"llama"' in (folder / "config.json").read_text()


def test_folder_with_several_gguf_files_requires_a_choice(tmp_path):
    source = tmp_path / "several"
    source.mkdir()
    for name in ("a.gguf", "b.gguf"):
        write_gguf(source / name, "llama", "F16")
    with pytest.raises(NotAPolicy, match=r"contains 2 GGUF files \(a.gguf, b.gguf\): choose one"):
        sealed(source, tmp_path)
    assert sealed(source / "b.gguf", tmp_path)[1].version == 0


def test_unknown_pre_tokenizer_is_reported(tmp_path, capsys):
    pre = {"tokenizer.ggml.pre": "other"}
    path = tmp_path / "tiny.gguf"
    made = write_gguf(path, "llama", "F32")
    raw = made.path.read_bytes()
    assert raw.count(b"gpt-2") == 1
    path.write_bytes(raw.replace(b"gpt-2", pre["tokenizer.ggml.pre"].encode()))
    sealed(path, tmp_path)
    assert "unknown pre-tokenizer 'other'" in capsys.readouterr().err


# -- positions ------------------------------------------------------------------------------------


def test_rope_scaling_is_taken_from_the_file(tmp_path):
    scaling = {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0}
    scaling["qwen2.rope.scaling.original_context_length"] = 32
    made = write_gguf(tmp_path / "tiny.gguf", "qwen2", "F32", metadata=scaling)
    folder, _, _ = sealed(made.path, tmp_path)
    parameters = AutoModelForCausalLM.from_pretrained(folder).config.rope_parameters
    told = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    assert told.items() <= parameters.items()


def test_only_full_attention_layers_of_gemma_are_scaled(tmp_path):
    scaling = {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    made = write_gguf(tmp_path / "tiny.gguf", "gemma3", "F32", metadata=scaling)
    folder, _, _ = sealed(made.path, tmp_path)
    parameters = AutoModelForCausalLM.from_pretrained(folder).config.rope_parameters
    assert parameters["full_attention"]["factor"] == 8.0
    assert parameters["sliding_attention"]["rope_type"] == "default"


def test_llama_3_rope_factors_are_read_from_their_tensor(tmp_path):
    factors = _llama3_factors(10_000.0, 16, 8.0).astype(np.float32)
    made = write_gguf(
        tmp_path / "tiny.gguf", "llama", "F32", tensors={"rope_freqs.weight": factors}
    )
    folder, _, _ = sealed(made.path, tmp_path)
    parameters = AutoModelForCausalLM.from_pretrained(folder).config.rope_parameters
    assert (parameters["rope_type"], parameters["factor"]) == ("llama3", 8.0)
    model = AutoModelForCausalLM.from_pretrained(folder)
    plain = 10_000.0 ** -(np.arange(0, 16, 2) / 16)
    stretched = model.model.rotary_emb.inv_freq.numpy()
    assert np.allclose(plain / factors, stretched, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metadata": {"llama.rope.scaling.type": "longrope"}}, "'longrope'"),
        ({"tensors": {"rope_freqs.weight": np.full(8, 3, np.float32)}}, "rope_freqs.weight"),
    ],
)
def test_unsupported_rope_scaling_is_refused(tmp_path, changes, words):
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", **changes)
    assert words in str(refused(made.path, tmp_path))


# -- refusals -------------------------------------------------------------------------------------


@pytest.fixture
def raw(tmp_path):
    """Return the bytes of an intact file, and the path for damaged ones."""
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F16")
    return bytearray(made.path.read_bytes()), made.path


def test_unsupported_architecture_is_refused_by_name(raw, tmp_path):
    content, path = raw
    path.write_bytes(content.replace(b"llama", b"rwkv7"))
    message = str(refused(path, tmp_path))
    assert "architecture 'rwkv7' is not supported" in message and "qwen3" in message


@pytest.mark.parametrize("keep", [0, 3, 4, 20, 100, 3000, -1])
def test_truncated_file_is_refused(raw, tmp_path, keep):
    content, path = raw
    path.write_bytes(content[:keep])
    error = refused(path, tmp_path)
    assert error.file == "tiny.gguf"
    assert error.kind == (Damage.TRUNCATED if keep not in (0, 3) else Damage.BAD_HEADER)


def test_header_truncated_anywhere_is_refused(raw):
    content, path = raw
    end = min(tensor.begin for tensor in read_header(path).tensors.values())
    for keep in range(0, end, 13):
        path.write_bytes(content[:keep])
        with pytest.raises(DamagedWeights):
            read_header(path)


@pytest.mark.parametrize("change", [-3, -1, 1, 2])
def test_wrong_tensor_count_is_refused(raw, tmp_path, change):
    content, path = raw
    (count,) = struct.unpack_from("<Q", content, 8)
    struct.pack_into("<Q", content, 8, count + change)
    path.write_bytes(content)
    error = refused(path, tmp_path)
    assert error.file == "tiny.gguf"
    assert (change < 0) == ("bytes after the last" in str(error))
    assert (change > 0) == ("fewer than the header counts" in str(error))


@pytest.mark.parametrize(
    ("at", "form", "value", "words"),
    [
        (0, "<I", 7, "is not a GGUF file"),
        (4, "<I", 1, "is GGUF version 1; supported: 2 and 3"),
        (4, "<I", 4, "is GGUF version 4"),
        (4, ">I", 3, "big-endian"),
        (8, "<Q", 0, "holds no tensor"),
        (8, "<Q", 1 << 63, "declares 9223372036854775808 tensors"),
        (16, "<Q", 1 << 40, "declares 1099511627776 metadata entries"),
        (24, "<Q", 1 << 60, "bytes of a metadata key"),
    ],
)
def test_wrong_value_in_the_header_is_refused(raw, tmp_path, at, form, value, words):
    content, path = raw
    struct.pack_into(form, content, at, value)
    path.write_bytes(content)
    assert words in str(refused(path, tmp_path))


def test_random_bytes_are_refused(raw, tmp_path):
    _, path = raw
    path.write_bytes(np.random.default_rng(1).bytes(100_000))
    assert "is not a GGUF file: it starts with" in str(refused(path, tmp_path))
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + np.random.default_rng(1).bytes(100_000))
    refused(path, tmp_path)


def test_changed_header_bytes_are_refused_or_read_without_another_error(raw):
    """Each changed byte is either harmless or raises DamagedWeights, quickly."""
    content, path = raw
    end = min(tensor.begin for tensor in read_header(path).tensors.values())
    for at in range(0, end, 7):
        damaged = bytearray(content)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        try:
            read_header(path)
        except DamagedWeights as damage:
            assert damage.file == "tiny.gguf"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (
            {"without": ["blk.1.ffn_up.weight"]},
            Damage.MISSING_TENSOR,
            "blk.1.ffn_up.weight is missing",
        ),
        ({"without": ["token_embd.weight"]}, Damage.MISSING_TENSOR, "token_embd.weight"),
        (
            {"tensors": {"blk.0.attn_q.bias": np.ones(64, np.float32)}},
            Damage.EXTRA_TENSOR,
            "blk.0.attn_q.bias is not supported",
        ),
        (
            {"without": ["output_norm.weight"], "tensors": {"output_norm.weight": np.ones(32)}},
            Damage.WRONG_SHAPE,
            "the configuration requires",
        ),
    ],
)
def test_tensors_that_do_not_match_the_model_are_refused(tmp_path, changes, kind, words):
    arrays = {name: array.astype(np.float32) for name, array in changes.get("tensors", {}).items()}
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", **{**changes, "tensors": arrays})
    error = refused(made.path, tmp_path)
    assert error.kind == kind and words in str(error)


def test_missing_end_token_is_refused(tmp_path):
    metadata = {"tokenizer.ggml.eot_token_id": 99_999}
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", metadata=metadata)
    words = f"eot_token_id is 99999, but there are {len(TOKENS)} tokens"
    assert words in str(refused(made.path, tmp_path))


def test_part_of_a_split_file_is_refused(tmp_path):
    parts = {"split.count": 3, "split.no": 1}
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", metadata=parts)
    assert "is part 2 of a file split in 3" in str(refused(made.path, tmp_path))


def test_weights_with_nan_are_refused(tmp_path):
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32")
    norm = read_header(made.path).tensors["output_norm.weight"]
    with made.path.open("r+b") as stream:
        stream.seek(norm.begin)
        stream.write(struct.pack("<f", float("nan")))
    assert refused(made.path, tmp_path).kind == Damage.NOT_FINITE


def test_huge_model_is_refused_before_it_is_created(raw, tmp_path):
    content, path = raw
    for value, words in ((999_999, "the limit is 1000"), (900, "is missing")):
        damaged = bytearray(content)
        at = damaged.index(b"llama.block_count") + len(b"llama.block_count") + 4
        struct.pack_into("<I", damaged, at, value)
        path.write_bytes(damaged)
        assert words in str(refused(path, tmp_path))


def test_file_that_is_not_gguf_is_refused(tmp_path):
    (tmp_path / "weights.pt").write_bytes(b"x")
    with pytest.raises(NotAPolicy, match=r"does not end in \.gguf"):
        sealed(tmp_path / "weights.pt", tmp_path)


def test_file_without_chat_template_requires_a_choice(tmp_path):
    made = write_gguf(tmp_path / "tiny.gguf", "llama", "F32", template=None)
    assert "choose one: your own, or chatml" in str(refused(made.path, tmp_path))
    folder, _, _ = sealed(made.path, tmp_path, chat_template="plain")
    assert "Assistant:" in (folder / "chat_template.jinja").read_text()
