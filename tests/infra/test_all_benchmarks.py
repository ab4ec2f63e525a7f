"""`bench/all.py`: its scripts exist, it reads their results, and it reports a worse number."""

import pytest
from django.conf import settings

from bench.all import BENCHMARKS, LEFT_OUT, Figure, fell, grown, run_benchmark


@pytest.mark.parametrize("script", [benchmark.script for benchmark in BENCHMARKS])
def test_each_benchmark_is_a_script_of_the_folder(script):
    assert (settings.BASE_DIR / "bench" / f"{script}.py").is_file()


def test_every_script_that_can_be_run_is_run_or_left_out_with_a_reason():
    scripts = {
        script.stem
        for script in (settings.BASE_DIR / "bench").glob("*.py")
        if 'if __name__ == "__main__":' in script.read_text(encoding="utf-8")
    }
    assert scripts - {"all"} == {one.script for one in BENCHMARKS} | set(LEFT_OUT)


def test_growth_is_the_value_of_the_largest_size_divided_by_that_of_the_smallest():
    assert grown("claim", "claimed").read({"claimed": {"cpu_ms": [2.0, 3.0, 5.0]}}) == 2.5


def test_a_metric_is_read_by_its_path_and_divided_by_another():
    found = {"python, forked": {"per_second": 300}, "bare": {"per_second": 240}, "ratio": "0.5"}
    path = ("python, forked", "per_second")
    assert Figure("starts", path, ("bare", "per_second")).read(found) == 1.25
    assert Figure("ratio", ("ratio",)).read(found) == 0.5
    with pytest.raises(KeyError):
        Figure("ratio", ("other",)).read(found)


@pytest.mark.parametrize(
    ("now", "more_is_better", "is_worse"),
    [(0.69, True, True), (0.75, True, False), (2.0, True, False), (1.35, False, True)],
)
def test_a_metric_is_worse_beyond_the_noise_of_the_recorded_ones(now, more_is_better, is_worse):
    assert fell(now, [0.9, 1.0, 1.1], more_is_better) is is_worse


def test_last_output_line_is_the_result_and_a_failure_without_one_has_a_reason():
    assert run_benchmark(["sh", "-c", "echo table; echo '{\"a\": 1}'; exit 1"]) == {"a": 1}
    with pytest.raises(ValueError, match="no such thing"):
        run_benchmark(["sh", "-c", "echo no such thing >&2; exit 2"])
