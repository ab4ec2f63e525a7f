"""Rewrite stored configurations whose algorithm was TRL's loss type, two clips and a KL weight."""

from django.db import migrations

AGGREGATIONS = {
    "dapo": "token-mean",
    # Over a forward pass, which was as a rule the whole update; the update's tokens are what is nearest to it now.
    "bnpo": "token-mean",
    "grpo": "seq-mean-token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
}


def rewritten(algorithm: dict) -> dict:
    """The section `algorithm` of today that learns as this one of before did; every part is explicit."""
    beta = algorithm.get("beta", 0.0)
    return {
        "name": "grpo",
        "advantage": {"name": "grpo", "scale": algorithm.get("advantage", {}).get("scale", "group")},
        "loss": {
            "name": "ppo",
            "clip_low": algorithm.get("epsilon_low", 0.2),
            "clip_high": algorithm.get("epsilon_high", 0.28),
            "dual_clip": None,
        },
        "aggregation": AGGREGATIONS[algorithm.get("loss", "dapo")],
        "kl": {"estimator": "k3", "coefficient": beta} if beta else {"estimator": "none"},
    }


def is_old(algorithm: dict) -> bool:
    return not isinstance(algorithm.get("loss"), dict)


def forward(apps, schema_editor) -> None:
    runs = apps.get_model("runs", "Run")
    for run in runs.objects.only("config").iterator():
        algorithm = run.config.get("algorithm", {})
        if is_old(algorithm):
            run.config = {**run.config, "algorithm": rewritten(algorithm)}
            run.save(update_fields=["config"])


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_retire_weights")]

    operations = [migrations.RunPython(forward, migrations.RunPython.noop)]
