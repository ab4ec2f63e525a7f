"""Units as they are written: prefixes in their case, charges, composed degrees, times of day."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer


def value(scorer: str, said: str, answer: dict) -> float | None:
    task = TaskView((), answer)
    return find_scorer(scorer).judge([RolloutView(f"\\boxed{{{said}}}")], task)[0].value


# The reference: right answers, wrong answers.
MATH = {
    r"90 \text{ MJ}": (
        ["90 MJ", r"25 \text{ kWh}", "25 kW h", r"9\times10^7 \text{ J}", "90 megajoules"],
        [r"90 \text{ mJ}", r"90 \text{ mj}", "90 GJ", "25 kW", "25 MWh", "90 MW"],
    ),
    r"5 \text{ C s}^{-1}": (
        [r"5 \text{ Cs}^{-1}", "5 A", "5 coulombs per second"],
        ["5 C", "5 °C/s", "5 V"],
    ),
    r"50\ \Omega": (["50 Ω", "50 ohms", "50 V/A", r"0.05 k\Omega"], [r"50 m\Omega", "50 V"]),
    r"4200 \text{ J/(kg K)}": (
        ["4200 J/(kg °C)", r"4.2 \text{ J/(g °C)}", "4200 J kg^{-1} K^{-1}"],
        ["4200 J/kg", "4200 J K/kg"],
    ),
    r"101.3 \text{ kPa}": (["101300 Pa", "1013 hPa", "101.3 kN/m^2"], ["101.3 MPa", "101.3 Pa"]),
    r"3 \text{ MHz}": (["3 MHz", "3000 kHz", "3000000 s^{-1}"], ["3 mHz", "3 GHz"]),
    r"2 \text{ mA}": (["0.002 A", r"2000 \mu A", "2 milliamps"], ["2 MA", "2 A"]),
    r"12 \text{ kN}": (["12000 N", "12 kN"], ["12 MN", "12 kn"]),
    r"500 \text{ mL}": (["500 cc", "50 cL", "0.5 dm^3"], ["500 L", "5 cL"]),
    r"2 \text{ GB}": (["2000 MB", "2 gigabytes"], ["2 Gb", "2 TB"]),
    r"6 \mu C": ([r"6\ \mu\text{C}", "6 µC", "0.006 mC"], ["6 C", "6 nC"]),
    r"2 \text{ H}": (["2 H", "2000 mH"], ["2 h", "2 T"]),
    r"10 \text{ N/C}": (["10 V/m", "10 NC^{-1}"], ["10 N C", "10 N"]),
    # Letters that may be factors are never left out.
    "3": (["3 kg"], ["3MN", "3 MN", "3 T", "3T", r"3\Omega", r"3\mu A", "3 eV", "3 GB", "3MJ"]),
    "3MN": (["3NM", "3 M N"], ["3", "3 mN", "3M"]),
    "2T": (["2 T", r"T \cdot 2"], ["2"]),
    # A time of day is not a ratio.
    r"10:30 \text{ AM}": (
        ["10:30 a.m.", "10:30AM", r"10{:}30\text{ AM}", r"\text{10:30 a.m.}"],
        ["10:30 PM", "2:06 AM", r"5:15 \text{ AM}", "9:30 AM"],
    ),
    "3:45 PM": (["3:45 p.m.", "3:45pm"], ["1:15 PM", "3:45 AM"]),
    "5 pm": (["5:00 PM", r"5 \text{ p.m.}"], ["5 am", "5:01 pm"]),
    "1:3": (["10:30", "2:6"], ["3:1"]),
}
QUANTITIES = {
    "90 MJ": (["25 kilowatt-hours", "25 kwh", "25 KWh", "25 kW·h"], ["25 kW", "90 mJ"]),
    "4200 J/(kg K)": (
        ["4200 J/kg°C", "4.2 J/g°C", "4200 J/kg·K", "4200 J/kg K"],
        ["4200 J K/kg", "4.2 J/kg K", "4200 J/K"],
    ),
    "1.5 h": (
        ["1 1/2 hours", "1½ hours", r"1\frac{1}{2} hours", r"\frac{3}{2} h"],
        ["11/2 hours", "1/2 hours", "-1 1/2 hours"],
    ),
    "12 N m": (["12 newton-metres", "12 N-m"], ["12 N-s", "12 N/m"]),
}
BESIDE = {
    "math": (["0.3", "0.3 m/s", r"30 \text{ cm/s}"], ["0.3 km/s", "0.3 s", "30"]),
    "quantity": (["0.3 m/s", r"30 \text{ cm/s}"], ["0.3", "0.3 km/s", "0.3 s"]),
}


@pytest.mark.parametrize("wanted", MATH)
def test_math_compares_units_as_they_are_written(wanted):
    right, wrong = MATH[wanted]
    answer = {"value": wanted}
    assert [said for said in right if value("math", said, answer) != 1] == []
    assert [said for said in wrong if value("math", said, answer) != 0] == []


@pytest.mark.parametrize("wanted", QUANTITIES)
def test_quantity_is_read_with_joined_unit_names_and_mixed_numbers(wanted):
    right, wrong = QUANTITIES[wanted]
    answer = {"value": wanted}
    assert [said for said in right if value("quantity", said, answer) != 1] == []
    assert [said for said in wrong if value("quantity", said, answer) != 0] == []


@pytest.mark.parametrize("scorer", BESIDE)
def test_unit_in_a_separate_answer_field_counts_for_both_scorers(scorer):
    right, wrong = BESIDE[scorer]
    answer = {"value": "0.3", "unit": "m/s"}
    assert [said for said in right if value(scorer, said, answer) != 1] == []
    assert [said for said in wrong if value(scorer, said, answer) != 0] == []


def test_unknown_unit_in_a_separate_answer_field_is_ignored():
    assert value("math", "5", {"value": "5", "unit": "widgets"}) == 1
