"""The rating form `number_scale` keeps its contract and values these answers."""

from pathlib import Path

import pytest

from rftweb.testing import PluginFailed, check_rating_form

PLUGIN = Path(__file__).parents[1] / "rftweb_examples" / "number_scale"


def test_number_scale_values_an_answer():
    assert check_rating_form(PLUGIN, {"point": 7}) == 1.0
    assert check_rating_form(PLUGIN, {"point": 2}, options={"points": 3}) == 0.5


def test_number_scale_refuses_a_point_that_there_is_not():
    with pytest.raises(PluginFailed, match="point: must be a whole number from 1 to 7"):
        check_rating_form(PLUGIN, {"point": 8})
