"""Task sampling: apply the run's selection rule to each of its tasksets to choose the next tasks.

Call it with the run's row locked, in the transaction that opens the groups of the draws. It reads
only what is committed. So draws that were never committed take the same tasks when repeated.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from apps.rollouts.mixing import Part, split_by_taskset
from apps.rollouts.task_requests import TaskRequest
from apps.rollouts.task_stats import TaskRecord
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.scales import pool_ends
from apps.runs.selection import (
    Bots,
    ByDifficulty,
    BySuccess,
    Curriculum,
    EasyToHard,
    Mixture,
    Pools,
    Prioritized,
)
from apps.tasksets.models import Task
from apps.tasksets.scales import find_scale, scale_by_domain
from apps.tasksets.selection import (
    bots,
    curriculum,
    people,
    pools,
    prioritized,
    sequential,
    uniform,
)
from apps.tasksets.selection.stock import Stock
from apps.tasksets.shuffled_draws import draw_position as shuffled


def sample_tasks(run: Run, plan: RunConfig, draws: Sequence[int]) -> list[Task]:
    """Return the tasks of these draws, in their order. Raises ValueError where no task is left."""
    if plan.evaluation:
        assert run.taskset is not None  # an evaluation has one taskset
        return run.taskset.at(draws)
    if plan.selection.name == "people":
        requested, served = TaskRequest.objects.filter(run=run).serve(
            draws, run.left_out.values("task")
        )
        return people.draw_for_people(
            draws, requested, served, partial(_sample_by_taskset, run, plan)
        )
    return _sample_by_taskset(run, plan, draws)


def _sample_by_taskset(run: Run, plan: RunConfig, draws: Sequence[int]) -> list[Task]:
    """Return the tasks of these draws, chosen in each taskset separately."""
    tasks_by_draw: dict[int, Task] = {}
    for part in split_by_taskset(run, plan, draws):
        tasks_by_draw |= zip(part.draws, _of_part(run, plan, part), strict=True)
    return [tasks_by_draw[draw] for draw in draws]


def _of_part(run: Run, plan: RunConfig, part: Part) -> list[Task]:
    if isinstance(plan.selection, ByDifficulty):
        return _by_difficulty(run, plan, plan.selection, part)
    if isinstance(plan.selection, Mixture):
        return _mixed(run, plan.selection, part)
    if isinstance(plan.selection, BySuccess):
        return part.taskset.at(_by_success(run, plan, plan.selection, part))
    return part.taskset.at([_index(plan, part, place) for place in part.places])


def _index(plan: RunConfig, part: Part, place: int) -> int:
    if plan.selection.name == "sequential":
        return sequential.sequential_position(place, part.taskset.size, part.left_out)
    if plan.selection.name == "random":
        return uniform.uniform_position(place, part.taskset.size, part.seed, part.left_out)
    return shuffled(place, part.taskset.size, part.seed, part.left_out)


def _by_difficulty(
    run: Run, plan: RunConfig, rule: Pools | EasyToHard | Curriculum, part: Part
) -> list[Task]:
    """Choose tasks by their positions on a difficulty scale.

    Only the chosen positions are looked up.
    """
    size = part.taskset.size
    scale = find_scale(part.taskset, rule.scale)
    left_out = scale.places(run.left_out.values("task"))
    if rule.name == "pools":
        ends = pool_ends(rule, scale, size)
        shares = [pool.share for pool in rule.pools]
        return scale.at(
            [pools.pool_position(place, ends, shares, part.seed, left_out) for place in part.places]
        )
    # Selection counts up from the easiest, the scale from the lowest number: mirror the positions.
    if rule.higher == "easier":
        left_out = frozenset(size - 1 - place for place in left_out)
    positions = [_from_easy(plan, rule, part, place, left_out) for place in part.places]
    return scale.at(
        [size - 1 - place for place in positions] if rule.higher == "easier" else positions
    )


def _mixed(run: Run, rule: Mixture, part: Part) -> list[Task]:
    """Choose tasks by domain: tasks are ordered by domain, and each domain is a pool."""
    scale = scale_by_domain(part.taskset)
    left_out = scale.places(run.left_out.values("task"))
    share_of_domain = {domain.domain: domain.share for domain in rule.parts}
    bands = sorted(
        (end, share_of_domain.get(domain, 0)) for domain, (_, end) in scale.bands.items()
    )
    ends = [end for end, _ in bands]
    shares = [share for _, share in bands]
    return scale.at(
        [pools.pool_position(place, ends, shares, part.seed, left_out) for place in part.places]
    )


def _from_easy(
    plan: RunConfig,
    rule: EasyToHard | Curriculum,
    part: Part,
    place: int,
    left_out: frozenset[int],
) -> int:
    """Return a position in the order from easy to hard."""
    size = part.taskset.size
    if rule.name == "easy_to_hard":
        return sequential.sequential_position(place, size, left_out)
    begins = part.before(rule.from_step * plan.groups_per_step)
    return curriculum.curriculum_position(
        place, size, part.seed, left_out, hard_from_draw=begins, hard_share=rule.hard_share
    )


def _by_success(run: Run, plan: RunConfig, rule: Prioritized | Bots, part: Part) -> list[int]:
    """Choose task indexes by the recorded success of the tasks.

    No task is drawn a second time before its first result while other tasks remain.
    """
    seed = part.seed
    draws = part.draws
    under_way = run.groups.filter(
        state__in=run.groups.model.OPEN, task__taskset=part.taskset
    ).exclude(draw_index=None)
    stock = Stock(
        part.taskset.size, part.left_out, Counter(under_way.values_list("task__index", flat=True))
    )
    # The filter on the taskset makes the planner look up its few tasks first, and then their
    # records.
    records = TaskRecord.objects.filter(run=run, task__taskset=part.taskset)
    if rule.name == "prioritized":
        look = partial(records.rates, rate=rule.rate)
        return prioritized.draw_prioritized(
            draws, stock, seed, look, floor=rule.floor, prior=rule.prior
        )
    per_step = plan.groups_per_step
    updates = {draw // per_step for draw in draws}
    remembered = bots.memory(rule.forgetting, rule.counts_as, per_step)
    since = 0 if remembered is None else max(0, min(updates) - remembered)
    rows = records.beliefs(per_step, since)
    beliefs = {update: bots.Beliefs.of(rows, update, rule.forgetting) for update in updates}
    choose = partial(bots.draw_by_belief, target=rule.target, choose=rule.choose, tau=rule.tau)
    return [choose(draw, stock, seed, beliefs[draw // per_step]) for draw in draws]
