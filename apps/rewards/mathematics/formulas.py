"""Parse formulas into trees: recursive descent over plain LaTeX and calculator notation.

A node is a tuple whose first member is the kind: ("number", value, digits), ("symbol", name),
("constant", name) for e, i, pi and infinity, ("+", a, b), ("*", a, b), ("/", a, b), ("^", a, b),
("-", a), ("%", a), ("degree", a), ("based", value, digits, base) whose value may be None,
("call", name, a) of a function that is only known by name, ("big", name, bound, lower, upper, body)
of sums, limits and integrals, or a function's name and its arguments.
"""

import re
from fractions import Fraction
from functools import lru_cache

MAX_FORMULA_LENGTH = 600  # characters of one formula
DEEPEST = 40  # of brackets in brackets
MAX_EXPONENT = 400  # of ten, in 1e400
MAX_BASE = 36
FUNCTIONS = frozenset(
    {
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "arccot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "log",
        "ln",
        "lg",
        "exp",
        "sqrt",
        "abs",
        "cbrt",
        "floor",
        "ceil",
        "min",
        "max",
        "gcd",
        "lcm",
    }
)
NAMED_ONLY = frozenset(
    {
        "arg",
        "dim",
        "ker",
        "det",
        "deg",
        "Re",
        "Im",
        "Pr",
        "sup",
        "inf",
        "sgn",
        "rank",
        "tr",
        "lcd",
        "proj",
        "Var",
        "Cov",
    }
)
SAME_FUNCTION = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "lg": "log10"}
INVERSE = {"sin": "asin", "cos": "acos", "tan": "atan"}
CONSTANTS = {
    "pi": "pi",
    "e": "e",
    "i": "i",
    "\\pi": "pi",
    "\\infty": "infinity",
    "oo": "infinity",
    "inf": "infinity",
    "infinity": "infinity",
    "\\imath": "i",
}
GREEK = frozenset(
    {
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
        "ell",
        "hbar",
        "partial",
        "nabla",
    }
)
ACCENTS = frozenset(
    {
        "overline",
        "bar",
        "vec",
        "hat",
        "dot",
        "ddot",
        "tilde",
        "widehat",
        "widetilde",
        "overarc",
        "wideparen",
        "arc",
        "mathcal",
        "mathbb",
        "mathfrak",
        "mathscr",
    }
)
# Accents that are written otherwise and mean the same.
SAME_ACCENT = {
    "overline": "bar",
    "widehat": "hat",
    "widetilde": "tilde",
    "overarc": "arc",
    "wideparen": "arc",
}
FIGURES = frozenset({"angle", "triangle", "measuredangle", "odot", "square"})
BIG = frozenset({"sum", "prod", "lim", "int", "iint", "oint", "bigcup", "bigcap"})
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++(?![\w.]))?)"
    r"|(?P<command>\\[a-zA-Z]+|\\[{}|])|(?P<word>[a-zA-Z]+'*)|(?P<sign>\S))",
    re.ASCII,
)
_CLOSES = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_NO_FACTOR = frozenset(
    {
        "\\cdot",
        "\\times",
        "\\ast",
        "\\div",
        "\\rfloor",
        "\\rceil",
        "\\degree",
        "\\pm",
        "\\mp",
        "\\le",
        "\\ge",
        "\\ne",
        "\\in",
        "\\to",
        "\\equiv",
        "\\approx",
        "\\pmod",
        "\\mod",
        "\\bmod",
        "\\cup",
        "\\cap",
        "\\setminus",
        "\\ldots",
    }
)

Node = tuple


def _sort_letters(figure: str, letters: str) -> str:
    """Return the letters of a figure in one order: the angles ABC and CBA are the same."""
    if figure in ("angle", "measuredangle") and re.fullmatch(r"[A-Z]{3}", letters):
        return min(letters, letters[::-1])
    return "".join(sorted(letters)) if figure == "triangle" else letters


def _is_vector(node: Node) -> bool:
    """Tell vectors, and vectors with a sign or a number before them."""
    if node[0] == "symbol":
        return node[1].startswith(("vec", "hat"))
    if node[0] == "-":
        return _is_vector(node[1])
    return node[0] == "*" and not _is_vector(node[1]) and _is_vector(node[2])


