"""The doctor checks the publisher of weights: whether it answers, accepts our secret, and has the
same time.
"""

import time
from collections.abc import Iterator

import pytest
from django.core.management.base import CommandError

from apps.policies.transfer import publisher as publishing
from rftweb.doctor import Level
from rftweb.doctor.weights import check_weights
from rftweb.management.commands.up import require_shared_folder
from tests.web_process import WebProcess

SECRET = "s" * 32


@pytest.fixture
def web(transactional_db, monkeypatch, settings) -> Iterator[WebProcess]:
    monkeypatch.setenv("RFTWEB_WEIGHTS_SECRET", SECRET)
    process = WebProcess()
    process.start()
    settings.WEIGHTS_URL = process.address
    settings.WEIGHTS_SECRET = SECRET
    yield process
    process.end()


def test_check_reports_nothing_when_weights_are_in_a_shared_folder_without_a_secret(settings):
    assert list(check_weights()) == []
    settings.WEIGHTS_SECRET = SECRET
    [finding] = check_weights()
    assert finding.level is Level.OK and "served to machines" in finding.text


def test_check_reports_wrong_secret_clock_difference_and_plain_http_of_the_publisher(
    web, settings, monkeypatch
):
    good, plain = check_weights()
    assert good.level is Level.OK and web.address in good.text
    assert plain.level is Level.WARN and "not encrypted" in plain.text
    settings.WEIGHTS_SECRET = "t" * 32
    [refused] = check_weights()
    assert refused.level is Level.FAIL and "RFTWEB_WEIGHTS_SECRET" in refused.text
    settings.WEIGHTS_SECRET = SECRET
    for off_s, level, words in (
        (200, Level.WARN, "clock differs by"),
        (1000, Level.FAIL, "clocks"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(publishing.time, "time", lambda off=off_s, now=time.time: now() + off)
            found = list(check_weights())
        assert [finding.level for finding in found if words in finding.text] == [level]
    web.stop()
    [away] = check_weights()
    assert away.level is Level.FAIL and "does not answer" in away.text
    web.start()


def test_machine_that_fetches_weights_can_start_only_explorers(settings):
    require_shared_folder({"trainer", "web"})
    settings.WEIGHTS_URL = "https://rftweb.example.org"
    require_shared_folder({"explorer"})
    with pytest.raises(CommandError, match="trainer, web"):
        require_shared_folder({"explorer", "trainer", "web"})
