"""The reference's advantages, distillation and priorities, computed by our functions."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from apps.buffer import priorities
from apps.pipelines.advantages import ADVANTAGES
from apps.pipelines.advantages.group import EPSILON, penalized, surpluses
from apps.pipelines.advantages.multistep import gigpo, step_wise_grpo
from apps.pipelines.advantages.spread import centred, deviation, mean
from apps.pipelines.advantages.token import discounted, gae, over_tokens, per_token, remax
from workers.algorithms.cases import names
from workers.algorithms.cases.losses import Inputs, tensor
from workers.algorithms.cases.names import Unsupported
from workers.algorithms.distillation import towards_teacher
from workers.algorithms.masking import zeroed

RESPONSE_TOKENS = 3
Task = list[list[dict[str, Any]]]  # the steps of each of its runs
# Advantages by task, run and step; None for a task that is dropped.
Credits = Sequence[list[list[float]] | None]
LOGPROBS = ("group_logprobs", "logprobs", "mean_logprobs", "old_logprobs")  # by group and rollout


def run_grouped_case(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    groups = inputs["group_rewards"]
    refills = arguments.pop("duplicate_experiences", False)
    seed = arguments.pop("seed", inputs.get("seed", 0))
    name, options = names.advantage(fn, arguments)
    if options.get("rank_penalty"):
        options["logprobs"] = _mean_logprobs(inputs, groups)
    if options.get("drop"):
        options["dropped"] = surpluses(groups, _permuting(seed))
    function = less_usual if options.get("rank_penalty") else ADVANTAGES[name]
    advantages = function(groups, **options)
    if refills and None in advantages:
        raise Unsupported("dropped groups are filled up by copies drawn at random there")
    masks = inputs.get("action_mask") or [
        [[1] * RESPONSE_TOKENS for _ in group] for group in groups
    ]
    per_run = {
        f"{task}-{run}": per_token(score, masks[task][run])
        for task, scores in enumerate(advantages)
        if scores is not None
        for run, score in enumerate(scores)
    }
    return {
        "advantages_by_task_run": per_run,
        "count": len(per_run),
        "metrics": _group_metrics(name, options, groups, advantages),
    }


def less_usual(
    groups: Sequence[list[float]],
    *,
    rank_penalty: float,
    logprobs: Sequence[Sequence[float]],
    scale: str = "group",
    epsilon: float = EPSILON,
    std_threshold: float | None = None,
) -> list[list[float] | None]:
    """Return GRPO's advantages under a rank penalty as the reference computes them.

    It penalizes the rewards in the mean and the spread alone. So all right answers of a group have
    the same advantage, however likely they are. Ours penalizes the answer's own reward too.
    """
    whole = deviation([reward for group in groups for reward in group])
    advantages: list[list[float] | None] = []
    for group, usual in zip(groups, penalized(groups, rank_penalty, logprobs), strict=True):
        spread = deviation(usual)
        if std_threshold is not None and (len(group) == 1 or spread <= std_threshold):
            advantages.append(None)
            continue
        divisor = {"group": spread + epsilon, "batch": whole + epsilon, "none": 1.0}[scale]
        middle = mean(usual) if len(group) > 1 else 0.0
        advantages.append([(reward - middle) / divisor for reward in group])
    return advantages


def _mean_logprobs(inputs: Inputs, groups: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the mean logprob of each rollout.

    Without logprobs, all rollouts are equally likely and keep their order.
    """
    logprobs = next((inputs[key] for key in LOGPROBS if key in inputs), None)
    if logprobs is None:
        return [[0.0] * len(group) for group in groups]
    return [
        [mean(values) if isinstance(values, list) else values for values in group]
        for group in logprobs
    ]


def _permuting(seed: int) -> Callable[[list[int], int], list[int]]:
    """Return a sampler that draws as the reference does.

    It takes the first places of a permutation by torch.
    """
    generator = torch.Generator().manual_seed(seed)

    def sample(places: list[int], count: int) -> list[int]:
        order = torch.randperm(len(places), generator=generator).tolist()
        return [places[place] for place in order[:count]]

    return sample


def _group_metrics(
    name: str,
    options: Mapping[str, Any],
    groups: Sequence[list[float]],
    advantages: Sequence[list[float] | None],
) -> dict[str, float]:
    """Return the mean, maximum and minimum over the groups of what the reference logs."""
    baselines = [
        group[0] - scores[0] if scores else math.nan
        for group, scores in zip(groups, advantages, strict=True)
    ]
    if name == "grpo":
        if options.get("rank_penalty"):
            groups = penalized(groups, options["rank_penalty"], options["logprobs"])
        return _grpo_metrics(groups, advantages)
    if name == "rec":
        logged = _rec_metrics(groups, options.get("dropped") or [set()] * len(groups))
    elif name == "asymre":
        # The reference logs the baseline minus the shift as the mean, also for a group of one, in
        # which nothing was shifted.
        logged = {
            "group_baseline": baselines,
            "reward_mean": [value - options.get("baseline_shift", -0.1) for value in baselines],
        }
    else:
        true_means = [mean(group) for group in groups]
        logged = ({"group_baseline": baselines} if name == "opmd" else {}) | {
            "reward_mean": true_means
        }
    return list_spread_metrics("group_advantages", logged)


