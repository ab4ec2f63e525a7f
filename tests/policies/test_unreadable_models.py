"""Folders that cannot be read as their declared model: one sentence, and no files are left."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from workers.policies import adopt
from workers.policies.bringing_in import NotAPolicy, adopt_model
from workers.policies.tiny import build_tiny

WEIGHTS = "model.safetensors"
NOT_THE_MODEL = "the tensors are not those of the model that config.json describes: "


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "tiny"
    build_tiny(folder)
    (folder / "manifest.json").unlink()
    return folder


@pytest.fixture
def source(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "source"))


def refusal(source: Path) -> str:
    """Return the sentence that refuses the folder, and require that no other files are left."""
    with pytest.raises(NotAPolicy) as caught:
        adopt_model(str(source), "main", source.with_name("sealed"))
    assert [path.name for path in source.parent.iterdir()] == [source.name]
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 600
    return sentence


def configure(source: Path, **changes: object) -> None:
    path = source / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": "many"}, "Field 'hidden_size' expected int, got str"),
        ({"hidden_size": -8}, "negative dimension -8"),
        ({"num_attention_heads": 0}, "ZeroDivisionError"),
        ({"vocab_size": 3}, "config.json tells of other sizes than the tensors have"),
        ({"vocab_size": 10**12}, "config.json tells of other sizes than the tensors have"),
        ({"hidden_act": "nope"}, "KeyError: 'nope'"),
        ({"dtype": "float3"}, "float3"),
        ({"model_type": "nonsense"}, "model type `nonsense`"),
    ],
)
def test_invalid_configuration_is_reported_in_one_sentence(source, changes, words):
    configure(source, **changes)
    sentence = refusal(source)
    assert sentence.startswith("the model cannot be read: ") and words in sentence


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b"{"),
        ("tokenizer.json", b"[]"),
        ("tokenizer.json", b"{}"),
        ("tokenizer_config.json", b"[]"),
        ("chat_template.jinja", b"\xff\xfe"),
    ],
)
def test_unreadable_tokenizer_is_reported_in_one_sentence(source, name, content):
    (source / name).write_bytes(content)
    assert refusal(source).startswith("the tokenizer or its chat template cannot be read: ")


def without_norm(tensors: dict) -> dict:
    return {name: each for name, each in tensors.items() if name != "model.norm.weight"}


def with_another(tensors: dict) -> dict:
    return tensors | {"model.extra.weight": tensors["model.norm.weight"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_norm, "missing keys: model.norm.weight"),
        (with_another, "unexpected keys: model.extra"),
    ],
)
def test_missing_or_unexpected_tensors_are_refused(source, change: Callable[[dict], dict], words):
    tensors = load_file(source / WEIGHTS)
    save_file(change(tensors), source / WEIGHTS, metadata={"format": "pt"})
    assert refusal(source).startswith(NOT_THE_MODEL + words)


def test_weights_of_another_model_type_are_refused(source):
    configure(source, model_type="bert")
    assert refusal(source).startswith(NOT_THE_MODEL + "missing keys: bert.embeddings")


def test_command_prints_one_sentence_without_traceback(source, monkeypatch, capsys):
    configure(source, num_attention_heads=0)
    out = source.with_name("sealed")
    monkeypatch.setattr("sys.argv", ["adopt", str(source), "--out", str(out)])
    assert adopt.main() == 1
    said = capsys.readouterr().err
    assert "the model cannot be read: ZeroDivisionError" in said and "Traceback" not in said
