"""Quantities in the words of people: what sentences say, deny or leave open."""

from tests.rewards.odd_answers.grouping import rows

ROWS = [
    *rows(
        {"value": 36, "unit": "N"},
        "Calculate.",
        right=["力は36 Nです。", "Сила равна 36 Н.", "36 N"],
        wrong=["36", "36 kN", "36 J"],
    ),
    *rows(
        {"value": 100, "unit": "°C"},
        "Calculate.",
        right=["100 Grad Celsius", "100 °C"],
        wrong=["100 °F", "100 K", "373 °C"],
    ),
    *rows(
        {"value": 6.02e23, "unit": "1/mol"},
        "Calculate.",
        right=["6.02 × 10²³ /mol", "6.02e23 per mole", "6.02e23 1/mol"],
        wrong=["6.02e22 1/mol", "6.02e23 mol", "6.02e-23 1/mol"],
    ),
    *rows(
        {"value": 15, "unit": "kg"},
        "Calculate.",
        right=[
            "15 Kilogramm",
            "15 kilogrammes",
            "15 кг",
            "15千克",
            "15公斤",
            "15キログラム",
            "15 kilogramos",
            "15 kg",
        ],
        wrong=["15 g", "15 lb", "15 pounds"],
    ),
    *rows(
        {"value": 2, "unit": "h"},
        "Calculate.",
        right=["2 Stunden", "2 heures", "2 horas", "2小时", "2時間", "2 ч", "2 h"],
        wrong=["2", "2 min", "2 s"],
    ),
    *rows(
        {"value": 10, "unit": "Ω"},
        "Calculate.",
        right=["10 Ohm", "10 Ω"],
        wrong=["10 kΩ", "10 mΩ", "10 A"],
    ),
    *rows(
        {"value": 4.7, "unit": "µF"},
        "Calculate.",
        right=["4.7 \\mu F", "4.7\\,\\mu\\text{F}", "4.7 µF"],
        wrong=["4.7 mF", "4.7 F", "4.7 nF"],
    ),
    *rows(
        {"value": 3, "unit": "eV"},
        "Calculate.",
        right=["3 electron volts", "3 eV"],
        wrong=["3 V", "3 MeV", "3 J"],
    ),
    *rows(
        {"value": 1000, "unit": "kg/m^3"},
        "Calculate.",
        right=["1000 кг/м³", "1000 kg/m^3"],
        wrong=["1000 g/m^3", "1 kg/m^3", "1000 kg"],
    ),
    *rows(
        {"value": "9.8 m/s^2"},
        "Calculate.",
        right=["9.8 м/с²", "9.8米/秒²", "9.8 m/s²"],
        wrong=["9.8 m", "9.8 s", "9.8 km/h"],
    ),
    *rows(
        {"value": 50, "unit": "g/mol"},
        "Calculate.",
        right=["50 г/моль", "50克/摩尔", "50 g/mol"],
        wrong=["50 g", "50 mol/g", "50 kg/mol"],
    ),
    *rows(
        {"value": 120, "unit": "km"},
        "Calculate.",
        right=["120 kilómetros", "120公里", "120 км", "120 km"],
        wrong=["120 m", "120 miles", "12 km"],
    ),
    *rows(
        {"value": 3600, "unit": "s"},
        "Calculate.",
        right=["an hour", "1小时", "1 heure", "1 Stunde", "3600 s"],
        wrong=["3600", "3600 min", "1 min"],
    ),
    *rows(
        {"value": 500, "unit": "mL"},
        "Calculate.",
        right=["500 毫升", "500 mL"],
        wrong=["500 L", "50 mL", "500 mg"],
    ),
    *rows(
        {"value": 5, "unit": "A"}, "Calculate.", right=["5 安培", "5 A"], wrong=["5 V", "5 mA", "5"]
    ),
    *rows(
        {"value": 60, "unit": "W"},
        "Calculate.",
        right=["60 瓦", "60 W"],
        wrong=["60 kW", "60 J", "60 Wh"],
    ),
    *rows(
        {"value": 25, "unit": "m"},
        "Calculate.",
        right=[
            "25 метров",
            "25米",
            "25メートル",
            "25 mètres",
            "25 metros",
            "树高25米。",
            "高さは25メートルです。",
            "Высота 25 м.",
            "25 m",
        ],
        wrong=["25 cm", "25 km", "25 ft"],
    ),
    *rows(
        {"value": 10, "unit": "h"},
        "Calculate.",
        right=["10 Stunden", "10 heures", "10 horas", "10小时", "10 часов", "10時間", "10 h"],
        wrong=["10 min", "10 Minuten", "10 минут"],
    ),
    *rows(
        {"value": 70, "unit": "kg"},
        "Calculate.",
        right=["70 кг", "70公斤", "70千克", "70 Kilogramm", "70 kg"],
        wrong=["70 г", "70克", "70 g"],
    ),
    *rows(
        {"value": 0.5, "unit": "mol"},
        "Calculate.",
        right=["0.5 моль", "0.5摩尔", "0.5 mol"],
        wrong=["0.5 M", "5 mol", "0.5 g"],
    ),
    *rows(
        {"value": 12, "unit": "V"},
        "Calculate.",
        right=["12 В", "12伏", "12 ボルト", "12 V"],
        wrong=["12 W", "12 Вт", "12瓦"],
    ),
    *rows(
        {"value": 100, "unit": "W"},
        "Calculate.",
        right=["100 Вт", "100瓦", "0.1 кВт", "100 W"],
        wrong=["100 V", "100 В", "100 kW"],
    ),
    *rows(
        {"value": 1.5, "unit": "L"},
        "Calculate.",
        right=["1.5 л", "1.5升", "1500毫升", "1.5 L"],
        wrong=["1.5 mL", "1.5毫升", "1.5 мл"],
    ),
    *rows(
        {"value": 37, "unit": "°C"},
        "Calculate.",
        right=["37摄氏度", "37 Grad Celsius", "37 grados Celsius", "37 degrés Celsius", "37 °C"],
        wrong=["37 °F", "37 K", "37华氏度"],
    ),
    *rows(
        {"value": 90, "unit": "°"},
        "Calculate.",
        right=["90 Grad", "90 grados", "90 degrés", "90°"],
        wrong=["90 rad", "90 °C", "9°"],
    ),
    *rows(
        {"value": 72, "unit": "km/h"},
        "Calculate.",
        right=["72 км/ч", "72千米/小时", "72公里/小时", "20米/秒", "72 km/h"],
        wrong=["72 m/s", "72 км", "72公里"],
    ),
]
