"""The code scorer: what counts as code, what is rewarded, and that a program cannot report its own
result.
"""

import json
from dataclasses import replace

import pytest

from apps.rewards.sandbox import NoSandbox, forking, languages
from apps.rewards.sandbox.python import libraries
from apps.rewards.scorers import RolloutView, TaskView, Verdict, find_scorer
from apps.rewards.scoring import Question
from workers.grading import Grader, GradingCost

ADD = {"tests": [{"stdin": "1 2\n", "stdout": "3\n"}, {"stdin": "5 6\n", "stdout": "11\n"}]}
DOUBLE = {
    "function": "double",
    "tests": [{"args": [2], "value": 4}, {"args": [[1, None]], "value": [1, None, 1, None]}],
}
ADDED = {
    "python": "a, b = map(int, input().split())\nprint(a + b)\nexit()",
    "javascript": (
        "const [a, b] = require('fs').readFileSync('/dev/stdin', 'utf8').split('"
        " ').map(Number)\nconsole.log(a + b)"
    ),
    "c": (
        '#include <stdio.h>\nint main(void) { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a +'
        " b); }"
    ),
    "c++": (
        "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b <<"
        " std::endl; }"
    ),
}


def judged(code: str, answer: dict = ADD, language: str = "python", **options: object) -> Verdict:
    text = f"So it is:\n```{language}\n{code}\n```\nThat is all."
    return find_scorer("code").judge([RolloutView(text)], TaskView((), answer), options)[0]


@pytest.mark.parametrize("language", ADDED)
def test_program_that_passes_all_tests_is_rewarded(language):
    verdict = judged(ADDED[language], language=language)
    assert (verdict.value, verdict.details["language"]) == (1.0, language), verdict


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "def double(x):\n    return x * 2"),
        ("python", "class Solution:\n    def double(self, x):\n        return x + x"),
        ("javascript", "const double = (x) => (Array.isArray(x) ? [...x, ...x] : 2 * x)"),
    ],
)
def test_function_that_returns_the_expected_values_is_rewarded(language, code):
    assert judged(code, DOUBLE, language).value == 1.0


@pytest.mark.parametrize(
    "code",
    [
        "class Solution:\n    def add(self, a, b):\n        return 3",
        "class Solution:\n    def plus(self, a, b):\n        return a + b",
        "def plus(a, b):\n    return a + b",
        "from operator import mul",
    ],
)
def test_no_function_of_the_prelude_stands_in_for_one_that_the_code_lacks(code):
    called = {
        "function": "add",
        "tests": [{"args": [1, 2], "value": 3}, {"args": [3, 4], "value": 7}],
    }
    checked = {
        "function": "add",
        "tests": [{"check": "assert add(1, 2) == 3\nassert add(3, 4) == 7"}],
    }
    assert [judged(code, answer).value for answer in (called, checked)] == [0.0, 0.0]


def test_a_function_uses_the_names_of_the_prelude():
    answer = {"function": "area", "tests": [{"args": [2], "value": 4}]}
    code = "def area(x: Optional[int]) -> int:\n    return reduce(mul, repeat(x, 2))"
    assert judged(code, answer).value == 1.0


def test_keyword_arguments_are_passed_by_name():
    tests = [{"args": [2], "kwargs": {"by": 3}, "value": 6}]
    answer = {"function": "times", "tests": tests}
    assert judged("def times(x, *, by):\n    return x * by", answer).value == 1.0
    assert judged("def times(x, by=1):\n    return x", answer).value == 0.0
    assert judged("def times(x, n):\n    return x * n", answer).value == 0.0
    wrong = judged("const times = (x) => 6", answer, "javascript")
    assert (wrong.value, wrong.reason) == (0.0, "no complete program in python")


