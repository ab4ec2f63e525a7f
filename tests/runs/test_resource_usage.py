"""Resource usage that a process reports; GPU values that cannot be read are left out, with the
reason.
"""

import pytest
import torch

from apps.runs.resource_usage import Sampler, read_available

without_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="asks torch for a GPU where there is none"
)


def test_process_without_a_gpu_reports_memory_and_cpu():
    sampler = Sampler()
    sampler.sample()
    assert {"rss_bytes", "cpu_share"} <= sampler.sample().keys()


def test_process_reports_the_memory_of_its_machine():
    told = Sampler().sample()
    assert told["rss_bytes"] < told["machine_bytes"]


@without_gpu
def test_metric_that_torch_cannot_read_is_left_out_with_the_reason():
    told = read_available(
        name=lambda: {"gpu": torch.cuda.get_device_name(0)}, memory=lambda: {"gpu_bytes": 5}
    )
    assert told.pop("gpu_unread").startswith("name: ")
    assert told == {"gpu_bytes": 5}


@without_gpu
def test_all_metrics_may_be_missing():
    told = read_available(
        name=lambda: {"gpu": torch.cuda.get_device_name(0)},
        memory=lambda: {"free": torch.cuda.mem_get_info(0)},
    )
    assert "name: " in told["gpu_unread"] and "memory: " in told["gpu_unread"]
    assert told.keys() == {"gpu_unread"}


def test_readable_metrics_report_no_reason():
    assert read_available(memory=lambda: {"gpu_bytes": 5}) == {"gpu_bytes": 5}