def _mean_of(group: Sequence[float]) -> float:
    """Return the baseline that was subtracted: the mean, or 0 in a group of one."""
    return group[0] - centred(group)[0]


def list_spread_metrics(prefix: str, logged: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {
        f"{prefix}/{name}/{kind}": float(statistic(values))
        for name, values in logged.items()
        for kind, statistic in (("mean", mean), ("max", max), ("min", min))
    }


def multistep(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Return advantages of multi-step runs.

    The steps come as a flat list with their task, run and step. Our functions take a list of tasks,
    each a list of runs, each a list of turns.
    """
    if fn not in names.MULTISTEP:
        raise Unsupported(fn)
    reward = arguments.pop("step_reward_key", "step_reward")
    state = arguments.pop("env_state_hash_key", "env_state_hash")
    options = names.rename_options(fn, arguments, names.MULTISTEP[fn])
    tasks: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
    for step in inputs["steps"]:
        tasks.setdefault(step["task"], {}).setdefault(step["run"], []).append(step)
    runs = [
        [sorted(steps, key=lambda step: step["step"]) for steps in task.values()]
        for task in tasks.values()
    ]
    advantages, metrics = (
        _gigpo(runs, options, reward, state) if fn == "gigpo" else _step_wise(runs, options)
    )
    scalars = {
        f"{step['task']}-{step['run']}-{step['step']}": value
        for task, scores in zip(runs, advantages, strict=True)
        if scores is not None
        for steps, values in zip(task, scores, strict=True)
        for step, value in zip(steps, values, strict=True)
    }
    return {
        "advantage_scalar": scalars,
        "metrics": metrics | {"experience_count": float(len(scalars))},
    }


def _step_wise(runs: list[Task], options: dict[str, Any]) -> tuple[Credits, dict[str, float]]:
    rewards = [[[step["reward"] for step in steps] for steps in task] for task in runs]
    advantages = step_wise_grpo(rewards, **options)
    last = [[turns[-1] for turns in task] for task in rewards]
    dropped = [task for task, scores in zip(runs, advantages, strict=True) if scores is None]
    logged = {
        "reward_mean": [_mean_of(group) for group in last],
        "reward_std": [deviation(group) for group in last],
    }
    return advantages, list_spread_metrics("group_advantages", logged) | {
        "filtered_count": float(sum(len(steps) for task in dropped for steps in task)),
        "skipped_group_ratio": len(dropped) / len(runs),
    }


def _grpo_metrics(
    groups: Sequence[list[float]], advantages: Sequence[list[float] | None]
) -> dict[str, float]:
    logged = {
        "reward_mean": [_mean_of(group) for group in groups],
        "reward_std": [deviation(group) for group in groups],
    }
    kept_count = sum(len(scores) for scores in advantages if scores is not None)
    dropped = sum(map(len, groups)) - kept_count
    return list_spread_metrics("group_advantages", logged) | {"filtered_count": float(dropped)}


def _rec_metrics(
    groups: Sequence[list[float]], dropped: Sequence[set[int]]
) -> dict[str, list[float]]:
    """Return what the reference logs of each group; `dropped` holds places in the group."""
    shares = []
    means = []
    widths = []
    for group, places in zip(groups, dropped, strict=True):
        rewards = [reward for place, reward in enumerate(group) if place not in places]
        shares.append(len(places) / len(group))
        means.append(_mean_of(rewards))
        widths.append(deviation(rewards, population=True))
    return {"drop_balance": shares, "reward_mean": means, "reward_std": widths}


def _gigpo(
    runs: list[Task], options: dict[str, Any], reward: str, state: str
) -> tuple[Credits, dict[str, float]]:
    """Return GiGPO's advantages and metrics as the reference defines them.

    There, equal states count as one state across tasks, and a run without step rewards gets its
    reward at the last step.
    """
    rewards = [[_step_rewards(steps, reward) for steps in task] for task in runs]
    states = [
        [[(step.get("info") or {}).get(state) for step in steps] for steps in task] for task in runs
    ]
    advantages = gigpo(rewards, states, across_groups=True, **options)
    episodes = gigpo(rewards, states, across_groups=True, **options | {"omega": 0.0})
    within = gigpo(rewards, states, across_groups=True, **options | {"omega": 1.0})
    flat = [
        (e, w - e)
        for task_episodes, task_totals in zip(episodes, within, strict=True)
        for es, ws in zip(task_episodes, task_totals, strict=True)
        for e, w in zip(es, ws, strict=True)
    ]
    totals = [[sum(turns) for turns in task] for task in rewards]
    widths = [deviation(task) if options.get("scale") == "std" else 1.0 for task in totals]
    logged = {
        "episode_reward_mean": [_mean_of(task) for task in totals],
        "episode_reward_std": widths,
    }
    sizes = {
        "gigpo/mean_abs_A_E": mean([abs(e) for e, _ in flat]),
        "gigpo/mean_abs_A_S": mean([abs(s) for _, s in flat]),
    }
    return advantages, list_spread_metrics("gigpo", logged) | _anchor_metrics(states) | sizes


def _anchor_metrics(states: list[list[list[Any]]]) -> dict[str, float]:
    """Return the numbers of states that were met at all, and several times."""
    times_met = Counter(state for task in states for run in task for state in run)
    del times_met[None]
    shared = [state for state, count in times_met.items() if count > 1]
    return {
        "gigpo/anchor_groups_total": float(len(times_met)),
        "gigpo/anchor_groups_size_gt1": float(len(shared)),
        "gigpo/anchor_group_hit_ratio": len(shared) / len(times_met) if times_met else 0.0,
    }


def _step_rewards(steps: list[dict[str, Any]], key: str) -> list[float]:
    values = [(step.get("info") or {}).get(key) for step in steps]
    if any(reward is not None for reward in values):
        return [reward or 0.0 for reward in values]
    return [0.0] * (len(steps) - 1) + [steps[-1].get("reward") or 0.0]


def by_token(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    rewards = inputs["token_level_rewards"]
    mask = inputs["response_mask"]
    if fn == "ppo":
        options = names.rename_options(fn, arguments, {"gamma": "gamma", "lam": "lam"})
        advantages, returns = gae(rewards, mask, inputs["values"], skip_masked=False, **options)
    elif fn == "reinforceplusplus":
        advantages, returns = discounted(
            rewards, mask, **names.rename_options(fn, arguments, {"gamma": "gamma"})
        )
    elif fn == "remax":
        advantages, returns = remax(rewards, mask, inputs["reward_baselines"])
    else:
        name, options = names.advantage(fn.removesuffix("_verl"), arguments)
        advantages = returns = over_tokens(
            ADVANTAGES[name], rewards, mask, inputs["uid"], **options
        )
    return {"advantages": advantages, "returns": returns}


def distilled(fn: str, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Return advantages of distillation, with the policy that sampled as the student.

    The cases give the teacher as the reference model.
    """
    if fn not in names.DISTILLATION:
        raise Unsupported(fn)
    options = names.rename_options(fn, arguments, names.DISTILLATION[fn])
    student, teacher, mask = (
        tensor(inputs[name]) for name in ("old_logprob", "ref_logprob", "action_mask")
    )
    function = towards_teacher if fn == "on_policy_distill" else less_divergence
    advantages = function(student, teacher, mask, **options)
    costs = -function(student, teacher, mask, **options | {"coefficient": 1.0}).sum(1)
    what = "kl" if fn == "on_policy_distill" else "jsd"
    metrics = {
        f"{what}/mean": costs.mean().item(),
        f"{what}/std": costs.std().item() if len(costs) > 1 else 0.0,
        "advantages/mean": advantages.sum(1).mean().item(),
    }
    return {"advantages": advantages.tolist(), "metrics": metrics}


def less_divergence(
    student: torch.Tensor,
    teacher: torch.Tensor,
    mask: torch.Tensor,
    *,
    weight: float = 0.5,
    coefficient: float = 1.0,
    temperature: float = 1.0,
) -> torch.Tensor:
    """Return −coefficient · [w (t − m) + (1 − w) (s − m)] per token, the reference's advantage.

    It is the divergence at the sampled token, and is positive wherever student and teacher differ.
    So its policy gradient makes such tokens more likely and the divergence larger. Ours is another:
    `workers.algorithms.distillation.jensen_shannon`.
    """
    s = zeroed(student / temperature, mask)
    t = zeroed(teacher / temperature, mask)
    if weight <= 0:
        return coefficient * (t - s)
    if weight >= 1:
        return coefficient * (s - t)
    middle = torch.logaddexp(t + math.log(weight), s + math.log(1 - weight))
    return zeroed(-coefficient * (weight * (t - middle) + (1 - weight) * (s - middle)), mask)


def priority(fn: str, arguments: dict[str, Any], inputs: Inputs) -> list[Any]:
    if fn not in names.PRIORITIES or arguments.get("sigma"):
        raise Unsupported(fn)  # with noise there is no single answer
    options = names.rename_options(
        fn, arguments, {"decay": "decay", "use_count_limit": "use_limit", "sigma": "sigma"}
    )
    return list(
        priorities.PRIORITIES[names.PRIORITIES[fn]](
            inputs["model_version"], inputs["use_count"], **options
        )
    )


GROUPS: dict[str, Callable[[str, dict[str, Any], Inputs], Any]] = {
    "advantage": run_grouped_case,
    "advantage_multistep": multistep,
    "advantage_token": by_token,
    "advantage_distill": distilled,
    "priority": priority,
}
