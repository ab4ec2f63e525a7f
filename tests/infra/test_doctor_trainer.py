"""The doctor shows the rendezvous address of trainer processes, and runs with several processes."""

import pytest

from rftweb.doctor import Level
from rftweb.doctor.trainer import check_trainer_processes

pytestmark = pytest.mark.django_db


def test_check_reports_nothing_when_no_run_has_several_processes(new_run):
    new_run()
    assert list(check_trainer_processes()) == []


def test_run_with_more_processes_than_devices_is_a_warning(new_run, monkeypatch):
    monkeypatch.setattr("rftweb.doctor.trainer._gpus", lambda: 2)
    new_run(trainer={"processes": 2})
    new_run(trainer={"processes": 3, "sharding": "fsdp2"})
    found = {finding.text: finding.level for finding in check_trainer_processes()}
    assert found == {
        "run run-0: 2 processes, ddp": Level.OK,
        "run run-1: 3 processes, fsdp2, 3 of them on a machine with 2 devices": Level.WARN,
    }


def test_rendezvous_address_is_reported_and_must_resolve(settings):
    settings.TRAINER_RENDEZVOUS = "localhost:29400"
    settings.TRAINER_RANKS_HERE = 4
    (finding,) = check_trainer_processes()
    assert finding.text == "starts 4 of a run's processes; others join at localhost:29400"
    settings.TRAINER_RENDEZVOUS = "trainer.invalid:29400"
    (finding,) = check_trainer_processes()
    assert finding.level is Level.FAIL and "trainer.invalid" in finding.text