VECTORS = (
    "#include <vector>\nclass Solution { public: std::vector<int> f(std::vector<int>& a, int k) { "
)
VECTORS += "for (int& x : a) x += k; return a; } };"
WORDS = (
    "#include <stdlib.h>\n#include <string.h>\n"
    "char *f(const char *s) { char *copy = malloc(strlen(s) + 1); strcpy(copy, s); return copy; }"
)
KINDS = (
    "std::map<std::string, double> f(std::map<std::string, double> m, std::pair<int, bool> p,"
    " std::optional<int>) {"
)
KINDS += ' m["x"] = p.first + 0.5; return m; }'
LAST = (
    "#include <stdbool.h>\nbool f(const int *a, int n) { return a[n - 1] == 7; }\nint main(void) {"
    " return 3; }"
)


@pytest.mark.parametrize(
    ("language", "code", "arguments", "value"),
    [
        ("c", "long long f(long long x) { return 2 * x; }", [1 << 40], 1 << 41),
        ("c", WORDS, ['a"\\\n\u00e9\u4e2d'], 'a"\\\n\u00e9\u4e2d'),
        ("c", LAST, [[1, 7], 2], True),
        ("c++", VECTORS, [[1, 2], 3], [4, 5]),
        ("c++", KINDS, [{"a": 1}, [3, True], None], {"a": 1, "x": 3.5}),
        ("c++", "char f(char c) { return c + 1; } int main() { return f('a'); }", ["a"], "b"),
    ],
)
def test_c_functions_are_called_with_arguments_of_their_parameter_types(
    language, code, arguments, value
):
    verdict = judged(
        code, {"function": "f", "tests": [{"args": arguments, "value": value}]}, language
    )
    assert verdict.value == 1.0, verdict


@pytest.mark.parametrize(
    ("language", "code", "words"),
    [
        ("c", "int g(int x) { return x; }", "does not compile"),
        ("c++", "int f(int x) { return 2 * x }", "does not compile"),
        ("c++", "int f(unsigned char x) { return x; }", "test 1: error"),  # 300 does not fit
        ("c", "double f(double x) { return x / (x - 300); }", "test 1: error"),  # not finite
        ("c++", 'void f(int) { puts("300"); }', "test 1: wrong"),
    ],
)
def test_c_function_that_cannot_take_the_arguments_earns_nothing(language, code, words):
    verdict = judged(code, {"function": "f", "tests": [{"args": [300], "value": 300}]}, language)
    assert verdict.value == 0.0 and words in verdict.reason, verdict


def test_test_columns_of_common_data_sets_are_read():
    assert (
        judged(ADDED["python"], {"inputs": [["1 2"], "5 6"], "outputs": ["3", ["11"]]}).value == 1.0
    )
    calls = {"fn_name": "double", "inputs": [[1], [2]], "outputs": [[2], 4]}
    assert judged("def double(x):\n    return 2 * x", calls).value == 1.0


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "tests: must be a list"),
        ({"tests": []}, "has none"),
        ({"tests": [{"stdin": "1"}]}, "tests.0"),
        ({"tests": [3]}, "tests.0"),
        ({"inputs": ["1"], "outputs": []}, "same length"),
        ({"inputs": [{}], "outputs": ["1"]}, "inputs.0"),
        ({"function": "f", "tests": [{"args": 3, "value": 1}]}, "tests.0.args"),
        ({"function": "a b", "tests": []}, "function"),
    ],
)
def test_task_without_readable_tests_gives_no_value_and_reports_the_field(answer, field):
    verdict = judged(ADDED["python"], answer)
    assert verdict.value is None and field in verdict.reason


def test_passing_some_tests_earns_nothing_unless_partial_is_set():
    assert judged("input()\nprint(3)").value == 0.0
    assert judged("input()\nprint(3)", partial=True).value == 0.5


