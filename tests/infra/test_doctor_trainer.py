"""The doctor tells where processes of a trainer meet, and which runs have several."""

import pytest

from rftweb.doctor import Level
from rftweb.doctor.trainer import check_trainer_processes

pytestmark = pytest.mark.django_db


def test_where_no_run_has_several_processes_there_is_nothing_to_say(new_run):
    new_run()
    assert list(check_trainer_processes()) == []


def test_a_run_with_more_processes_than_devices_is_a_warning(new_run, monkeypatch):
    monkeypatch.setattr("rftweb.doctor.trainer._gpus", lambda: 2)
    new_run(trainer={"processes": 2})
    new_run(trainer={"processes": 3, "sharding": "fsdp2"})
    found = {finding.text: finding.level for finding in check_trainer_processes()}
    assert found == {
        "run run-0: 2 processes, ddp": Level.OK,
        "run run-1: 3 processes, fsdp2, 3 of them on a machine with 2 devices": Level.WARN,
    }


def test_the_meeting_place_of_several_machines_is_told_and_must_be_known(settings):
    settings.TRAINER_RENDEZVOUS = "localhost:29400"
    settings.TRAINER_RANKS_HERE = 4
    (finding,) = check_trainer_processes()
    assert finding.text == "starts 4 of a run's processes; others join at localhost:29400"
    settings.TRAINER_RENDEZVOUS = "trainer.invalid:29400"
    (finding,) = check_trainer_processes()
    assert finding.level is Level.FAIL and "trainer.invalid" in finding.text
