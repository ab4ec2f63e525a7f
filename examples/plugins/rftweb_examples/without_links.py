"""Leaves out replies with more web addresses than the option allows."""

import re
from collections.abc import Sequence

from pydantic import Field

from apps.pipelines.operators import OperatorOptions, Sample, Sifted, sift

FAMILY = "clean"
VERSION = 1
ADDRESS = re.compile(r"https?://|www\.")


class Options(OperatorOptions):
    max_links: int = Field(0, ge=0, description="Web addresses that a reply may have.")


def apply(samples: Sequence[Sample], options: Options) -> Sifted:
    return sift(samples, lambda sample: _why_not(sample.text, options.max_links))


def _why_not(text: str, max_links: int) -> str:
    addresses = len(ADDRESS.findall(text))
    return f"{addresses} web addresses, more than {max_links}" if addresses > max_links else ""
