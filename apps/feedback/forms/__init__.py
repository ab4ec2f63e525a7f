"""The forms of a decision: how a person's answer is read (`parse`) and what it says that each rollout is worth (`values`).

Pure: no rows, no requests. One module per form; `FORMS` has them by name.
"""

from apps.feedback.forms.best_worst import BestWorst
from apps.feedback.forms.critique import Critique, critique_of
from apps.feedback.forms.flag import Flag
from apps.feedback.forms.form import Answer, BadAnswer, Form
from apps.feedback.forms.pairwise import Pairwise
from apps.feedback.forms.ranking import Ranking
from apps.feedback.forms.rewrite import Rewrite
from apps.feedback.forms.rubric import Rubric
from apps.feedback.forms.spans import Spans
from apps.feedback.forms.stars import Stars
from apps.feedback.forms.thumbs import Thumbs
from apps.feedback.forms.turns import Turns

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Thumbs(), Stars(), Pairwise(), Ranking(), BestWorst(), Rubric(), Turns(), Spans(), Critique(), Rewrite(), Flag(),
    )
}  # fmt: skip

__all__ = ["FORMS", "Answer", "BadAnswer", "Form", "critique_of"]