def test_each_test_has_a_result_and_the_reason_hides_expected_values():
    code = (
        "import sys, time\na = int(input().split()[0])\nif a == 1: print('no 3')\nif a == 5:"
        " sys.exit(9)\n"
    )
    code += "if a == 7: time.sleep(60)\nprint(0)"
    answer = {
        "tests": [
            *ADD["tests"],
            {"stdin": "7 1\n", "stdout": "8\n"},
            {"stdin": "0 0\n", "stdout": "0\n"},
        ]
    }
    verdict = judged(code, answer, partial=True, time_limit_s=1)
    assert [word for word, _ in verdict.details["tests"]] == [
        "wrong",
        "error",
        "too slow",
        "passed",
    ]
    assert verdict.value == 0.25 and verdict.reason == "1 of 4 tests passed; test 1: wrong"
    assert verdict.details["failed"] == {
        "test": 1,
        "input": "1 2\n",
        "expected": "3\n",
        "output": "no 3\n0\n",
        "error": "",
    }


def test_only_the_first_tests_run_if_there_are_more_than_the_limit():
    assert judged("input()\nprint(3)", max_tests=1).details["of"] == 1


DEEP = (
    "long d(long n) { volatile char held[80]; held[0] = 1; return n ? held[0] + d(n - 1) : 0; }\n"
)
DEMANDING = {
    "deep calls": ("python", "def d(n): return 1 + d(n - 1) if n else 0\nprint(d(20_000))"),
    "deeper calls": (
        "python",
        (
            "import sys\nsys.setrecursionlimit(10**6)\n"
            "def d(n): return 1 + max(map(d, [n - 1])) if n else 0\nprint(d(20_000))"
        ),
    ),
    "a thread with a large stack": (
        "python",
        (
            "import threading\nthreading.stack_size(512 << 20)\nt = threading.Thread(target=print,"
            " args=(20_000,))\nt.start()\nt.join()"
        ),
    ),
    "long numbers": ("python", "print(len(str(10 ** 19_999)))"),
    "names that judges give": (
        "python",
        "x: List[int] = [inf]\nprint(reduce(operator.mul, [2, 10**4]))",
    ),
    "deep calls of JavaScript": (
        "javascript",
        "const d = (n) => (n ? 1 + d(n - 1) : 0);\nconsole.log(d(20_000));",
    ),
    "deep calls of C": (
        "c",
        f'#include <stdio.h>\n{DEEP}int main(void) {{ printf("%ld", d(1000000) / 50); }}',
    ),
    "C++20": (
        "c++",
        (
            "#include <bits/stdc++.h>\nint main() { std::vector<int> v{20000, 1};"
            " std::ranges::sort(v); std::cout << v[1]; }"
        ),
    ),
    "what C++20 refuses": (
        "c++",
        '#include <cstdio>\nint main() { const char *s = u8"20000"; puts(s); }',
    ),
}


@pytest.mark.parametrize("name", DEMANDING)
def test_demanding_correct_programs_stay_within_the_default_limits(name):
    language, code = DEMANDING[name]
    verdict = judged(code, {"tests": [{"stdout": "20000"}]}, language)
    assert verdict.value == 1.0, verdict


def test_numpy_is_available_if_the_machine_has_it():
    if not libraries():
        pytest.skip("no numpy that guests can read on this machine")
    code = "import numpy as np\nprint(int(np.array(input().split(), int).sum()))"
    assert judged(code).value == 1.0
    assert judged("print(np.add(*map(int, input().split())))").value == 1.0  # as in the prelude


ENDS = {
    "wrong": [("python", "print(4)"), ("c", '#include <stdio.h>\nint main(void) { puts("4"); }')],
    "error": [
        ("python", "1 / 0"),
        ("c", "int main(void) { return 3; }"),
        ("javascript", "throw new Error('no')"),
        ("c", "int main(void) { volatile int *a = 0; return *a; }"),
    ],
    "too slow": [
        ("python", "while True: pass"),
        ("javascript", "for (;;);"),
        ("c", "int main(void) { for (;;); }"),
    ],
    "too much memory": [
        ("python", "a = [0] * 10**10"),
        (
            "c++",
            "#include <vector>\nint main() { std::vector<char> a(4000000000u, 1); return a[9]; }",
        ),
    ],
    "too much output": [("python", "while True: print('x' * 9999)")],
}


