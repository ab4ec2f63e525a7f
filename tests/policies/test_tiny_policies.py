"""Tiny policies: two builds are identical; they encode, sample, and pass every check of a real
folder.
"""

import dataclasses
import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from apps.policies.manifest import read_manifest, verify_folder
from apps.tasksets import tone_language
from workers.policies import building, recipes, sampling, warming
from workers.policies.tiny import build_tiny

QUICK = {"warmup_steps": 4, "rows": 8, "hidden": 32, "layers": 1}


@pytest.fixture
def tiny(tmp_path):
    build_tiny(tmp_path / "tiny")
    return tmp_path / "tiny"


def quick(name: str) -> recipes.Recipe:
    return dataclasses.replace(recipes.find_recipe(name), **QUICK)


@pytest.mark.parametrize("name", sorted(recipes.RECIPES))
def test_two_builds_with_one_seed_are_identical(tmp_path, name):
    torch.set_num_threads(1)
    lines: list[str] = []
    folder, first, built = building.ensure(quick(name), tmp_path / "a", 0, lines.append)
    _, second, _ = building.ensure(quick(name), tmp_path / "b", 0, lines.append)
    _, other, _ = building.ensure(quick(name), tmp_path / "b", 1, lines.append)
    assert built and first.files == second.files
    assert other.fingerprint != first.fingerprint
    assert any("step 4/4" in line for line in lines) and any(
        "mean reward" in line for line in lines
    )
    assert folder.name.startswith(f"{name}-")


def test_second_call_finds_the_policy_and_builds_nothing(tmp_path):
    building.ensure(quick("sort"), tmp_path, 0, lambda line: None)
    lines: list[str] = []
    *_, built = building.ensure(quick("sort"), tmp_path, 0, lines.append)
    assert not built and not lines


def test_damaged_build_is_refused(tmp_path):
    folder, *_ = building.ensure(quick("sort"), tmp_path, 0, lambda line: None)
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(SystemExit, match="damaged"):
        building.ensure(quick("sort"), tmp_path, 0, lambda line: None)


def test_recipe_key_depends_on_the_recipe_and_the_seed():
    keys = {
        building.recipe_key(recipe, 0)
        for recipe in (quick("sort"), quick("tone"), recipes.find_recipe("sort"))
    }
    assert len(keys | {building.recipe_key(quick("sort"), 1)}) == 4


def test_sealed_probe_equals_the_logprobs_of_the_loaded_model(tiny):
    manifest = verify_folder(tiny)
    model = AutoModelForCausalLM.from_pretrained(tiny).eval()
    assert sampling.probe_logprobs(model, list(manifest.probe.token_ids)) == pytest.approx(
        manifest.probe.logprobs, abs=1e-5
    )
    assert (manifest.version, manifest.parent) == (0, None)


def test_tied_embeddings_are_stored_once(tiny):
    assert "lm_head.weight" not in read_manifest(tiny).tensors


@pytest.mark.parametrize("text", ["52950", "0"])
def test_each_digit_is_a_token_and_decodes_unchanged(text):
    tokenizer = recipes.find_recipe("sort").tokenizer()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text


def test_every_tone_sentence_decodes_unchanged():
    tokenizer = recipes.find_recipe("tone").tokenizer()
    for by_manner in tone_language.SENTENCES.values():
        for text in (text.format(object="radio") for texts in by_manner.values() for text in texts):
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text


def test_saved_tokenizer_formats_messages_by_the_template(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    ids = warming.prompt_ids(tokenizer, "42")
    assert tokenizer.decode(ids) == "<|user|>42<|end|><|assistant|>"
    assert tokenizer.eos_token == "<|end|>" and tokenizer.pad_token_id != tokenizer.eos_token_id


def test_characters_outside_the_alphabet_become_unknown_tokens(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    assert tokenizer.decode(warming.prompt_ids(tokenizer, "abc")).count("<|unknown|>") == 3


def test_padding_does_not_change_logprobs(tiny):
    model = AutoModelForCausalLM.from_pretrained(tiny).eval()
    short = [5, 6, 7]
    long = [5, 6, 7, 8, 9, 10, 11]
    batch = sampling.sample_batch(model, [short, long], 6, seeds=[3, 4])
    for prompt, (ids, logprobs) in zip([short, long], batch.rows(), strict=True):
        alone = sampling.probe_logprobs(model, prompt + ids)[len(prompt) - 1 :]
        assert logprobs == pytest.approx(alone, abs=1e-4)


def test_demonstrations_have_the_documented_share_of_ascending_replies():
    stream = recipes.find_recipe("sort").demonstrate(0)
    pairs = [next(stream) for _ in range(4000)]
    ascending = sum(said == "".join(sorted(asked)) for asked, said in pairs) / len(pairs)
    assert 0.36 < ascending < 0.45


def test_foreign_folder_is_checked_and_sealed(tmp_path, tiny):
    (tiny / "manifest.json").unlink()
    done = run_adopt(tiny, tmp_path / "adopted")
    assert done.returncode == 0, done.stderr
    assert verify_folder(tmp_path / "adopted").version == 0


def test_folder_with_code_is_not_adopted(tmp_path, tiny):
    (tiny / "modeling.py").write_text("print('hello')")
    done = run_adopt(tiny, tmp_path / "adopted")
    assert done.returncode == 1
    assert "modeling.py" in done.stderr and "hello" not in done.stdout
    assert not (tmp_path / "adopted").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_source_that_is_neither_folder_nor_hub_id_is_refused(tmp_path):
    done = run_adopt("/nowhere/at/all", tmp_path / "adopted")
    assert done.returncode == 1
    assert "must be a folder, a GGUF file, a Hub ID" in done.stderr


def test_obvious_refusal_comes_before_torch_is_imported(tmp_path):
    """Importing torch and transformers takes seconds."""
    code = (
        "import sys; from workers.policies import adopt; "
        f"sys.argv = ['adopt', '/nowhere', '--out', {str(tmp_path / 'adopted')!r}]; "
        "assert adopt.main() == 1; assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run_adopt(source, final) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "workers.policies.adopt", str(source), "--out", str(final)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
