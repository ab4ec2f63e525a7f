"""The database cache stores JSON, lets one of several concurrent adds win, and keeps every entry
that is still valid.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.core.cache import cache
from django.db import connection

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _empty():
    cache.clear()
    yield
    cache.clear()


def kept() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cache_key, value FROM cache_entry")
        return dict(cursor.fetchall())


@pytest.mark.parametrize(
    "value", [True, None, 0, 1.5, "é\n'\"%s", [1.25, 2.5], {"a": {"b": [None, False]}}]
)
def test_cache_returns_the_value_that_was_set(value):
    cache.set("ours", value)
    assert cache.get("ours", "nothing") == value


def test_cache_returns_the_default_for_a_missing_key():
    assert cache.get("nobody") is None and cache.get("nobody", 7) == 7 and "nobody" not in cache


def test_second_set_replaces_the_value():
    cache.set("ours", 1)
    cache.set("ours", 2)
    assert cache.get("ours") == 2 and cache.incr("ours") == 3


def test_values_are_stored_as_json():
    cache.set("ours", {"a": [1, None]})
    assert list(kept().values()) == ['{"a": [1, null]}']


@pytest.mark.parametrize("value", [object(), {1, 2}, b"raw", float("nan")])
def test_value_that_json_cannot_represent_is_refused_and_the_old_value_stays(value):
    cache.set("ours", "before")
    with pytest.raises((TypeError, ValueError)):
        cache.set("ours", value)
    assert cache.get("ours") == "before"


def test_pickled_value_in_the_cache_table_is_never_loaded():
    cache.set("ours", 1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE cache_entry SET value = 'gASVBAAAAAAAAABLAS4='")
    with pytest.raises(ValueError, match="Expecting value"):
        cache.get("ours")


def test_only_one_of_several_concurrent_adds_succeeds():
    together = Barrier(4)

    def add(n: int) -> bool:
        try:
            together.wait(30)
            return cache.add("busy", n, 60)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(add, range(4)))
    assert sum(added) == 1 and cache.get("busy") == added.index(True)


def test_expired_key_is_gone_and_can_be_added_again(eventually):
    cache.set("ours", 1, 0.01)
    eventually(lambda: cache.get("ours") is None, 5)
    assert not cache.touch("ours", 60) and cache.add("ours", 2, 60) and cache.get("ours") == 2


def test_touch_sets_a_new_expiry(eventually):
    cache.set("short", 1, None)
    cache.set("long", 1, 60)
    assert cache.touch("short", 0.01) and cache.touch("long", None)
    eventually(lambda: "short" not in cache, 5)
    assert cache.get("long") == 1


def test_deleted_key_is_gone():
    cache.set("ours", 1)
    assert cache.delete("ours") and not cache.delete("ours") and "ours" not in cache


def test_writes_delete_expired_entries_and_nothing_else():
    cache.set_many({f"old-{n}": n for n in range(25)}, -1)
    cache.set_many({f"new-{n}": n for n in range(1000)}, 600)
    assert len(kept()) == 1000 and len(cache.get_many([f"new-{n}" for n in range(1000)])) == 1000


def test_number_of_statements_does_not_grow_with_stored_entries(django_assert_num_queries):
    cache.set_many({f"one-{n}": n for n in range(50)}, 600)
    with django_assert_num_queries(2):
        cache.set("another", 1)
    with django_assert_num_queries(1):
        cache.get("another")
