"""What operators of runs kept, made and cut, in the administration: only looked at."""

from apps.accounts.ledger_admin import looked_at
from apps.pipelines.models import CutRollout, OperatorCount, OwnExpert

looked_at(OperatorCount, "run", "place", "operator", "given", "kept", "made")
looked_at(OwnExpert, "run", "task", "number", "rollout", "operator", "reason", "at")
looked_at(CutRollout, "run", "rollout", "operator", "reason", "is_silent", "at")
