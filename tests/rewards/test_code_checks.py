"""Tests written in Python.

They run where the tested code can neither see them nor change their results.
"""

import pytest

from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer

DOUBLE = {"test_list": ["assert f(3) == 6", "assert f(-1) == -2"]}


def judged(code: str, answer: dict, **options: object) -> Verdict:
    return find_scorer("code").judge(
        [RolloutView(f"```python\n{code}\n```")], TaskView((), answer), options
    )[0]


HUMANEVAL = {
    "prompt": "def same(x):\n    return x\n\n\ndef f(a):\n    '''Double it.'''\n",
    "entry_point": "f",
    "test": (
        "def check(candidate):\n    for n in range(30):\n        assert candidate(n) == 2 * n\n   "
        " assert same(1) == 1\n"
    ),
}
RIGHT = {
    "asserts": ("def f(a):\n    return 2 * a", DOUBLE),
    "check(candidate) that uses what the prompt has": (
        "def f(a):\n    return same(2 * a)",
        HUMANEVAL,
    ),
    "only the body that the prompt lacks": ("    return 2 * a", HUMANEVAL),
    "values of every kind": (
        "def f():\n    return {1, 2}, (1,), {(1, 2): 3}, 2**500, 1.5, b'x', None",
        {"test_list": ["assert f() == ({1, 2}, (1,), {(1, 2): 3}, 2**500, 1.5, b'x', None)"]},
    ),
    "objects of a class of the tests": (
        "def f(pairs):\n    return sum(pair.a * pair.b for pair in pairs)",
        {
            "test_setup_code": (
                "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b"
            ),
            "test_list": ["assert f([Pair(2, 3), Pair(4, 5)]) == 26"],
        },
    ),
    "objects of the answer's own": (
        (
            "class Node:\n    def __init__(self, v):\n        self.v, self.left = v, None\n"
            "def height(n):\n    return 1 + height(n.left) if n else 0"
        ),
        {
            "test_setup_code": "root = Node(1)\nroot.left = Node(2)",
            "test_list": ["assert height(root) == 2"],
        },
    ),
    "an argument that is changed": (
        "def f(a):\n    a.sort()",
        {"test_list": ["x = [3, 1]\nf(x)\nassert x == [1, 3]"]},
    ),
    "an error that is wanted": (
        "def f(a):\n    raise ValueError('no')",
        {"test_list": ["try:\n    f(1)\nexcept ValueError:\n    pass\nelse:\n    assert False"]},
    ),
    "a name that the prelude has, too": (
        "def gcd(a, b):\n    return gcd(b, a % b) if b else a",
        {"test_list": ["assert gcd(12, 18) == 6"]},
    ),
    "math.isclose": (
        "def f(x):\n    return x / 3",
        {"test_list": ["assert math.isclose(f(1), 0.333333, rel_tol=1e-3)"]},
    ),
    "a method": (
        "class Solution:\n    def f(self, a):\n        return a",
        {"test_list": ["assert Solution().f(1) == 1"]},
    ),
    "functions named test_": (
        "def f(a):\n    return a",
        {"test": "from solution import f\n\ndef test_one():\n    assert f(1) == 1\n"},
    ),
    "classes of unittest": (
        "def f(a):\n    return 2 * a",
        {
            "test": (
                "import unittest\nclass All(unittest.TestCase):\n    def test_it(self):\n       "
                " self.assertEqual(f(3), 6)\n"
            )
        },
    ),
    "a generator": (
        "def f():\n    yield from (1, 2)",
        {"test_list": ["assert list(f()) == [1, 2]"]},
    ),
    "named arguments": (
        "def f(a, b=1):\n    return a + b",
        {"test_list": ["assert f(1, b=2) == 3"]},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answer_is_rewarded(name):
    verdict = judged(*RIGHT[name])
    assert verdict.value == 1.0, verdict


ALWAYS = (
    "    __eq__ = lambda self, other: True\n    __ne__ = lambda self, other: False\n    __hash__ ="
    " int.__hash__\n"
)
FORGED = {
    "it ends its process": "import os\nos._exit(0)",
    "it leaves": "raise SystemExit(0)",
    "a number that is equal to everything": (
        f"class Any(int):\n{ALWAYS}def f(a):\n    return Any(9)"
    ),
    "an object that is equal to everything": (
        f"class Any(object):\n{ALWAYS.replace('int', 'object')}def f(a):\n    return Any()"
    ),
    "it brings its own judge": (
        "def set(a): return 1\ndef abs(a): return 0\ndef len(a): return 0\nclass math:\n"
        "    isclose = lambda *a, **b: True\ndef f(a):\n    return 7"
    ),
    "it writes where answers go": (
        "import os\nfor n in range(9):\n    try:\n"
        '        os.write(n, b\'["passed", 0, ""]\\n\' * 9)\n    except OSError: pass\n'
        "def f(a):\n    return 7"
    ),
    "it looks for what is wanted": (
        "import gc, os, sys\nfound = [open(f'/code/{one}').read() for one in os.listdir('/code')]\n"
        "print(found)\ndef f(a):\n    return 6 if any('=' + '= 6' in one for one in found) else 7"
    ),
    "it raises what tests raise": "def f(a):\n    raise AssertionError('passed')",
    "it raises what ends tests": "def f(a):\n    raise SystemExit(0)",
    "it gives no value": "def f(a):\n    return object()",
    "it redefines assert's error": (
        "import builtins\nbuiltins.AssertionError = Exception\ndef f(a):\n    return 7"
    ),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize(
    "check",
    [
        "assert f(3) == 6",
        "assert set([f(3)]) == set([6])",
        "assert abs(f(3) - 6) < 0.5 and math.isclose(f(3), 6)",
    ],
)
def test_forged_answer_earns_nothing(name, check):
    verdict = judged(FORGED[name], {"test_list": [check]})
    assert verdict.value == 0.0, verdict


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("def f(a):\n    return 3 * a", "wrong"),
        ("def f(a):\n    return 1 / 0", "error"),
        ("def f(a):\n    while True: pass", "too slow"),
        ("def f(a):\n    return [0] * 10**9", "too much memory"),
        ("def g(a):\n    return 1", "error"),
    ],
)
def test_kinds_of_failures_are_distinguished(code, word):
    verdict = judged(code, DOUBLE, time_limit_s=1)
    assert (verdict.value, verdict.details["tests"][0][0]) == (0.0, word), verdict


def test_code_that_does_not_compile_is_reported_with_the_compilers_error():
    verdict = judged("def f(a:\n    return 2 * a", DOUBLE)
    assert verdict.reason == "it does not compile" and "SyntaxError" in verdict.details["compiler"]


def test_checks_after_one_that_timed_out_still_count_with_partial_rewards():
    code = "def f(a):\n    while a == 2: pass\n    return a"
    answer = {
        "test_list": [
            "assert f(1) == 1",
            "assert f(2) == 2",
            "assert f(3) == 3",
            "assert f(4) == 5",
        ]
    }
    verdict = judged(code, answer, partial=True, time_limit_s=1)
    assert [word for word, _ in verdict.details["tests"]] == [
        "passed",
        "too slow",
        "passed",
        "wrong",
    ]
    assert verdict.value == 0.5


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("assert 1 + 1 == 2", "never calls the submitted code"),
        ("import nothing_of_the_kind\nassert f(1) == 1", "No module"),
    ],
)
def test_failing_check_code_gives_no_value(check, words):
    verdict = judged("def f(a):\n    return a", {"test_list": [check]})
    assert verdict.value is None and words in verdict.reason


def test_failing_unittest_class_earns_nothing():
    test = (
        "import unittest\nclass All(unittest.TestCase):\n    def test_it(self):\n       "
        " self.assertEqual(f(3), 7)\n"
    )
    verdict = judged("def f(a):\n    return 2 * a", {"test": test})
    assert (verdict.value, verdict.details["tests"][0][0]) == (0.0, "wrong")
