"""Results of evaluations, and arenas with their votes."""

from apps.evaluation.models.arenas import STANDING, Arena, Contestant, Pairing, Vote
from apps.evaluation.models.evaluations import EvaluationResult

__all__ = ["STANDING", "Arena", "Contestant", "EvaluationResult", "Pairing", "Vote"]
