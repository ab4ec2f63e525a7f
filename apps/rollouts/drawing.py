"""Which tasks a run's next draws take: its selection put to work on the rows that the rule goes by, in each of its tasksets.

Call it in the transaction that opens the draws' groups, with the run's row locked: what is read is what was recorded until
then, so that draws which were never committed take the same tasks when they are made again.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from apps.rollouts.asked import AskedTask
from apps.rollouts.mixing import Part, parts_of
from apps.rollouts.records import TaskRecord
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.runs.scales import ends_of
from apps.runs.selection import ByDifficulty, BySuccess, Mixture
from apps.tasksets.drawing import position as shuffled
from apps.tasksets.models import Task
from apps.tasksets.scales import domains_of, scale_of
from apps.tasksets.selection import bots, curriculum, people, pools, prioritized, sequential, uniform
from apps.tasksets.selection.stock import Stock


def drawn(run: Run, plan: RunConfig, draws: Sequence[int]) -> list[Task]:
    """The tasks of these draws, in their order. Raises ValueError where no task is left."""
    if plan.evaluation:
        return run.taskset.at(draws)
    if plan.selection.name == "people":
        asked, served = AskedTask.objects.filter(run=run).serve(draws, run.left_out.values("task"))
        return people.drawn(draws, asked, served, partial(_drawn, run, plan))
    return _drawn(run, plan, draws)


def _drawn(run: Run, plan: RunConfig, draws: Sequence[int]) -> list[Task]:
    """Set by set."""
    found: dict[int, Task] = {}
    for part in parts_of(run, plan, draws):
        found |= zip(part.draws, _of_part(run, plan, part), strict=True)
    return [found[draw] for draw in draws]


def _of_part(run: Run, plan: RunConfig, part: Part) -> list[Task]:
    if isinstance(plan.selection, ByDifficulty):
        return _by_difficulty(run, plan, part)
    if isinstance(plan.selection, Mixture):
        return _mixed(run, plan, part)
    if isinstance(plan.selection, BySuccess):
        return part.taskset.at(_by_success(run, plan, part))
    return part.taskset.at([_index(plan, part, place) for place in part.places])


def _index(plan: RunConfig, part: Part, place: int) -> int:
    if plan.selection.name == "sequential":
        return sequential.position(place, part.taskset.size, part.left_out)
    if plan.selection.name == "random":
        return uniform.position(place, part.taskset.size, part.seed, part.left_out)
    return shuffled(place, part.taskset.size, part.seed, part.left_out)


def _by_difficulty(run: Run, plan: RunConfig, part: Part) -> list[Task]:
    """By places in the order of a scale, which is looked up at the places drawn alone."""
    rule, size = plan.selection, part.taskset.size
    scale = scale_of(part.taskset, rule.by)
    left_out = scale.places(run.left_out.values("task"))
    if rule.name == "pools":
        ends = ends_of(rule, scale, size)
        shares = [pool.share for pool in rule.pools]
        return scale.at([pools.position(place, ends, shares, part.seed, left_out) for place in part.places])
    if rule.higher == "easier":  # what counts up from the easiest is told as places, which count up from the lowest number
        left_out = frozenset(size - 1 - place for place in left_out)
    found = [_from_easy(plan, part, place, left_out) for place in part.places]
    return scale.at([size - 1 - place for place in found] if rule.higher == "easier" else found)


def _mixed(run: Run, plan: RunConfig, part: Part) -> list[Task]:
    """The tasks stand domain by domain: a domain is a pool."""
    scale = domains_of(part.taskset)
    left_out = scale.places(run.left_out.values("task"))
    given = {domain.domain: domain.share for domain in plan.selection.parts}
    bands = sorted((end, given.get(domain, 0)) for domain, (_, end) in scale.bands.items())
    ends, shares = [end for end, _ in bands], [share for _, share in bands]
    return scale.at([pools.position(place, ends, shares, part.seed, left_out) for place in part.places])


def _from_easy(plan: RunConfig, part: Part, place: int, left_out: frozenset[int]) -> int:
    """Place in the order from easy to hard."""
    rule, size = plan.selection, part.taskset.size
    if rule.name == "easy_to_hard":
        return sequential.position(place, size, left_out)
    begins = part.before(rule.from_step * plan.groups_per_step)
    return curriculum.position(place, size, part.seed, left_out, hard_from_draw=begins, hard_share=rule.hard_share)


def _by_success(run: Run, plan: RunConfig, part: Part) -> list[int]:
    """By what is recorded of the tasks. No task is drawn twice before its verdict while there are others."""
    rule, seed, draws = plan.selection, part.seed, part.draws
    under_way = run.groups.filter(state__in=run.groups.model.OPEN, task__taskset=part.taskset).exclude(draw_index=None)
    stock = Stock(part.taskset.size, part.left_out, Counter(under_way.values_list("task__index", flat=True)))
    # The taskset is said too: so the few tasks are looked up first, and then their records.
    records = TaskRecord.objects.filter(run=run, task__taskset=part.taskset)
    if rule.name == "prioritized":
        look = partial(records.rates, which=rule.rate)
        return prioritized.drawn(draws, stock, seed, look, floor=rule.floor, prior=rule.prior)
    rows, per_step = records.beliefs(plan.groups_per_step), plan.groups_per_step
    beliefs = {update: bots.Beliefs.of(rows, update, rule.forgetting) for update in {draw // per_step for draw in draws}}
    how = {"target": rule.target, "choose": rule.choose, "tau": rule.tau}
    return [bots.drawn(draw, stock, seed, beliefs[draw // per_step], **how) for draw in draws]
