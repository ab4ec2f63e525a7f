"""Model card of an exported weight version: origin, training, and how to verify it."""

from apps.policies.as_gguf import KINDS
from apps.policies.manifest import Manifest
from apps.runs.models import WeightVersion

CARD = """---
{library}pipeline_tag: text-generation
tags:
- reinforcement-learning
- rftweb{tag}
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
| training steps | {step} of {planned} planned, {groups} groups of {size} answers each |
| judged by | {judges} |
| published | {published} |

## Use

{use}
It was sampled at temperature {temperature:g} while it learned.
The licence is that of its base model.
"""


USE_FOLDER = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForCausalLM.from_pretrained("{name}", dtype="auto")
prompt = tokenizer.apply_chat_template(
    [{{"role": "user", "content": "…"}}],
    add_generation_prompt=True,
    return_dict=True,
    return_tensors="pt",
)
print(tokenizer.decode(model.generate(**prompt, max_new_tokens={tokens})[0]))
```
"""
USE_ADAPTER = """```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("…", dtype="auto")  # what policy `{policy}` was made of
model = PeftModel.from_pretrained(base, "{name}")
```
"""
USE_GGUF = """With llama.cpp, in this folder: `llama-cli -m {name}-{kind}.gguf -cnv`

With Ollama, in this folder: `ollama create {name} -f Modelfile` and `ollama run {name}`
"""


def write_model_card(version: WeightVersion, manifest: Manifest, form: str = "folder") -> str:
    """Return the model card in Markdown, as model hubs read it.

    `manifest`: of the version's own folder; `form`: what lies beside the card.
    """
    run = version.run
    plan = run.settings
    judges = [choice.scorer for choice in plan.judges] + (
        ["people"] if plan.people.per_group else []
    )
    use = {"folder": USE_FOLDER, "adapter": USE_ADAPTER}.get(form, USE_GGUF)
    library = {"folder": "library_name: transformers\n", "adapter": "library_name: peft\n"}
    values = {
        "name": version_folder_name(version),
        "policy": run.policy.slug,
        "tokens": plan.sampling.max_tokens,
    }
    merged = "low-rank adapter"
    if form != "adapter":
        merged += ", merged into its base here"
    return CARD.format(
        library=library.get(form, ""),
        tag="\n- gguf" if form in KINDS else "",
        use=use.format(kind=KINDS.get(form), **values),
        name=version_folder_name(version),
        title=run.title,
        version=version.version,
        step=version.step,
        address=run.address,
        parent=(
            f", trained from version {version.parent.version}" if version.parent else ", the base"
        ),
        fingerprint=version.fingerprint,
        base=run.policy.fingerprint,
        policy=run.policy.slug,
        source=run.policy.source,
        kind=merged if manifest.base else "whole weights",
        tasksets=run.asks_of,
        algorithm=plan.algorithm.name,
        planned=run.planned_steps,
        groups=plan.groups_per_step,
        size=plan.group_size,
        judges=", ".join(judges) or "none; trained on lessons",
        published=(
            f"{version.published_at:%Y-%m-%d %H:%M} UTC" if version.published_at else "not yet"
        ),
        temperature=plan.sampling.temperature,
    )


def version_folder_name(version: WeightVersion) -> str:
    """Return the name of the version's folder, and of the file that is downloaded."""
    return f"{version.run.project.slug}-{version.run.slug}-v{version.version}"