@pytest.mark.parametrize(
    ("word", "language", "code"),
    [(word, language, code) for word, some in ENDS.items() for language, code in some],
)
def test_ways_in_which_a_program_ends_are_distinguished(word, language, code):
    verdict = judged(code, {"tests": [{"stdout": "3"}]}, language, time_limit_s=1)
    assert verdict.value == 0.0 and verdict.details["tests"][0][0] == word, verdict


@pytest.mark.parametrize("code", ["x = (", "def f():\nreturn 1", "print 'a'"])
def test_python_code_that_does_not_compile_is_reported_as_such(code):
    for answer in (ADD, DOUBLE):
        verdict = judged(code, answer)
        assert verdict.reason == "it does not compile" and "Error" in verdict.details["compiler"]


def test_syntax_error_at_run_time_is_an_error():
    verdict = judged("print(eval('1 +'))", ADD)
    assert verdict.details["tests"][0][0] == "error"


def test_program_that_does_not_compile_earns_nothing_and_the_compiler_error_is_kept():
    verdict = judged("int main(void) { return x; }", language="c")
    assert verdict.value == 0.0 and "undeclared" in verdict.details["compiler"]


@pytest.mark.parametrize(
    ("said", "wanted", "options", "value"),
    [
        ("1.00001", "1", {}, 0.0),
        ("1.00001", "1", {"float_tolerance": 1e-3}, 1.0),
        ("1_0", "10", {"float_tolerance": 1e-3}, 0.0),
        ("nan", "1", {"float_tolerance": 0.5}, 0.0),
        ("b\\na", "a\nb", {}, 0.0),
        ("b\\na", "a\nb", {"unordered": True}, 1.0),
        ("a  \\n\\n", "a", {}, 1.0),
        ("a  b", "a b", {}, 0.0),
        ("a  b", "a\nb", {"whitespace": "tokens"}, 1.0),
        ("a ", "a\n", {"whitespace": "exact"}, 0.0),
        ("a", "a\n", {"whitespace": "exact"}, 1.0),
    ],
)
def test_outputs_are_compared_by_the_options(said, wanted, options, value):
    assert judged(f"print('{said}')", {"tests": [{"stdout": wanted}]}, **options).value == value


@pytest.mark.parametrize(
    ("given", "wanted", "options", "value"),
    [
        ("True", 1, {}, 0.0),
        ("1.0", 1, {}, 1.0),
        ("(1, 2)", [1, 2], {}, 1.0),
        ("[2, 1]", [1, 2], {"unordered": True}, 1.0),
        ("[2, 1]", [1, 2], {}, 0.0),
        ("0.1 + 0.2", 0.3, {}, 1.0),
        ("0.1 + 0.2", 0.3, {"float_tolerance": 0}, 0.0),
        ("[0.1 + 0.2]", [0.3], {"float_tolerance": 1e-6}, 1.0),
        ("{1: 2}", {"1": 2}, {}, 1.0),
        ("'4'", 4, {}, 0.0),
        ("None", 0, {}, 0.0),
        ("float('nan')", 1, {}, 0.0),
    ],
)
def test_values_are_compared_as_json(given, wanted, options, value):
    assert (
        judged(
            f"def f():\n    return {given}",
            {"function": "f", "tests": [{"value": wanted}]},
            **options,
        ).value
        == value
    )


def test_answer_without_a_code_block_needs_the_option_bare_code():
    plain = [RolloutView("print(3)")]
    task = TaskView((), {"tests": [{"stdout": "3"}]})
    assert [
        find_scorer("code").judge(plain, task, {"bare_code": bare})[0].value
        for bare in (False, True)
    ] == [0.0, 1.0]


