"""Models of policies: the models of a project, their imports, removals and previews."""

from apps.policies.models.imports import ImportOver, PolicyImport
from apps.policies.models.policies import BUILT, Policy
from apps.policies.models.previews import TemplatePreview
from apps.policies.models.removals import PolicyRemoval

__all__ = ["BUILT", "ImportOver", "Policy", "PolicyImport", "PolicyRemoval", "TemplatePreview"]
