"""Quantities and chemistry as people write them."""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, find_scorer


def value(scorer: str, response: str, wanted: str) -> float | None:
    return (
        find_scorer(scorer).judge([RolloutView(response)], TaskView((), {"value": wanted}))[0].value
    )


QUANTITIES = [
    ("25 Nm", "25 N m", 1),
    ("25 nm", "25 N m", 0),
    ("1h30", "90 min", 1),
    ("4.7 kilo-ohms", "4700 ohm", 1),
    ("120 rpm", "2 Hz", 1),
    ("3 m s-1", "3 m/s", 1),
    ("F = ma = 9 * 4 = 36 N", "36 N", 1),
    ("F = 36 N", "36 N", 1),
    (r"\boxed{F = 36\ \text{N}}", "36 N", 1),
    ("36N", "36 N", 1),
    ("36 newtons", "36 N", 1),
    ("36 Newtons", "36 N", 1),
    ("about 36 N", "36 N", 1),
    ("≈ 36 N", "36 N", 1),
    ("36 N (to the right)", "36 N", 1),
    ("The force is 36 N upwards.", "36 N", 1),
    ("The force is F = 36 N.", "36 N", 1),
    ("9.8 m/s/s", "9.8 m/s^2", 1),
    ("9.8 m s⁻²", "9.8 m/s^2", 1),
    ("9.8 m·s^{-2}", "9.8 m/s^2", 1),
    ("9.8 N/kg", "9.8 m/s^2", 1),
    ("9,8 m/s²", "9.8 m/s^2", 1),
    ("9.8 meters per second per second", "9.8 m/s^2", 1),
    ("1 h 30 min", "90 min", 1),
    ("1 hour 30 minutes", "90 min", 1),
    ("1 hour and 30 minutes", "90 min", 1),
    ("It takes 1 h 30 min.", "90 min", 1),
    ("1.5 hours", "90 min", 1),
    ("6 ft 2 in", "74 inch", 1),
    ("80 km/h", "80 km/h", 1),
    ("80 kph", "80 km/h", 1),
    ("80 kilometers per hour", "80 km/h", 1),
    ("80 km per hour", "80 km/h", 1),
    ("80 kmh", "22.22 m/s", 1),
    ("3 amps", "3 A", 1),
    ("3 A", "3 A", 1),
    ("3 amperes", "3 A", 1),
    ("300 mA", "0.3 A", 1),
    ("5 square metres", "5 m^2", 1),
    ("5 m²", "5 m^2", 1),
    ("5 sq m", "5 m^2", 1),
    ("5 cubic centimeters", "5 cm^3", 1),
    ("5 cm3", "5 cm^3", 1),
    ("5 mL", "5 cm^3", 1),
    ("2 kWh", "7.2 MJ", 1),
    ("30 degrees Celsius", "30 degC", 1),
    ("30°C", "30 degC", 1),
    ("2.5 × 10^3 J", "2500 J", 1),
    ("2.5e3 J", "2500 J", 1),
    ("2.5·10³ J", "2500 J", 1),
    ("2500 joules", "2.5 kJ", 1),
    ("12 volts", "12 V", 1),
    ("6 Ω", "6 ohm", 1),
    ("6 ohms", "6 ohm", 1),
    ("v = 20 m/s ≈ 72 km/h", "20 m/s", 1),
    ("20 m/s = 72 km/h", "20 m/s", 1),
    ("-5 °C", "-5 degC", 1),
    ("36", "36 N", 0),
    ("36 J", "36 N", 0),
    ("35 N", "36 N", 0),
    ("36 N or 40 N", "36 N", 0),
    ("36 apples", "36 N", 0),
    ("5 kg and 3 g", "5 kg", 0),
    ("1,200 m", "1.2 km", 1),
    ("1 200 m", "1.2 km", 1),
    ("**36 N**", "36 N", 1),
    ("Answer: 36 N", "36 N", 1),
    ("Die Kraft ist 36 N.", "36 N", 1),
    ("答案是36 N。", "36 N", 1),
    ("50 Hz", "50 Hz", 1),
    ("50 hertz", "50 Hz", 1),
    ("100 kPa", "1e5 Pa", 1),
    ("1 atm", "101325 Pa", 1),
    ("10 µm", "1e-5 m", 1),
    ("10 um", "1e-5 m", 1),
    ("5 lbs", "5 pound", 1),
    ("30 min 90 h", "30 min", 0),
    ("It is not 36 N.", "36 N", 0),
]
CHEMISTRY = [
    ("SO4 2-", "SO4^2-", 1),
    ("NH4 +", "NH4^+", 1),
    ("Ag+(aq) + Cl-(aq) -> AgCl(s)", "Ag+ + Cl- -> AgCl", 1),
    ("Ca2+ + CO3 2- -> CaCO3", "Ca^2+ + CO3^2- -> CaCO3", 1),
    ("CO2, not CO", "CO2", 1),
    ("not NaCl", "NaCl", 0),
    ("It is not CO2.", "CO2", 0),
    ("The product isn't NaCl", "NaCl", 0),
    ("C6H6 (benzene)", "C6H6", 1),
    ("The formula of benzene is C6H6.", "C6H6", 1),
    ("Benzene is C6H6", "C6H6", 1),
    ("C6H6, benzene", "C6H6", 1),
    ("It is C₆H₆.", "C6H6", 1),
    (r"\boxed{C6H6}", "C6H6", 1),
    (r"\ce{C6H6}", "C6H6", 1),
    ("The formula is $C_6H_6$.", "C6H6", 1),
    ("C6H12", "C6H6", 0),
    ("C6H6 or C6H12", "C6H6", 0),
    ("Fe", "Fe", 1),
    ("NaCl", "NaCl", 1),
    ("Salt is NaCl.", "NaCl", 1),
    ("C2H6 + 3.5 O2 -> 2CO2 + 3H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("C2H6 + 3,5 O2 -> 2CO2 + 3H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("C2H6 + 7/2 O2 -> 2CO2 + 3H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("The balanced equation is 2C2H6 + 7O2 → 4CO2 + 6H2O.", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    (
        "Ethane burns: 2 C2H6 + 7 O2 -> 4 CO2 + 6 H2O, which is exothermic.",
        "2C2H6 + 7O2 -> 4CO2 + 6H2O",
        1,
    ),
    ("So we get 2C2H6(g) + 7O2(g) -> 4CO2(g) + 6H2O(l)", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("2C2H6 + 7O2 -> 4CO2 + 5H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 0),
    (r"\boxed{2C_2H_6 + 7O_2 \rightarrow 4CO_2 + 6H_2O}", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("2C2H6 + 7O2 = 4CO2 + 6H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("C2H6 + O2 -> CO2 + H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 0),
    ("0.5 C2H6 + 1.75 O2 -> CO2 + 1.5 H2O", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    (r"$2C_2H_6 + 7O_2 \to 4CO_2 + 6H_2O$", "2C2H6 + 7O2 -> 4CO2 + 6H2O", 1),
    ("The element is Fe.", "Fe", 1),
]


@pytest.mark.parametrize(("response", "wanted", "worth"), QUANTITIES)
def test_a_quantity_is_read_in_the_usual_ways_of_writing_it(response, wanted, worth):
    assert value("quantity", response, wanted) == worth


@pytest.mark.parametrize(("response", "wanted", "worth"), CHEMISTRY)
def test_a_formula_is_found_in_its_sentence_and_an_equation_with_decimals(response, wanted, worth):
    assert value("chemistry", response, wanted) == worth
