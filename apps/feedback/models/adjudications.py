"""Settled disputes: the one decision that counts for an item on which people disagreed."""

from django.db import models
from django.db.models.functions import Now

from apps.feedback.models.items import Item
from apps.feedback.models.ratings import Rating


class Adjudication(models.Model):
    """A decision by a person who runs the project.

    The item's other votes stay, but no longer count.
    """

    item = models.OneToOneField(Item, on_delete=models.CASCADE, related_name="adjudication")
    rating = models.OneToOneField(Rating, on_delete=models.PROTECT, related_name="adjudication")
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.rating_id} settles item {self.item_id}"
