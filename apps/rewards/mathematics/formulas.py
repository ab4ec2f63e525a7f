"""Formulas as trees: a small recursive-descent parser of plain LaTeX and calculator notation.

A node is a tuple whose first member is the kind: ("number", value, digits), ("symbol", name), ("constant", name) for e, i, pi and
infinity, ("+", a, b), ("*", a, b), ("/", a, b), ("^", a, b), ("-", a), ("%", a), or a function's name and its arguments.
"""

import re
from fractions import Fraction
from functools import lru_cache

LONGEST = 600  # characters of one formula
DEEPEST = 40  # of brackets in brackets
LARGEST_EXPONENT = 400  # of ten, in 1e400
FUNCTIONS = frozenset(
    {
        "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "log", "ln", "lg", "exp", "sqrt", "abs", "cbrt", "floor", "ceil", "min", "max", "gcd", "lcm",
    }
)  # fmt: skip
_WITHIN = ("sqrt", "sin", "cos", "tan", "log", "ln", "pi")  # names of functions that are found in letters around them
SAME_FUNCTION = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "lg": "log10"}
INVERSE = {"sin": "asin", "cos": "acos", "tan": "atan"}
CONSTANTS = {"pi": "pi", "e": "e", "i": "i", "\\pi": "pi", "\\infty": "infinity", "oo": "infinity", "inf": "infinity",
             "infinity": "infinity", "\\imath": "i"}  # fmt: skip
GREEK = frozenset(
    {
        "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda",
        "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta",
        "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "ell", "hbar",
    }
)  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?\d++(?![\w.]))?)"
    r"|(?P<command>\\[a-zA-Z]+|\\[{}|])|(?P<word>[a-zA-Z]+'*)|(?P<sign>\S))",
    re.ASCII,
)
_CLOSES = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}

Node = tuple


class NotAFormula(ValueError):
    """The text is none that is understood here."""


@lru_cache(maxsize=256)
def parse(text: str) -> Node:
    """Raises NotAFormula."""
    if len(text) > LONGEST:
        raise NotAFormula("too long")
    reader = _Reader(_tokens(text))
    node = reader.sum()
    if reader.next is not None:
        raise NotAFormula(f"{reader.next!r} was not expected")
    return node


def _tokens(text: str) -> list[str]:
    found, place, depth = [], 0, 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        place = match.end()
        token = match.group().strip()
        depth += (token in "([{") - (token in ")]}")
        if depth > DEEPEST:
            raise NotAFormula("too deep")
        found += _words(token) if match["word"] else [token]
    return found


def _words(run: str) -> list[str]:
    """Letters beside each other are factors, unless they are a name that is known."""
    name = run.lower().rstrip("'")
    if name in FUNCTIONS or run in CONSTANTS:
        return [run.lower()]
    known = next(
        (known for known in ("sqrt", "sin", "cos", "tan", "log", "ln", "pi") if known in run and len(run) <= len(known) + 3), None
    )
    if known:
        before, _, after = run.partition(known)
        return [*before, known, *after]
    if len(name) > 3:
        raise NotAFormula(f"{run} is no name of a function")
    return re.findall(r"[a-zA-Z]'*", run)


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]
        self.bars = 0
        self.depth = 0

    @property
    def next(self) -> str | None:
        return self.tokens[-1] if self.tokens else None

    def take(self, *wanted: str) -> str | None:
        """The next one, where it is one of these."""
        return self.tokens.pop() if self.tokens and self.tokens[-1] in wanted else None

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise NotAFormula(f"{wanted} is missing")

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            right = self.product()
            node = ("+", node, right if sign == "+" else ("-", right))
        return node

    def product(self) -> Node:
        node = self.signed()
        while True:
            if self.take("*", "\\cdot", "\\times", "\\ast"):
                node = ("*", node, self.signed())
            elif self.take("/", "\\div", ":"):
                node = ("/", node, self.signed())
            elif self.begins_factor():
                if self.next[0].isdigit() or self.next[0] == ".":
                    raise NotAFormula("a number follows without a sign between")
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
        while mark := self.take("!", "%", "\\degree"):
            node = {"!": ("factorial", node), "%": ("%", node), "\\degree": node}[mark]
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
            return number(token)
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
        bars, self.bars = self.bars, 0
        node = self.sum()
        self.need(end)
        self.bars = bars
        return node

    def symbol(self, name: str) -> Node:
        if self.take("_"):
            name += "_" + self.subscript()
        return ("symbol", name)

    def subscript(self) -> str:
        if not self.take("{"):
            return self.tokens.pop() if self.tokens else ""
        inside = []
        while self.tokens and self.next != "}":
            inside.append(self.tokens.pop())
        self.need("}")
        return "".join(inside)

    def function(self, name: str) -> Node:
        root = self.optional() if name == "sqrt" else None
        below = self.argument() if name == "log" and self.take("_") else None
        power = self.exponent() if self.take("^") else None
        many = self.many() if name in ("min", "max", "gcd", "lcm") else None
        if many:
            return (name, *many)
        inside = self.argument() if name == "sqrt" else self.operand()
        if power == ("-", ("number", Fraction(1), "1")) and name in INVERSE:
            return (INVERSE[name], inside)
        node = self._named(name, inside, root, below)
        return ("^", node, power) if power else node

    def _named(self, name: str, inside: Node, root: Node | None, below: Node | None) -> Node:
        if root is not None:
            return ("root", inside, root)
        if name == "cbrt":
            return ("root", inside, number("3"))
        return ("log", inside, below) if below else (SAME_FUNCTION.get(name, name), inside)

    def many(self) -> list[Node]:
        self.need("(")
        found = [self.sum()]
        while self.take(","):
            found.append(self.sum())
        self.need(")")
        return found

    def optional(self) -> Node | None:
        return self.closed("]") if self.take("[") else None

    def argument(self) -> Node:
        """What is in braces or brackets, or the next sign alone: \\frac12 is a half."""
        token = self.next or ""
        if token.isascii() and token.isdigit() and len(token) > 1:
            self.tokens[-1] = token[1:]
            return number(token[0])
        return self.primary()

    def operand(self) -> Node:
        """Of a function: what is in brackets, or the factors up to the next sign or function."""
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
            return ({"lfloor": "floor", "lceil": "ceil"}[name], self.closed("\\r" + name[1:]))
        if name in ("overline", "bar", "vec", "hat", "boxed"):
            raise NotAFormula(name)
        if name in GREEK:
            return self.symbol(name)
        raise NotAFormula(f"\\{name} is not understood")


_NO_FACTOR = frozenset(
    {"\\cdot", "\\times", "\\ast", "\\div", "\\rfloor", "\\rceil", "\\degree", "\\pm", "\\le", "\\ge", "\\ne", "\\in"}
)


def number(digits: str) -> Node:
    """Exact, whatever it is written like; raises NotAFormula for exponents that nobody means."""
    power = re.search(r"[eE]([-+]?\d+)$", digits)
    if power and (len(power[1]) > 5 or abs(int(power[1])) > LARGEST_EXPONENT):
        raise NotAFormula("too large an exponent")
    return ("number", Fraction(digits.rstrip(".") if not power else digits), digits)
