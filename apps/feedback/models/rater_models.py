"""What is known of how a run's people rate: the fitted models, what each foretold, and how surprising a rollout is."""

from django.db import models
from django.db.models.functions import Now

from apps.feedback.models.ratings import Rating
from apps.rollouts.models import Rollout
from apps.runs.models import Run


class RaterModel(models.Model):
    """One fit. Its rewards name its number; it has learned the run's decisions up to `last_rating`."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rater_models")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    decisions = models.PositiveIntegerField(help_text="How many it has learned.")
    last_rating = models.ForeignKey(Rating, on_delete=models.PROTECT, related_name="+")
    coefficients = models.JSONField(default=dict)
    figures = models.JSONField(default=dict, help_text="How well it foretold decisions that it had not learned.")
    fitted_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_rater_model_per_number")]

    def __str__(self) -> str:
        return f"rater model {self.number} of {self.run_id}"


class Prediction(models.Model):
    """What the rater model foretold of a decision before it learned it."""

    rating = models.OneToOneField(Rating, on_delete=models.CASCADE, related_name="prediction")
    rater_model = models.ForeignKey(RaterModel, on_delete=models.CASCADE, related_name="predictions")
    mean = models.FloatField()
    deviation = models.FloatField()
    is_audit = models.BooleanField(default=False, help_text="Of a row drawn at random: only these measure honestly.")

    def __str__(self) -> str:
        return f"{self.mean:.2f} for {self.rating_id}"


class Surprise(models.Model):
    """How surprising a rollout is to the frozen base weights: −logprob in nats per token, and tokens above four nats."""

    rollout = models.OneToOneField(Rollout, on_delete=models.CASCADE, primary_key=True, related_name="surprise")
    mean = models.FloatField()
    worst = models.FloatField()
    rare = models.PositiveIntegerField(help_text="Tokens of more than four nats.")

    def __str__(self) -> str:
        return f"{self.mean:.2f} nats for {self.rollout_id}"
