"""The whole loop with vLLM as its engine; no engine process outlives the pool child that started
it.
"""

import os
import signal

import pytest

from tests.descent import children, descendants, is_alive
from tests.stack.test_modes import FIRST_GAP

pytestmark = [
    pytest.mark.stack,
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.timeout(1200),
]
START_SECONDS = 300  # 30 on an idle machine; three processes import vLLM
ACKNOWLEDGED = """SELECT v.version, a.probe_gap, w.engine
    FROM runs_acknowledgement a JOIN runs_worker w ON w.id = a.worker_id
                  JOIN runs_weightversion v ON v.id = a.weight_version_id
                      JOIN runs_run r ON r.id = v.run_id WHERE r.slug = %s"""
SAMPLED_BY = (
    "SELECT DISTINCT e.weight_version FROM buffer_experience e JOIN runs_run r ON r.id = e.run_id"
    " WHERE r.slug = %s"
)


def test_run_on_vllm_trains_on_its_own_samples(installation, tmp_path):
    installation.begin("vllm", tmp_path, engine="vllm", steps=3)
    installation.wait_completed("vllm", START_SECONDS)
    acknowledged = installation.sql(ACKNOWLEDGED, "vllm")
    assert {engine for _, _, engine in acknowledged} == {"vllm"}
    assert max(gap for _, gap, _ in acknowledged) < 0.02
    assert installation.one(FIRST_GAP, "vllm") <= 0.02, (
        "logprobs of real samples differ between engine and trainer"
    )
    assert len({version for version, _, _ in acknowledged}) >= 2, (
        "no new weights were served during the run"
    )
    assert max(version for (version,) in installation.sql(SAMPLED_BY, "vllm")) >= 1, (
        "new weights were never sampled from"
    )
    assert installation.violations() == {}


@pytest.mark.nightly
def test_killing_the_pool_child_leaves_no_vllm_process_and_the_run_continues(
    installation, tmp_path
):
    installation.begin("vllm-kill", tmp_path, engine="vllm", steps=200)
    installation.wait("it learns", lambda: installation.step("vllm-kill") >= 1, START_SECONDS)
    (child,) = children(installation.stack.pid("explorer"))
    family = descendants(child)
    assert len(family) >= 2, "vLLM has no processes of its own"
    at = installation.step("vllm-kill")
    os.kill(child, signal.SIGKILL)
    installation.wait("vLLM's processes are gone", lambda: not any(map(is_alive, family)), 60)
    installation.wait(
        "it learns again", lambda: installation.step("vllm-kill") > at + 4, START_SECONDS
    )
    installation.must("runs", "stop", "vllm-kill")
    assert installation.violations() == {}
