"""Read-only administration pages of what operators kept, made and cut."""

from apps.accounts.ledger_admin import register_read_only
from apps.pipelines.models import CutRollout, OperatorCount, OwnExpert

register_read_only(OperatorCount, "run", "place", "operator", "given", "kept", "made")
register_read_only(OwnExpert, "run", "task", "number", "rollout", "operator", "reason", "at")
register_read_only(CutRollout, "run", "rollout", "operator", "reason", "is_silent", "at")
