"""Which weights a run starts from: a policy is a base model with its tokenizer and chat template."""

from django.conf import settings
from django.db import models

from apps.accounts.models import Project, User


class PolicyQuerySet(models.QuerySet):
    def visible_to(self, user: User) -> "PolicyQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Policy(models.Model):
    """A model that can be trained, as a verified folder on disk (a hub id is fetched into one when it is added)."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="policies")
    slug = models.SlugField()
    title = models.CharField(max_length=200)
    source = models.CharField(max_length=300, help_text="Where it came from: a folder, a hub id with its revision, or a builder.")
    licence = models.CharField(
        max_length=200, blank=True, help_text="Of the model, as what it came from says; empty where it does not."
    )
    folder = models.CharField(max_length=1000, help_text="Sealed weight folder of version 0.")
    fingerprint = models.CharField(max_length=64)
    architecture = models.CharField(max_length=100)
    parameters = models.BigIntegerField()
    context_tokens = models.PositiveIntegerField()
    sees_pictures = models.BooleanField(default=False, help_text="Whether tasks may show it pictures.")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = PolicyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "policies"
        constraints = [models.UniqueConstraint(fields=["project", "slug"], name="one_policy_per_slug")]

    def __str__(self) -> str:
        return self.slug
