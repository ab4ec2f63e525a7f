"""Rater models: fitted models of a run's raters, their predictions, and base NLLs of rollouts."""

from django.db import models
from django.db.models.functions import Now

from apps.feedback.models.ratings import Rating
from apps.rollouts.models import Rollout
from apps.runs.models import Run


class RaterModel(models.Model):
    """One fit of a run's rater model.

    Its rewards name its number. It has learned the run's decisions up to `last_rating`.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rater_models")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    decisions = models.PositiveIntegerField(help_text="Number of decisions in the training data.")
    last_rating = models.ForeignKey(Rating, on_delete=models.PROTECT, related_name="+")
    coefficients = models.JSONField(default=dict)
    metrics = models.JSONField(
        default=dict, help_text="Accuracy on decisions that were not in the training data."
    )
    fitted_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="one_rater_model_per_number")
        ]

    def __str__(self) -> str:
        return f"rater model {self.number} of {self.run_id}"


class Prediction(models.Model):
    """The rater model's prediction of a decision before it learned from it."""

    rating = models.OneToOneField(Rating, on_delete=models.CASCADE, related_name="prediction")
    rater_model = models.ForeignKey(
        RaterModel, on_delete=models.CASCADE, related_name="predictions"
    )
    mean = models.FloatField()
    deviation = models.FloatField()
    is_audit = models.BooleanField(
        default=False,
        help_text="The row was sampled at random, so it gives an unbiased estimate of accuracy.",
    )

    def __str__(self) -> str:
        return f"{self.mean:.2f} for {self.rating_id}"


class RolloutBaseNll(models.Model):
    """The base policy's NLL of a rollout, in nats per token, and its tokens above four nats."""

    rollout = models.OneToOneField(
        Rollout, on_delete=models.CASCADE, primary_key=True, related_name="surprise"
    )
    mean = models.FloatField()
    worst = models.FloatField()
    rare = models.PositiveIntegerField(help_text="Tokens with a negative logprob above 4 nats.")

    def __str__(self) -> str:
        return f"{self.mean:.2f} nats for {self.rollout_id}"
