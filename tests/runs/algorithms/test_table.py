"""The name of an algorithm sets all options; explicit options win."""

import inspect

import pytest

from apps.pipelines.advantages import ADVANTAGES
from apps.pipelines.advantages.multistep import gigpo, step_wise_grpo
from apps.pipelines.advantages.named import gdpo
from apps.pipelines.advantages.token import discounted, gae
from apps.runs.algorithms import advantages as sections
from apps.runs.algorithms.snapshot import SOURCES
from apps.runs.algorithms.table import TABLE
from apps.runs.parsing import from_yaml, parse_config, to_yaml

GOOD = {
    "policy": "p",
    "taskset": "t",
    "steps": 3,
    "rewards": [{"scorer": "sort"}, {"scorer": "tone"}],
}


def plan_of(name: str, **parts: object):
    """Return a plan with what the algorithm cannot know: the data source and the teacher."""
    changes: dict[str, object] = {"algorithm": {"name": name, **parts}}
    if name in SOURCES:
        changes |= {"snapshot": {"source": SOURCES[name]}, "rewards": []}
    if TABLE[name].parts.get("reference", {}).get("kind") == "policy":
        changes["algorithm"] = {"reference": {"policy": "large"}, **changes["algorithm"]}
    return parse_config({**GOOD, **changes})


@pytest.mark.parametrize("name", TABLE)
def test_every_algorithm_is_complete_and_survives_storing(name):
    plan = plan_of(name)
    assert plan.algorithm.name == name
    assert parse_config(plan.model_dump(mode="json")) == plan == from_yaml(to_yaml(plan))


@pytest.mark.parametrize("name", TABLE)
def test_every_algorithm_has_a_title_a_paper_and_one_sentence_of_use(name):
    row = TABLE[name]
    assert row.title and row.paper and row.use.endswith(".") and ". " not in row.use


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("grpo", "kl.estimator", "k3"),
        ("grpo", "kl.coefficient", 0.04),
        ("grpo", "aggregation", "seq-mean-token-mean"),
        ("dr_grpo", "advantage.scale", "none"),
        ("dr_grpo", "aggregation", "seq-mean-token-sum-norm"),
        ("dapo", "loss.clip_high", 0.28),
        ("dapo", "advantage.std_threshold", 0.0),
        ("dapo", "aggregation", "token-mean"),
        ("dapo", "kl.estimator", "none"),
        ("gspo", "loss.clip_low", 3e-4),
        ("gspo", "loss.clip_high", 4e-4),
        ("gspo", "aggregation", "seq-mean-token-mean"),
        ("kimi_opmd", "reset_optimizer", True),
        ("kimi_opmd", "aggregation", "seq-mean-token-sum"),
        ("asymre", "advantage.baseline_shift", -0.1),
        ("mix", "expert.mu", 0.1),
        ("mix_chord", "expert.loss.name", "sft_phi"),
        ("mix_chord", "expert.schedule.peak", 0.9),
        ("dpo", "loss.beta", 0.1),
        ("rloo", "kl.where", "reward"),
        ("raft", "loss.name", "sft"),
    ],
)
def test_algorithm_defaults_are_those_its_paper_recommends(name, field, value):
    part = plan_of(name).algorithm
    for step in field.split("."):
        part = getattr(part, step)
    assert part == value


def test_default_algorithm_is_grpo():
    assert parse_config(GOOD).algorithm == plan_of("grpo").algorithm


def test_algorithm_section_may_be_just_a_name():
    assert parse_config({**GOOD, "algorithm": "gspo"}).algorithm == plan_of("gspo").algorithm


def test_explicit_option_overrides_the_algorithm_and_its_other_defaults_stay():
    loss = plan_of("dapo", loss={"clip_low": 0.1}).algorithm.loss
    assert (loss.clip_low, loss.clip_high, loss.dual_clip) == (0.1, 0.28, None)


def test_different_loss_starts_from_its_own_defaults():
    algorithm = plan_of("dapo", loss={"name": "gspo", "clip_high": 0.001}).algorithm
    assert (algorithm.loss.clip_low, algorithm.loss.clip_high) == (3e-4, 0.001)
    assert algorithm.advantage.std_threshold == 0.0


def test_loss_advantage_kl_and_reference_may_be_just_a_name():
    algorithm = plan_of(
        "grpo", loss="cispo", advantage="rloo", kl="none", reference="average"
    ).algorithm
    assert (algorithm.loss.name, algorithm.advantage.name) == ("cispo", "rloo")
    assert (algorithm.kl.estimator, algorithm.kl.coefficient, algorithm.reference.kind) == (
        "none",
        0.0,
        "average",
    )


@pytest.mark.parametrize(
    ("ratio", "usual", "experts"),
    [(0.2, 256, 64), (0.5, 128, 128), (0.2, 128, 32), (0.1, 128, 15), (0.0, 128, 0)],
)
def test_number_of_expert_rows_follows_from_the_ratio(ratio, usual, experts):
    expert = {"ratio": ratio, "mu": 0.1, "source": "buffer"} if ratio else {"ratio": 0.0, "mu": 0.0}
    plan = parse_config(
        {**GOOD, "groups_per_step": usual // 8, "algorithm": {"name": "mix", "expert": expert}}
    )
    assert (plan.usual_rows_per_step, plan.expert_rows_per_step, plan.rows_per_step) == (
        usual,
        experts,
        usual + experts,
    )
    assert plan.expert_rows_per_step >= ratio * plan.rows_per_step - 1e-9


def test_raft_trains_as_many_rows_of_a_group_as_it_keeps():
    assert (
        parse_config(
            {**GOOD, "algorithm": {"name": "raft", "advantage": {"keep": 2}}}
        ).rows_per_step
        == 32
    )


FUNCTIONS = {
    **ADVANTAGES,
    "gdpo": gdpo,
    "step_wise_grpo": step_wise_grpo,
    "gigpo": gigpo,
    "gae": gae,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_advantage_options_match_the_keywords_and_defaults_of_its_function(name):
    section = next(
        s
        for s in vars(sections).values()
        if getattr(s, "model_fields", {}).get("name") and s.model_fields["name"].default == name
    )
    keywords = {
        k: p.default
        for k, p in inspect.signature(FUNCTIONS[name]).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    if name == "reinforce_plus_plus":  # the discount is a keyword of `discounted`
        keywords["gamma"] = inspect.signature(discounted).parameters["gamma"].default
    for field, info in section.model_fields.items():
        if field != "name" and (name, field) != (
            "gdpo",
            "whiten",
        ):  # recommended by the paper, but no default of the function
            assert keywords[field] == info.default
