"""Invalid environment variables raise an error that contains the variable's name."""

import os
import subprocess
import sys
from functools import partial
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


@pytest.mark.parametrize(
    ("read", "right", "wrong"),
    [
        (environment.web_address, "https://[::1]:8000/a", ["http://[::1", "http://a:99999", "a"]),
        (environment.host_name, "10.0.0.2", ["http://mail", "mail:25", "a b"]),
        (environment.host_and_port, "a:1", ["a:99999"]),
        (environment.site_origins, "https://*.a.org,http://a:8", ["a.org", "https://a/b"]),
        (environment.read_places, "a:80, ::1, [::1]:80", ["a b", "a:99999", "a=b", "http://a"]),
        (partial(environment.host_names, default=""), "a.org,.b.org,*", ["https://a.org", "a:80"]),
        (partial(environment.mail_sender, default=""), "Rft <a@b.org>", ["a b", "a@"]),
        (
            partial(environment.service_url, schemes=("redis", "unix"), example="redis://host"),
            "unix://:word@/run/valkey.sock?db=0",
            ["abc", "redis://", "redis://a:99999", "http://a", "redis://[::1"],
        ),
        (
            partial(environment.service_url, schemes=("postgresql",), example="postgresql://…"),
            "postgresql://a:b@%2Frun/name",
            ["postgresql://", "postgresql://a:b@host", "mysql://a/b"],
        ),
    ],
)
def test_value_that_cannot_be_used_later_is_refused_at_the_start(monkeypatch, read, right, wrong):
    monkeypatch.setenv(NAME, right)
    assert read(NAME)
    for value in wrong:
        monkeypatch.setenv(NAME, value)
        with pytest.raises(environment.SettingError, match=NAME):
            read(NAME)


def test_number_that_no_interval_holds_is_refused_in_few_words(monkeypatch):
    monkeypatch.setenv(NAME, "9" * 30)
    with pytest.raises(environment.SettingError, match=f"{NAME}.*at most"):
        environment.read_number_setting(NAME, 30)
    monkeypatch.setenv(NAME, "x" * 10_000)
    with pytest.raises(environment.SettingError) as refusal:
        environment.read_number_setting(NAME, 30)
    assert len(str(refusal.value)) < 200


def test_empty_text_or_flag_is_the_default(monkeypatch):
    monkeypatch.setenv(NAME, "")
    assert environment.text(NAME, "var") == "var" and environment.read_flag(NAME, True) is True


def test_secret_file_that_is_not_text_is_reported(monkeypatch, tmp_path):
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    with pytest.raises(environment.SettingError, match=f"{NAME}_FILE"):
        environment.text(NAME)


def test_data_folder_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "var").write_text("")
    with pytest.raises(environment.SettingError, match=r"RFTWEB_VAR .*Not a directory"):
        environment.secret_key(tmp_path / "var", debug=False)


@pytest.mark.parametrize("command", [["manage.py", "doctor"], ["-m", "rftweb.server"]])
def test_wrong_setting_ends_a_command_with_one_sentence(command):
    ended = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "RFTWEB_CONNECTIONS": "many"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == "RFTWEB_CONNECTIONS is 'many'; it must be a whole number\n"