def _cross(left: Node, right: Node) -> Node:
    """Return the cross product of two vectors, which changes its sign with their order."""
    for factor, crossed in ((left, lambda part: (part, right)), (right, lambda part: (left, part))):
        if factor[0] == "-":
            return ("-", _cross(*crossed(factor[1])))
        if factor[0] == "*":
            return ("*", factor[1], _cross(*crossed(factor[2])))
    if repr(left) > repr(right):
        return ("-", _cross(right, left))
    return ("big", "cross", "", left, right, parse_exact_number("1"))


class NotAFormula(ValueError):
    """Raised for a text that is no formula that can be read here."""


@lru_cache(maxsize=512)
def parse_formula(text: str) -> Node:
    """Raise NotAFormula."""
    if len(text) > MAX_FORMULA_LENGTH:
        raise NotAFormula("too long")
    reader = _Reader(_tokens(text))
    node = reader.sum()
    if reader.next is not None:
        raise NotAFormula(f"{reader.next!r} was not expected")
    return node


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    depth = 0
    raw_depth = 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None  # any sign is a token, and none of them ends in blanks
        place = match.end()
        token = match.group().strip()
        depth += (token in "([{") - (token in ")]}")
        if depth > DEEPEST:
            raise NotAFormula("too deep")
        raw_depth = _raw_depth(token, tokens, raw_depth)
        tokens += _words(token) if match["word"] and not raw_depth else [token]
    return tokens


def _raw_depth(token: str, before: list[str], depth: int) -> int:
    """Return how deep in the braces of a name the token is: their letters are no factors."""
    if depth:
        return depth + (token == "{") - (token == "}")
    is_name = bool(before) and (before[-1] == "_" or before[-1].lstrip("\\") in ACCENTS)
    return int(token == "{" and is_name)


