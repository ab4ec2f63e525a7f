"""Environment variables of the installation fail loudly, by name."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from rftweb import environment

NAME = "RFTWEB_TEST_VALUE"


@pytest.mark.parametrize(
    ("value", "words"),
    [("many", "whole number"), ("0", "at least 1"), ("100", "at most 99"), ("", "whole number")],
)
def test_a_number_that_cannot_be_is_named_with_what_is_right(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
):
    monkeypatch.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*{words}"):
        environment.read_number_setting(NAME, 85, at_least=1, at_most=99)


def test_a_flag_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "perhaps")
    with pytest.raises(ImproperlyConfigured, match=NAME):
        environment.read_flag(NAME, False)


def test_a_word_that_is_none_of_the_choices_is_refused_with_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "jsn")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*console, json"):
        environment.choice(NAME, "console", ("console", "json"))


def test_a_secret_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "secret").write_text("quiet words\n")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    assert environment.text(NAME) == "quiet words"


def test_a_missing_secret_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}_FILE"):
        environment.text(NAME)


def test_a_shared_secret_that_is_short_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NAME, "short")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}.*32"):
        environment.shared_secret(NAME)


def test_what_a_variable_needs_is_named():
    environment.require_together(RFTWEB_ONE="", RFTWEB_TWO="")
    with pytest.raises(ImproperlyConfigured, match=r"RFTWEB_ONE.*RFTWEB_TWO"):
        environment.require_together(RFTWEB_ONE="set", RFTWEB_TWO="")


def test_two_variables_that_need_each_other_are_named():
    environment.require_both(RFTWEB_ONE="", RFTWEB_TWO=None)
    environment.require_both(RFTWEB_ONE="set", RFTWEB_TWO=2)
    with pytest.raises(ImproperlyConfigured, match=r"RFTWEB_TWO is set.*RFTWEB_ONE"):
        environment.require_both(RFTWEB_ONE="", RFTWEB_TWO=2)


@pytest.mark.parametrize("address", ["trainer-1", "29400", "trainer:0", "a b:1", "http://a:1"])
def test_what_is_no_host_and_port_is_refused_with_an_example(monkeypatch, address):
    monkeypatch.setenv(NAME, "trainer-1:29400")
    assert environment.host_and_port(NAME) == "trainer-1:29400"
    monkeypatch.setenv(NAME, address)
    with pytest.raises(ImproperlyConfigured, match="reads like trainer-1:29400"):
        environment.host_and_port(NAME)
