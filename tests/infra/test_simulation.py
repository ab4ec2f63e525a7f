"""The simulated stations: durations follow from the service times and the number of cores."""

import pytest

from bench.simulate import (
    HAND_OVER_MS,
    OTHER_SHARE,
    PIECES,
    POSTGRES_MS,
    RECORDED_INTERVAL_MS,
    RECORDED_MS,
    Service,
    service_of,
    simulate,
)

SERVICE = Service({"explorer": 80.0, "scorer": 40.0, "refiner": 20.0, "trainer": 60.0})
MANY_CORES = 64


def test_step_on_one_core_takes_the_total_time_of_its_jobs():
    told = simulate(SERVICE, cores=1 + OTHER_SHARE, staleness=4)
    assert told["interval_ms"] == pytest.approx(SERVICE.step_ms, rel=0.02)


def test_step_without_staleness_takes_the_time_of_the_sequential_chain():
    told = simulate(SERVICE, cores=MANY_CORES, staleness=0)
    chain = 80 + 40 + 20 / PIECES + 60 + 4 * HAND_OVER_MS
    assert told["interval_ms"] == pytest.approx(chain, rel=0.01)


def test_slowest_station_sets_the_pace_with_staleness_and_enough_cores():
    told = simulate(SERVICE, cores=MANY_CORES, staleness=4)
    assert told["interval_ms"] == pytest.approx(80, rel=0.01)
    assert told["busy"]["explorer"] > 0.95


def test_runs_share_the_stations_and_doubling_the_workers_doubles_the_speed():
    alone = simulate(SERVICE, cores=MANY_CORES, runs=4)
    assert alone["steps_per_s"] == pytest.approx(1000 / 80, rel=0.05)
    doubled = dict.fromkeys(SERVICE.ms, 2)
    both = simulate(SERVICE, cores=MANY_CORES, runs=4, workers=doubled)
    assert both["steps_per_s"] == pytest.approx(2 * alone["steps_per_s"], rel=0.05)


def test_processor_share_never_exceeds_one():
    for cores in (1, 2, 4):
        assert 0 < simulate(SERVICE, cores, runs=3)["processor_share"] <= 1


def test_simulation_matches_the_recorded_run_within_a_fifth():
    told = simulate(Service.of(RECORDED_MS, POSTGRES_MS), cores=2)
    assert told["interval_ms"] == pytest.approx(RECORDED_INTERVAL_MS, rel=0.2)


def test_service_times_add_up_to_the_measured_processor_time_per_step():
    seconds = {"explorer": 4.0, "scorer": 2.0, "refiner": 1.0, "trainer": 5.0, "postgres": 3.0}
    service = service_of({"steps": 20, "processor_by_role": {**seconds, "web": 1.0}})
    assert service.step_ms == pytest.approx(1000 * sum(seconds.values()) / 20)
