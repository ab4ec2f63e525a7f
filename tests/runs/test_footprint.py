"""What a process tells of the machine: what cannot be read of a GPU is left out, with the reason."""

import pytest
import torch

from apps.runs.footprint import Sampler, readable

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="asks torch for a GPU where there is none")


def test_a_process_without_gpu_tells_memory_alone():
    sampler = Sampler()
    sampler.sample()
    assert {"rss_bytes", "cpu_share"} <= sampler.sample().keys()


@without_gpu
def test_a_figure_that_torch_cannot_read_is_left_out_with_the_reason():
    told = readable(name=lambda: {"gpu": torch.cuda.get_device_name(0)}, memory=lambda: {"gpu_bytes": 5})
    assert told.pop("gpu_unread").startswith("name: ")
    assert told == {"gpu_bytes": 5}


@without_gpu
def test_every_figure_may_be_missing():
    told = readable(name=lambda: {"gpu": torch.cuda.get_device_name(0)}, memory=lambda: {"free": torch.cuda.mem_get_info(0)})
    assert "name: " in told["gpu_unread"] and "memory: " in told["gpu_unread"]
    assert told.keys() == {"gpu_unread"}


def test_what_can_be_read_leaves_no_word_of_what_cannot():
    assert readable(memory=lambda: {"gpu_bytes": 5}) == {"gpu_bytes": 5}
