"""The model card of an exported weight version: whose it is, how it was made, what can be checked."""

from apps.policies.manifest import Manifest
from apps.runs.models import WeightVersion

CARD = """---
library_name: transformers
pipeline_tag: text-generation
tags:
- reinforcement-learning
- rftweb
---

# {name}

{title}: weight version {version}, taken after update {step}.

| | |
|---|---|
| run | `{address}` |
| weight version | {version}{parent} |
| fingerprint of the weights as trained | `{fingerprint}` |
| kind | {kind} |
| begun with | policy `{policy}` ({source}), fingerprint `{base}` |
| taskset | {tasksets} |
| algorithm | {algorithm} |
| updates behind it | {step} of {planned} planned, {groups} groups of {size} answers each |
| judged by | {judges} |
| published | {published} |

## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForCausalLM.from_pretrained("{name}", dtype="auto")
prompt = tokenizer.apply_chat_template(
    [{{"role": "user", "content": "…"}}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
)
print(tokenizer.decode(model.generate(**prompt, max_new_tokens={tokens})[0]))
```

It was sampled at temperature {temperature:g} while it learned. The licence is that of what it was begun with.
"""


def card_of(version: WeightVersion, manifest: Manifest) -> str:
    """In Markdown, as hubs read it. `manifest`: of the version's own folder."""
    run = version.run
    plan = run.settings
    judges = [choice.scorer for choice in plan.judges] + (["people"] if plan.people.per_group else [])
    return CARD.format(
        name=name_of(version), title=run.title, version=version.version, step=version.step, address=run.address,
        parent=f", trained from version {version.parent.version}" if version.parent else ", the base",
        fingerprint=version.fingerprint, base=run.policy.fingerprint, policy=run.policy.slug, source=run.policy.source,
        kind="low-rank adapter, merged into its base here" if manifest.base else "whole weights",
        tasksets=run.asks_of, algorithm=plan.algorithm.name, planned=run.planned_steps, groups=plan.groups_per_step,
        size=plan.group_size, judges=", ".join(judges) or "nobody: it learned from lessons",
        published=f"{version.published_at:%Y-%m-%d %H:%M} UTC" if version.published_at else "not yet",
        tokens=plan.sampling.max_tokens, temperature=plan.sampling.temperature,
    )  # fmt: skip


def name_of(version: WeightVersion) -> str:
    """Of the folder, and of the file that is downloaded."""
    return f"{version.run.project.slug}-{version.run.slug}-v{version.version}"
