"""Units with adjacent or dotted symbols: ms^-1, kgm^-3, m.s^-1."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer
from apps.rewards.unit_products import with_products


def value(scorer: str, response: str, wanted: str) -> float | None:
    task = TaskView((), {"value": wanted})
    return find_scorer(scorer).judge([RolloutView(response)], task)[0].value


# (the quantity, the reference, the reward of both scorers)
UNITS = [
    ("25 ms^-1", "25 m/s", 1),
    ("25 ms^{-1}", "25 m/s", 1),
    ("25 ms⁻¹", "25 m/s", 1),
    ("25 ms-1", "25 m/s", 1),
    ("25 m.s^-1", "25 m/s", 1),
    ("25 m·s^-1", "25 m/s", 1),
    (r"25\,\mathrm{ms^{-1}}", "25 m/s", 1),
    (r"25\ \text{ms}^{-1}", "25 m/s", 1),
    (r"25\ \text{m}\cdot\text{s}^{-1}", "25 m/s", 1),
    ("25 m/s", "25 ms^-1", 1),
    ("25 m s^-1", "25 ms^{-1}", 1),
    ("-10 ms^-1", "-10 m/s", 1),
    ("36 kmh^-1", "10 m/s", 1),
    ("36 km.h^-1", "10 m/s", 1),
    ("25 mms^-1", "25 mm/s", 1),
    ("25 kms^-1", "25000 m/s", 1),
    ("9.8 ms^-2", "9.8 m/s^2", 1),
    ("9.8 ms-2", "9.8 m/s^2", 1),
    ("4 kgm^-3", "4 kg/m^3", 1),
    ("3.5 gcm-3", "3.5 g/cm^3", 1),
    ("4 kgms^-2", "4 N", 1),
    ("4 kg.m.s^-2", "4 N", 1),
    ("5 kgm/s", "5 N s", 1),
    ("4 Nm^-2", "4 Pa", 1),
    ("4 Nkg^-1", "4 m/s^2", 1),
    ("4 Vm^-1", "4 V/m", 1),
    ("4 rads^-1", "4 rad/s", 1),
    ("6.63 Js", "6.63 J s", 1),
    ("4 molL^-1", "4 mol/L", 1),
    ("4 gmol^-1", "4 g/mol", 1),
    ("4 kJmol^-1", "4 kJ/mol", 1),
    ("4 Jkg^-1K^-1", "4 J/(kg K)", 1),
    ("8.31 J mol^-1 K^-1", "8.31 J/(mol K)", 1),
    ("8.31 JK^-1mol^-1", "8.31 J/(mol K)", 1),
    ("5 Kg", "5 kg", 1),
    ("25 ms^-1", "25000 Hz", 1),  # the strict reading, one per millisecond, remains valid
    ("25 ms", "0.025 s", 1),
    ("25 ms", "25 m/s", 0),
    ("25 m", "25 m/s", 0),
    ("25 s^-1", "25 m/s", 0),
    ("25 sm^-1", "25 m/s", 0),
    ("25 s.m^-1", "25 m/s", 0),
    ("25 m^-1s", "25 m/s", 0),
    ("25 ms^1", "25 m/s", 0),
    ("25 ms^-2", "25 m/s", 0),
    ("25 ms^-3", "25 m/s", 0),
    ("26 ms^-1", "25 m/s", 0),
    ("-10 ms^-1", "10 m/s", 0),
    ("25 mms^-1", "25 m/s", 0),
    ("10 kms^-1", "10 m/s", 0),
    ("9.8 ms^-1", "9.8 m/s^2", 0),
    ("9.8 ms^2", "9.8 m/s^2", 0),
    ("3.5 gcm^-3", "3.5 kg/m^3", 0),
    ("5 kgms^-1", "5 kg/(m s)", 0),
    ("6.63 Js", "6.63 J/s", 0),
    ("5 Ns", "5 N/s", 0),
    ("5 Vs", "5 V/s", 0),
    ("2 molm^-3", "2 mol/L", 0),
    ("8.31 Jmol^-1K", "8.31 J/(mol K)", 0),
]
# Letters that are both units and variables: the formula without them is never its value.
NAMES = [
    ("2", "2AC", 0),
    ("2", "2 AC", 0),
    ("3", "3 mV^{-1}", 0),
    ("2", "2 AC^{-1}", 0),
    ("2 AC^{-1}", "2", 0),
    ("4", "4NA", 0),
    (r"2\cdot AC", "2 AC", 1),
    ("2CA", "2 AC", 1),
    (r"\frac{3m}{V}", "3 mV^{-1}", 1),
    ("3 mV^{-1}", r"\frac{3m}{V}", 1),
    (r"2\cdot\mathrm{s}", "2s", 1),
]
SPACED = [
    ("ms", "ms"),
    ("ms^-1", "m s^-1"),
    ("min^-1", "min^-1"),
    ("mmol^-1", "mmol^-1"),
    ("p.m", "p.m"),
    ("hours^-1", "hours^-1"),
    ("kgm^2s^-2", "kg m^2s^-2"),
]


@pytest.mark.parametrize(("said", "wanted", "worth"), UNITS)
def test_product_of_units_is_read_without_spaces(said, wanted, worth):
    for scorer in ("quantity", "math"):
        assert value(scorer, rf"\boxed{{{said}}}", wanted) == worth, scorer


@pytest.mark.parametrize(("said", "wanted", "worth"), NAMES)
def test_product_of_variables_keeps_its_letters(said, wanted, worth):
    assert value("math", rf"\boxed{{{said}}}", wanted) == worth


@pytest.mark.parametrize(("unit", "spaced"), SPACED)
def test_only_adjacent_unit_symbols_are_split(unit, spaced):
    assert with_products(unit) == spaced
