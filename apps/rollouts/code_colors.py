"""Colors for code blocks in model output.

Only languages whose lexers take linear time on hostile text are colored: Pygments' lexers are long
regular expressions. Those of C, C++ and Rust, for example, take quadratic time on runs of newlines
or slashes (tests/rollouts/test_code_colors.py).
"""

from django.utils.html import escape
from pygments.lexer import Lexer
from pygments.lexers.data import JsonLexer
from pygments.lexers.go import GoLexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, _TokenType

MAX_BLOCK_LENGTH = 10_000  # characters of one block
LEXERS: dict[str, type[Lexer]] = {
    "python": PythonLexer,
    "py": PythonLexer,
    "python3": PythonLexer,
    "json": JsonLexer,
    "javascript": JavascriptLexer,
    "js": JavascriptLexer,
    "go": GoLexer,
    "bash": BashLexer,
    "sh": BashLexer,
}
# The first kind that a token belongs to names its class (static/css/app.css).
KINDS = (
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (String, "string"),
    (Number, "number"),
    (Literal, "number"),
    (Name.Function, "name"),
    (Name.Class, "name"),
)


class NotColored(Exception):
    """An error for code that is too long or in no known language."""


def colored(code: str, info: str) -> str:
    """Return the code as safe HTML; `info` is the text after the opening fence.

    Raises NotColored.
    """
    language = info.strip().split(maxsplit=1)[0].lower() if info.strip() else ""
    lexer = LEXERS.get(language.strip("{.}"))
    if lexer is None or len(code) > MAX_BLOCK_LENGTH:
        raise NotColored
    tokens = lexer(stripnl=False, ensurenl=False).get_tokens(code)
    return "".join(_color_token(kind, text) for kind, text in tokens)


def _color_token(kind: _TokenType, text: str) -> str:
    name = next((name for among, name in KINDS if kind in among), "")
    return f'<span class="code-{name}">{escape(text)}</span>' if name else escape(text)
