"""Invalid environment variables raise an error that contains the variable's name."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from rftweb import environment

NAME = "RFTWEB_TEST_VALUE"


@pytest.mark.parametrize(
    ("value", "words"),
    [("many", "whole number"), ("0", "at least 1"), ("100", "at most 99"), ("", "whole number")],
)
def test_invalid_number_is_refused_with_the_variable_name_and_the_expected_value(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
):
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*{words}"):
        environment.read_number_setting(NAME, 85, minimum=1, maximum=99)


def test_flag_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "perhaps")
    with pytest.raises(ImproperlyConfigured, match=NAME):
        environment.read_flag(NAME, False)


def test_unknown_choice_is_refused_with_the_valid_choices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "jsn")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*console, json"):
        environment.choice(NAME, "console", ("console", "json"))


def test_secret_can_be_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "secret").write_text("quiet words\n")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    assert environment.text(NAME) == "quiet words"


def test_missing_secret_file_is_reported_with_the_variable_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}_FILE"):
        environment.text(NAME)


def test_short_shared_secret_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "short")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*32"):
        environment.shared_secret(NAME)


def test_error_lists_the_variable_that_is_missing_for_another_one():
    environment.require_together(RFTWEB_ONE="", RFTWEB_TWO="")
    with pytest.raises(ImproperlyConfigured, match=r"RFTWEB_ONE.*RFTWEB_TWO"):
        environment.require_together(RFTWEB_ONE="set", RFTWEB_TWO="")


def test_error_lists_both_variables_when_only_one_of_a_pair_is_set():
    environment.require_both(RFTWEB_ONE="", RFTWEB_TWO=None)
    environment.require_both(RFTWEB_ONE="set", RFTWEB_TWO=2)
    with pytest.raises(ImproperlyConfigured, match=r"RFTWEB_TWO is set.*RFTWEB_ONE"):
        environment.require_both(RFTWEB_ONE="", RFTWEB_TWO=2)


@pytest.mark.parametrize("address", ["trainer-1", "29400", "trainer:0", "a b:1", "http://a:1"])
def test_malformed_host_and_port_is_refused_with_an_example(monkeypatch, address):
    monkeypatch.setenv(NAME, "trainer-1:29400")
    assert environment.host_and_port(NAME) == "trainer-1:29400"
    monkeypatch.setenv(NAME, address)
    with pytest.raises(ImproperlyConfigured, match="reads like trainer-1:29400"):
        environment.host_and_port(NAME)
