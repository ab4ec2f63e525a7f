"""Policies: base models with their tokenizer and chat template."""

from pathlib import Path

from django.conf import settings
from django.db import models

from apps.accounts.models import Project, User

BUILT = "built by the recipe"  # how the source of a policy begins that was built here


class PolicyQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "PolicyQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))

    def brought(self) -> "PolicyQuerySet":
        """Leave out the small policies that were built here, for the demo."""
        return self.exclude(source__startswith=BUILT)


class Policy(models.Model):
    """A model that can be trained, in a verified folder on disk.

    A model named by a Hub id is downloaded into such a folder when it is added.
    """

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="policies")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    source = models.CharField(
        max_length=300,
        help_text="Origin: a folder, a Hub ID with its revision, or a builder.",
    )
    licence = models.CharField(
        max_length=200,
        blank=True,
        help_text="License of the model as stated by its origin; empty if not stated.",
    )
    folder = models.CharField(max_length=1000, help_text="Sealed weight folder of version 0.")
    fingerprint = models.CharField(max_length=64)
    architecture = models.CharField(max_length=100)
    parameters = models.BigIntegerField()
    context_tokens = models.PositiveIntegerField()
    sees_pictures = models.BooleanField(
        default=False, help_text="Whether the model accepts images in tasks."
    )
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PolicyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(fields=["project", "slug"], name="one_policy_per_slug")
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def shown_source(self) -> str:
        """Return the source as people see it: of a path of the server only the last name."""
        return Path(self.source).name if self.source.startswith("/") else self.source