def _words(run: str) -> list[str]:
    """Split adjacent letters into factors, unless they contain the name of a function."""
    name = run.lower().rstrip("'")
    if name in FUNCTIONS or run in CONSTANTS:
        return [run.lower()]
    if run in NAMED_ONLY and len(run) > 2:
        return ["\\" + run]
    function_name = next(
        (
            function_name
            for function_name in ("sqrt", "sin", "cos", "tan", "log", "ln", "pi")
            if function_name in run and len(run) <= len(function_name) + 3
        ),
        None,
    )
    if function_name:
        before, _, after = run.partition(function_name)
        return [*before, function_name, *after]
    if len(name) > 3 and not (run.isupper() and len(name) <= 5):
        raise NotAFormula(f"{run} is not a function name")
    return re.findall(r"[a-zA-Z]'*", run)


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]
        self.bars = 0
        self.depth = 0

    @property
    def next(self) -> str | None:
        return self.tokens[-1] if self.tokens else None

    def take(self, *expected: str) -> str | None:
        """Take the next token, where it is one of these."""
        return self.tokens.pop() if self.tokens and self.tokens[-1] in expected else None

    def need(self, expected: str) -> None:
        if not self.take(expected):
            raise NotAFormula(f"{expected} is missing")

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            right = self.product()
            node = ("+", node, right if sign == "+" else ("-", right))
        return node

    def product(self) -> Node:
        node = self.signed()
        while True:
            if sign := self.take("*", "\\cdot", "\\times", "\\ast"):
                right = self.signed()
                is_cross = sign == "\\times" and _is_vector(node) and _is_vector(right)
                node = _cross(node, right) if is_cross else ("*", node, right)
            elif self.take("/", "\\div"):
                node = ("/", node, self.signed())
            elif self.begins_factor():
                first = (self.next or "")[:1]
                is_digit = first.isdigit() or first == "."
                last = node[-1][0] if isinstance(node[-1], tuple) else ""
                if is_digit and "factorial" not in (node[0], last):
                    raise NotAFormula("a number follows without an operator")
                node = ("*", node, self.power())
            else:
                return node

    def begins_factor(self) -> bool:
        token = self.next
        if token is None or token in ("|", "\\|"):
            return token is not None and not self.bars
        return bool(re.match(r"[\w(\[]|\{|\.\d", token, re.ASCII)) or (
            token[0] == "\\" and token[1:].isalpha() and token not in _NO_FACTOR
        )

    def signed(self) -> Node:
        minus = False
        while sign := self.take("-", "+"):
            minus ^= sign == "-"
        node = self.power()
        return ("-", node) if minus else node

    def power(self) -> Node:
        base = self.postfixed(self.primary())
        if self.take("^"):
            return self.postfixed(("^", base, self.exponent()))
        return base

    def postfixed(self, node: Node) -> Node:
        names = {"!": "factorial", "%": "%", "\\degree": "degree"}
        while mark := self.take(*names):
            node = (names[mark], node)
        return node

    def exponent(self) -> Node:
        if self.take("-"):
            return ("-", self.exponent())
        node = self.postfixed(self.primary())
        return ("^", node, self.exponent()) if self.take("^") else node

    def primary(self) -> Node:
        self.depth += 1
        if self.depth > 4 * DEEPEST:
            raise NotAFormula("too deep")
        if not self.tokens:
            raise NotAFormula("it ends too early")
        node = self._primary(self.tokens.pop())
        self.depth -= 1
        return node

    def _primary(self, token: str) -> Node:
        if re.match(r"\.?\d", token, re.ASCII):
            return self.based(token) if self.next == "_" else parse_exact_number(token)
        if token in _CLOSES:
            return self.closed(_CLOSES[token])
        if token in ("|", "\\|"):
            self.bars += 1
            node = self.sum()
            self.need(token)
            self.bars -= 1
            return ("abs", node)
        if token in CONSTANTS:
            return ("constant", CONSTANTS[token])
        name = token.lstrip("\\")
        if name.lower() in FUNCTIONS:
            return self.function(name.lower())
        if token.startswith("\\"):
            return self.command(name)
        if token[0].isascii() and token[0].isalpha():
            return self.symbol(token)
        raise NotAFormula(f"{token!r} was not expected")

    def closed(self, end: str) -> Node:
        bars = self.bars
        self.bars = 0
        node = self.sum()
        self.need(end)
        self.bars = bars
        return node

    def based(self, digits: str) -> Node:
        """Read a number with its base behind it, as in 101_2."""
        self.need("_")
        return in_base(digits, self.raw().strip("()"))

    def symbol(self, name: str) -> Node:
        if self.take("_"):
            name += "_" + self.raw()
        return ("symbol", name)

    def raw(self) -> str:
        """Take what stands in braces, or the next token, as text."""
        if not self.take("{"):
            return self.tokens.pop() if self.tokens else ""
        inside: list[str] = []
        depth = 1
        while self.tokens:
            token = self.tokens.pop()
            depth += (token == "{") - (token == "}")
            if not depth:
                return "".join(inside)
            inside.append(token)
        raise NotAFormula("} is missing")

    def function(self, name: str) -> Node:
        root = self.optional() if name == "sqrt" else None
        below = self.argument() if name == "log" and self.take("_") else None
        power = self.exponent() if self.take("^") else None
        arguments = self.arguments() if name in ("min", "max", "gcd", "lcm") else None
        if arguments:
            return (name, *arguments)
        inside = self.argument() if name == "sqrt" else self.operand()
        if power == ("-", ("number", Fraction(1), "1")) and name in INVERSE:
            return (INVERSE[name], inside)
        node = self._build_function(name, inside, root, below)
        return ("^", node, power) if power else node

    def _build_function(
        self, name: str, inside: Node, root: Node | None, below: Node | None
    ) -> Node:
        if root is not None:
            return ("root", inside, root)
        if name == "cbrt":
            return ("root", inside, parse_exact_number("3"))
        return ("log", inside, below) if below else (SAME_FUNCTION.get(name, name), inside)

    def arguments(self) -> list[Node]:
        self.need("(")
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.need(")")
        return arguments

    def optional(self) -> Node | None:
        return self.closed("]") if self.take("[") else None

    def argument(self) -> Node:
        """Take what is in brackets, or the next sign alone: \\frac12 is a half."""
        token = self.next or ""
        if token.isascii() and token.isdigit() and len(token) > 1:
            self.tokens[-1] = token[1:]
            return parse_exact_number(token[0])
        return self.primary()

    def operand(self) -> Node:
        """Take a function's operand: in brackets, or the factors up to the next sign."""
        if self.next in ("(", "{", "["):
            return self.primary()
        minus = self.take("-")
        node = self.power()
        while (
            self.next is not None
            and self.begins_factor()
            and self.next.lstrip("\\") not in FUNCTIONS
            and self.next not in ("(", "[")
        ):
            node = ("*", node, self.power())
        return ("-", node) if minus else node

    def command(self, name: str) -> Node:
        if name == "frac":
            top = self.argument()
            return ("/", top, self.argument())
        if name == "binom":
            top = self.argument()
            return ("binomial", top, self.argument())
        if name in ("lfloor", "lceil"):
            kind = {"lfloor": "floor", "lceil": "ceil"}[name]
            return (kind, self.closed("\\r" + name[1:]))
        if name in ACCENTS:
            return self.accented(SAME_ACCENT.get(name, name))
        if name in FIGURES:
            return ("symbol", f"{name} {_sort_letters(name, self.letters())}")
        if name in NAMED_ONLY:
            return ("call", name, self.operand())
        if name in BIG:
            return self.big(name)
        if name in GREEK:
            return self.symbol(name)
        raise NotAFormula(f"\\{name} is not understood")

    def accented(self, accent: str) -> Node:
        """Read what stands below an accent; the vector from B to A is the opposite of AB."""
        inside = self.raw()
        is_between = accent == "vec" and re.fullmatch(r"[A-Z]{2}", inside) is not None
        if is_between and inside[0] > inside[1]:
            return ("-", self.symbol(f"{accent} {inside[::-1]}"))
        return self.symbol(f"{accent} {inside}".strip())

    def letters(self) -> str:
        """Take the letters that name a figure: \\angle ABC."""
        if self.next == "{":
            return self.raw()
        name = ""
        while self.next and len(self.next) == 1 and self.next.isalpha() and len(name) < 4:
            name += self.tokens.pop()
        return name

    def big(self, name: str) -> Node:
        """Read a sum, a product, a limit or an integral; its variable is bound in it."""
        below = upper = ""
        while mark := self.take("_", "^"):
            part = self.raw()
            below, upper = (part, upper) if mark == "_" else (below, part)
        bound, sign, lower = _bound(below)
        if side := re.search(r"\^\{?([-+])\}?$", lower):
            sign = sign + side[1]
            lower = lower[: side.start()]
        limits = [parse_formula(part) if part else ("symbol", "") for part in (lower, upper)]
        body = self.sum() if name.endswith("int") else self.product()
        if bound:
            bound_name = f"bound {_depth(body)}"
            body = _renamed(body, bound, bound_name)
            bound = bound_name
        return ("big", name + sign, bound, *limits, body)


