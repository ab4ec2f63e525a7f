"""The operator `without_links` keeps its contract and leaves out these replies."""

from pathlib import Path

from rftweb.testing import check_operator, sample

PLUGIN = Path(__file__).parents[1] / "rftweb_examples" / "without_links.py"
SAMPLES = [sample(1, "see https://example.com"), sample(2, "no address")]


def test_without_links_leaves_out_addresses():
    check_operator(PLUGIN, SAMPLES, kept=[2])


def test_without_links_keeps_as_many_as_are_allowed():
    check_operator(PLUGIN, SAMPLES, kept=[1, 2], options={"max_links": 1})
