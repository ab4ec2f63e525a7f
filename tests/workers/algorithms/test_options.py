"""Configuration options match the keyword arguments of the functions; meaningless ones are
refused.
"""

import inspect

import pytest
from pydantic import TypeAdapter, ValidationError

from apps.runs.algorithms import kl as kl_options
from apps.runs.algorithms.losses import Loss, loss_arguments
from workers.algorithms.kl import ESTIMATORS
from workers.algorithms.losses import LOSSES, PREFERENCE_LOSSES

FUNCTIONS = LOSSES | PREFERENCE_LOSSES
SECTIONS = {section.model_fields["name"].default: section for section in Loss.__args__[0].__args__}
READ = TypeAdapter(Loss)


def test_losses_and_option_sections_match():
    assert set(SECTIONS) - {"plugin"} == set(FUNCTIONS)  # a plugin's loss is looked up by name


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_section_fields_and_defaults_match_the_keyword_arguments_of_the_function(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    keywords = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}

    assert loss_arguments(READ.validate_python({"name": name})) == keywords


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_option_has_a_description(name):
    assert all(field.description for field in SECTIONS[name].model_fields.values())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "ppo", "clip_low": 1.5}, "clip_low"),
        ({"name": "ppo", "clip_high": float("inf")}, "clip_high"),
        ({"name": "ppo", "dual_clip": 1.0}, "dual_clip"),
        ({"name": "ppo", "clip": 0.2}, "clip"),
        ({"name": "sapo", "tau_positive": 0}, "tau_positive"),
        ({"name": "rec", "clip_mode": "three-side"}, "clip_mode"),
        ({"name": "sft_phi", "cutoff": 0}, "cutoff"),
        ({"name": "dpo", "label_smoothing": 0.5}, "label_smoothing"),
        ({"name": "kto", "beta": float("nan")}, "beta"),
    ],
)
def test_unknown_or_out_of_bounds_option_is_refused_with_its_name(given, field):
    with pytest.raises(ValidationError) as refused:
        READ.validate_python(given)

    assert [error["loc"][-1] for error in refused.value.errors()] == [field]


def test_configurable_kl_estimators_match_the_implemented_ones():
    assert set(kl_options.KL.model_fields["estimator"].annotation.__args__) == set(ESTIMATORS)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"coefficient": 0.1}, "choose one with `estimator: k3`"),
        (
            {"estimator": "k3", "target": 0.1},
            "kl.coefficient by multiplying it, so it must start above 0",
        ),
    ],
)
def test_meaningless_kl_options_are_refused_with_advice(given, advice):
    with pytest.raises(ValidationError, match=advice):
        kl_options.KL(**given)
