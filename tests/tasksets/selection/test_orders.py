"""Selection rules that depend only on the number of the draw: orders, shares, the curriculum and
the pools.
"""

from collections import Counter

import pytest

from apps.tasksets.selection import curriculum, pools, sequential, uniform
from apps.tasksets.selection.stock import Stock
from apps.tasksets.selection.turns import turn
from apps.tasksets.shuffled_draws import draw_position as shuffled


def test_sequence_takes_all_tasks_in_order_and_starts_over():
    assert [sequential.sequential_position(draw, 3) for draw in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_sequence_replaces_a_left_out_task_with_the_next_one():
    assert [sequential.sequential_position(draw, 4, {1, 3}) for draw in range(4)] == [0, 2, 2, 0]


def test_random_draws_repeat_tasks_and_depend_only_on_the_seed():
    first = [uniform.uniform_position(draw, 50, 3) for draw in range(50)]
    assert (
        first
        == [uniform.uniform_position(draw, 50, 3) for draw in range(50)]
        != [uniform.uniform_position(draw, 50, 4) for draw in range(50)]
    )
    assert len(set(first)) < 50


def test_random_draws_take_each_remaining_task_equally_often():
    counts = Counter(uniform.uniform_position(draw, 5, 0, {2}) for draw in range(4_000))
    assert set(counts) == {0, 1, 3, 4} and all(900 < count < 1_100 for count in counts.values())


def test_random_draw_finds_the_only_remaining_task_of_a_large_taskset():
    assert uniform.uniform_position(0, 20_000, 0, set(range(20_000)) - {7}) == 7


def test_shares_alternate_evenly():
    assert [turn(draw, (2, 1, 1))[0] for draw in range(8)] == [0, 1, 2, 0, 0, 1, 2, 0]


def test_turn_number_of_each_share_matches_counting():
    shares = (3, 0, 2)
    before = Counter()
    for draw in range(50):
        who, nth = turn(draw, shares)
        assert nth == before[who]
        before[who] += 1
    assert before == {0: 30, 2: 20}


def test_curriculum_shuffles_until_its_update_and_then_takes_only_hard_tasks():
    taken = [
        curriculum.curriculum_position(draw, 10, 5, hard_from_draw=10, hard_share=0.3)
        for draw in range(16)
    ]
    assert taken[:10] == [shuffled(draw, 10, 5) for draw in range(10)]
    assert sorted(taken[10:13]) == sorted(taken[13:]) == [7, 8, 9]


def test_at_least_one_task_is_hard():
    assert curriculum.curriculum_position(0, 10, 0, hard_from_draw=0, hard_share=0.01) == 9


def test_curriculum_takes_the_other_tasks_when_all_hard_ones_are_left_out():
    taken = {
        curriculum.curriculum_position(draw, 10, 0, {8, 9}, hard_from_draw=0, hard_share=0.2)
        for draw in range(10)
    }
    assert taken == set(range(8))


def test_pools_get_their_shares_and_use_all_their_tasks():
    taken = [pools.pool_position(draw, (2, 5, 9), (1, 0, 3), 0) for draw in range(16)]
    assert Counter(
        "easy" if place < 2 else "middle" if place < 5 else "hard" for place in taken
    ) == {"easy": 4, "hard": 12}
    assert Counter(place for place in taken if place >= 5) == dict.fromkeys(range(5, 9), 3)


def test_pool_without_tasks_gives_its_turns_to_the_other_pools():
    assert {pools.pool_position(draw, (2, 2, 4), (1, 5, 1), 0, {0, 1}) for draw in range(8)} == {
        2,
        3,
    }


def test_other_tasks_are_drawn_when_no_pool_has_a_task_left():
    assert {pools.pool_position(draw, (2, 3), (0, 1), 0, {2}) for draw in range(3)} == {0, 1}


def test_task_is_refused_while_another_has_fewer_rollouts_in_progress():
    stock = Stock(3, left_out=[2], under_way={0: 1})
    assert [stock.refuses(n) for n in range(3)] == [True, False, True]
    stock.take(1)
    assert [stock.refuses(n) for n in range(3)] == [False, False, True]
    stock.take(1)
    assert [stock.refuses(n) for n in range(3)] == [False, True, True]


def test_drawn_tasks_do_not_depend_on_how_many_are_drawn_together():
    together = Stock(4)
    under_way = Counter()
    for draw in range(11):
        index = Stock(4, under_way=under_way).anyone("key", draw)
        assert together.take(together.anyone("key", draw)) == index
        under_way[index] += 1


@pytest.mark.parametrize(("size", "left_out"), [(0, ()), (2, (0, 1))])
def test_stock_without_tasks_raises_an_error(size, left_out):
    with pytest.raises(ValueError, match="nothing to sample"):
        Stock(size, left_out)