def _depth(node: Node) -> int:
    """Count how many variables are bound in each other."""
    inside = max((_depth(part) for part in node[1:] if isinstance(part, tuple)), default=0)
    return inside + (node[0] == "big")


def _renamed(node: Node, old: str, new: str) -> Node:
    """Return the formula with a variable renamed, in indices too: a_k."""
    if node[0] == "symbol":
        name, mark, index = node[1].partition("_")
        if not mark:
            return ("symbol", new) if name == old else node
        letters = rf"(?<![a-zA-Z\\]){re.escape(old)}(?![a-zA-Z])"
        return ("symbol", name + mark + re.sub(letters, new, index))
    return tuple(
        _renamed(part, old, new) if isinstance(part, tuple) and part else part for part in node
    )


def _bound(below: str) -> tuple[str, str, str]:
    """Read "j=1" or "t\\to 0": the variable, the sign and where it begins."""
    for sign in ("=", "\\to"):
        variable, separator, lower = below.partition(sign)
        if separator:
            return variable.strip(), sign, lower.replace("\\infty", "\\infty ").strip()
    return "", "", below


def in_base(digits: str, base: str) -> Node:
    """Read a whole number in a base. Raises NotAFormula."""
    if not base.isascii() or not base.isdigit() or not 2 <= int(base[:4]) <= MAX_BASE:
        raise NotAFormula(f"{base[:10]} is no base")
    try:
        value = Fraction(int(digits, int(base)))
    except ValueError:  # a digit that is none of this base, or a point
        value = None
    return ("based", value, digits.upper(), int(base))


def parse_exact_number(digits: str) -> Node:
    """Read a number exactly, whatever it is written like; raises NotAFormula."""
    power = re.search(r"[eE]([-+]?\d+)$", digits)
    if power and (len(power[1]) > 5 or abs(int(power[1])) > MAX_EXPONENT):
        raise NotAFormula("too large an exponent")
    return ("number", Fraction(digits.rstrip(".") if not power else digits), digits)
