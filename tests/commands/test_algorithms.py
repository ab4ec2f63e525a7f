"""`manage.py algorithms`: the table as text and JSON, one algorithm in full, and the response to an
unknown name.
"""

import io
import json

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from apps.runs.algorithms.algorithm import Algorithm
from apps.runs.algorithms.table import TABLE


def said(*arguments: str) -> str:
    out = io.StringIO()
    call_command("algorithms", *arguments, stdout=out)
    return out.getvalue()


def row_of(name: str) -> str:
    return next(line for line in said().splitlines() if line.split()[0] == name)


def test_every_algorithm_has_a_line_in_the_table():
    first, *lines = said().splitlines()
    assert first.split() == [
        "name",
        "samples",
        "advantage",
        "loss",
        "aggregation",
        "kl",
        "entropy",
        "experts",
        "paper",
    ]
    assert [line.split()[0] for line in lines] == list(TABLE)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grpo", ["k3 0.04 in the loss", "seq-mean-token-mean", "arXiv 2402.03300"]),
        ("dapo", ["grpo(std_threshold=0)", "ppo(clip_high=0.28)", "token-mean"]),
        ("mix_chord", ["own and experts'", "sft_phi, 20% of rows, mu 0.9 to 0.05"]),
        ("raft", ["own, the best", "best", "sft"]),
        ("dpo", ["preferences", "none", "arXiv 2305.18290"]),
        ("on_policy_distill", ["teacher"]),
        ("rloo", ["k1 0.05 in the reward"]),
    ],
)
def test_line_shows_the_parts_and_settings_of_the_algorithm(name, words):
    assert [word for word in words if word not in row_of(name)] == []


def test_json_contains_the_complete_configuration_of_each_algorithm():
    for document in json.loads(said("--json")):
        assert (
            Algorithm.model_validate(document["algorithm"]).model_dump(mode="json")
            == document["algorithm"]
        )
        assert document["use"] == TABLE[document["name"]].use


def test_json_of_a_single_algorithm():
    assert json.loads(said("gspo", "--json"))["algorithm"]["loss"]["clip_low"] == 3e-4


def test_details_explain_when_to_use_an_algorithm_and_its_options():
    words = said("kimi_opmd")
    assert "arXiv 2501.12599" in words and TABLE["kimi_opmd"].use in words
    line = next(line for line in words.splitlines() if "loss.tau: 0.1" in line)
    assert "Weight of the squared distance" in line


@pytest.mark.parametrize("name", TABLE)
def test_every_option_of_every_algorithm_is_explained(name):
    options = said(name).split("algorithm:\n")[1].splitlines()
    assert [line for line in options if len(line.split(maxsplit=2)) < 3] == []


def test_every_algorithm_has_a_section_in_the_docs_with_its_paper():
    text = (settings.BASE_DIR / "docs" / "algorithms.md").read_text()
    sections = {part.splitlines()[0].strip(): part for part in text.split("\n### ")[1:]}
    assert set(sections) == set(TABLE)
    for name, row in TABLE.items():
        number = row.paper.split()[0]
        assert "Take it" in sections[name]
        if number[:4].isdigit() and " " not in row.paper:
            assert number in sections[name], name


def test_unknown_name_gets_the_nearest_name():
    with pytest.raises(CommandError, match="did you mean `gspo`"):
        said("gsp")
