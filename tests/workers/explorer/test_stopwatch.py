"""The clock of an answer runs while the engine generates it, and stops otherwise."""

from workers.explorer.stopwatch import Stopwatch


def test_clock_runs_from_the_first_token_to_the_end_of_the_request():
    clock = Stopwatch(limit=5.0)
    assert (clock.at(100.0), clock.is_over(100.0)) == (
        0.0,
        False,
    )  # requested, and no token has arrived
    clock.run(100.0)
    clock.run(103.0)  # more tokens
    assert (clock.at(104.0), clock.is_over(104.0), clock.is_over(105.0)) == (4.0, False, True)


def test_earlier_time_counts_and_pauses_do_not():
    clock = Stopwatch(limit=5.0)
    clock.run(10.0)
    clock.stand(13.0)
    assert clock.at(1_000.0) == 3.0
    clock.run(1_000.0)
    assert (clock.at(1_001.5), clock.is_over(1_001.5), clock.is_over(1_002.0)) == (4.5, False, True)


def test_stopping_the_clock_twice_changes_nothing():
    clock = Stopwatch(limit=None, spent=2.0)
    clock.run(5.0)
    clock.stand(6.0)
    clock.stand(60.0)
    assert clock.at(600.0) == 3.0 and not clock.is_over(1e9)
