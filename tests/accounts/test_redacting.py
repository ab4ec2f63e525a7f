"""Personal data is found by pattern and checksum; numbers that a task needs are kept."""

import time

import pytest

from apps.accounts.redacting import IBANS, MARKS, Redactor, luhn


def redacted(text: str) -> str:
    return Redactor().text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to ada.lovelace+math@mail.example.co.uk.", "Write to [e-mail address]."),
        ("<jürgen@bücher.de>, b@c.de;", "<[e-mail address]>, [e-mail address];"),
        ("IBAN: DE89 3704 0044 0532 0130 00.", "IBAN: [IBAN]."),
        ("to gb82west12345698765432 and then home", "to [IBAN] and then home"),
        ("NO93 8601 1117 947", "[IBAN]"),
        ("pay 4111 1111 1111 1111 now", "pay [card number] now"),
        ("5555555555554444, 3782-822463-10005", "[card number], [card number]"),
        (
            "from 203.0.113.7:8080 or 2001:db8::8a2e:370:7334",
            "from [IP address]:8080 or [IP address]",
        ),
        ("fe80::1 answers.", "[IP address] answers."),
        (
            "Call +49 30 1234567 or +4915112345678!",
            "Call [telephone number] or [telephone number]!",
        ),
        ("(+1 (415) 555-2671)", "([telephone number])"),
        (
            "415-555-2671, (415) 555-2671, 415.555.2671.",
            "[telephone number], [telephone number], [telephone number].",
        ),
        (
            "Tel.:030 1234567, Tel:+49\u00a030\u202f1234567",
            "Tel.:[telephone number], Tel:[telephone number]",
        ),
        ("+33 6 12 34 56 78", "[telephone number]"),
        ("1-800-555-0199", "[telephone number]"),
        ("My number is 06 12 84 56 78", "My number is [telephone number]"),
        ("phone numbers: 06 12 84 56 78", "phone numbers: [telephone number]"),
        (
            "0049 30 1234567 / 030 1234567; 030/1234567",
            "[telephone number] / [telephone number]; [telephone number]",
        ),
        (
            "020 7946 0958\n06 12 34 56 78\n(030) 12 34 56 78",
            "[telephone number]\n[telephone number]\n[telephone number]",
        ),
    ],
)
def test_personal_data_is_replaced_by_a_marker(text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x = 3.14159265358979 + 2.718281828459045",
        "+10.000.000 and +1 2 3 4 5 6 7 8",
        "+1.23456789e10 and -0.4242424242424242",
        "1,000,000,000 of 4,111,111,111,111,111",
        "2024-01-02, 02/01/2024, 02-01-2024 12:30, 02 01 2024",
        "at 12:30:45 or 09:15",
        "00:1a:2b:3c:4d:5e",
        "v1.2.3.4, version 10.0.19041.1, torch==2.6.0.1",
        "1.2.3.4.5 and 256.1.1.1 and 127.0.0.1",
        "see section 4.3.2.1",
        "1 + 2 = 3; 12345678 * 87654321",
        "2 +3 -4",
        "512 256 1024 2048 4096",
        "0011 0101 1100",
        "01 02 03 04 05 06 07",
        "1234567890123456 (no checksum)",
        "4111111111111112",
        "0x4111111111111111",
        "123e4567-e89b-12d3-a456-426614174000",
        "x[1::2], x[::-1], std::vector, a::b",
        "@app.route('/a') and user@host",
        "5!/(3!*2!) = 10",
        "DE89 3704 0044 0532 0130 01",
        "ISBN 978-3-16-148410-0, 0-306-40615-2",
        "10^9+7 is 1000000007",
        "f(0) = 0, f(10) = 55",
        "0.5 0.25 0.125",
        "555-1234",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "3/4 + 05/10 = 100-200-300",
        "012-345",
        "page 030 1",
        "2^31-1 = 2147483647",
        "1732465287 s since 1970",
        "the years 1914-1918 1939-1945",
        "",
        "05 10 15 20 25",
        "02 03 05 07 11",
        "01 02 03 05 08 13",
        "What comes next? 03 06 12 24 48",
        "09 16 25 36 49 are squares",
        "Sort 03 52 11 47 20.",
        "The numbers are 07 91 13 46 88",
        "the mean of 02 14 35 27 60",
    ],
)
def test_numbers_of_a_task_are_kept(text):
    assert redacted(text) == text


def test_redacted_items_are_counted_by_kind():
    redactor = Redactor()
    redactor.text("a@b.de c@d.de 4111111111111111")
    assert (
        redactor.words == "2 e-mail addresses, 1 card numbers"
        and redactor.counts["e-mail addresses"] == 2
    )
    assert Redactor().words == "no personal data found"


def test_nested_texts_are_redacted_and_pictures_are_kept():
    picture = "data:image/png;base64,4111111111111111"
    value = {"a@b.de": ["a@b.de", {"deep": ("x a@b.de", 7, None, True)}], "url": picture}
    assert Redactor().all_of(value) == {
        "a@b.de": ["[e-mail address]", {"deep": ["x [e-mail address]", 7, None, True]}],
        "url": picture,
    }


def test_redacting_twice_changes_nothing_more():
    text = "a@b.de DE89370400440532013000 4111111111111111 203.0.113.7 +4915112345678"
    once = redacted(text)
    assert once == " ".join(MARKS.values()) and redacted(once) == once


def test_luhn_checksum_and_iban_lengths_match_the_standards():
    assert luhn("79927398713") and not luhn("79927398710")
    assert (IBANS["NO"], IBANS["DE"], IBANS["FR"], IBANS["MT"], IBANS["LC"], IBANS["GB"]) == (
        15,
        22,
        27,
        31,
        32,
        22,
    )


@pytest.mark.parametrize(
    "piece",
    ["a", "1", "0", "1 ", "01 ", "a.", "1.", "a@", "+1", "a:", "1:", "DE89", "4-", "(0", "00 "],
)
def test_hostile_texts_are_redacted_within_20_seconds(piece):
    began = time.process_time()
    redacted(piece * (100_000 // len(piece)))
    redacted(("+" + piece * 40 + "x ") * 200)
    assert time.process_time() - began < 20  # a quadratic pattern would take minutes