def test_language_of_the_task_takes_precedence_over_that_of_the_block():
    assert judged(ADDED["python"], {**ADD, "language": "python"}, "rust").value == 1.0
    assert judged("fn main() {}", language="rust").value == 0.0
    assert judged("fn main() {}", {**ADD, "language": "rust"}).value is None


FORGED = [
    "import os\nos._exit(0)",
    "import sys\nsys.exit(0)",
    "import os\nos.write(1, b'[{\"value\": true}]\\n'); os._exit(0)",
    (
        "import atexit, json\natexit.register(lambda: print('all tests passed'))\njson.dumps ="
        " lambda value, **more: '4'"
    ),
    (
        "class Equal(int):\n    def __eq__(self, other): return True\n    __hash__ = None\ndef"
        " double(x): return Equal(9)"
    ),
    (
        "import pickle\nclass All:\n    def __reduce__(self): return (print, ('4',))\ndef"
        " double(x): return pickle.dumps(All())"
    ),
    (
        "import gc\ndef double(x):\n    return [o for o in gc.get_objects() if isinstance(o, dict)"
        " and 'value' in o]"
    ),
    (
        "import sys\ndef double(x):\n    return sys._getframe(1).f_locals.get('wanted',"
        " sys._getframe(2).f_locals.get('value'))"
    ),
]


@pytest.mark.parametrize("code", FORGED, ids=range(len(FORGED)))
def test_forged_results_get_zero(code):
    verdict = judged(code, DOUBLE)
    assert verdict.value == 0.0, verdict


def test_missing_sandbox_or_tool_gives_no_value(monkeypatch):
    def missing() -> str:
        raise NoSandbox("no sandbox here")

    forking.stop_fork_servers()
    monkeypatch.setattr("apps.rewards.sandbox.bubblewrap.bubblewrap", missing)
    assert judged("print(3)") == Verdict(None, "no sandbox here")
    monkeypatch.undo()
    languages._find_tool.cache_clear()
    monkeypatch.setattr(languages, "_paths", lambda language: [])
    verdict = judged("console.log(3)", language="js")
    languages._find_tool.cache_clear()
    assert verdict.value is None and "node is not installed on this machine" in verdict.reason


def question(code: str, answer: dict = ADD) -> Question:
    return Question(1, "code", (1,), (RolloutView(f"```\n{code}\n```"),), TaskView((), answer), {})


def test_code_is_judged_in_the_graders_child_process():
    grader = Grader(children=1)
    try:
        verdicts = [
            answer.verdicts[0]
            for answer in grader.grade([question(ADDED["python"]), question("print(1)")])
        ]
    finally:
        grader.stop()
    assert [verdict.value for verdict in verdicts] == [1.0, 0.0], verdicts


def test_guest_is_killed_with_the_graders_child_process(guests, eventually, monkeypatch):
    grader = Grader(children=1)
    try:
        grader.grade([question("print(1)")])  # this loads the scorer's libraries
        guests.seen.clear()
        # Its time is over as soon as it has a guest, however fast the machine is.
        monkeypatch.setattr(GradingCost, "exceeds", lambda effort, seconds: bool(guests.seen))
        sleeps = replace(question("import time\ntime.sleep(50)"), options={"time_limit_s": 20})
        (answer,) = grader.grade([sleeps], seconds=12.0)
    finally:
        grader.stop()
    assert answer.verdicts[0].value is None and "took longer than 12 s" in answer.verdicts[0].reason
    eventually(lambda: not guests.alive(), 60)


def test_stored_part_of_hostile_output_is_valid_text():
    verdict = judged(
        "import sys\nsys.stdout.buffer.write(b'\\0\\xff\\xed\\xa0\\x80' *"
        " 999)\nsys.stderr.buffer.write(b'\\0' * 9)\nsys.exit(1)"
    )
    kept = json.dumps(verdict.details, ensure_ascii=False)
    assert verdict.value == 0.0 and "\\u0000" not in kept and kept.encode()
