"""Read the tests of a programming task, in the layouts of the common data sets, into one form.

`normal_form` is a pure function of one row (or of the answer in it). What it returns is what the
scorer `code` judges by, and what an import stores:

    {"tests": [{"stdin": "1 2\\n", "stdout": "3\\n"}]}                     a program, run
    {"function": "f", "tests": [{"args": [3], "value": 6}]}              a function, called
    {"function": "f", "tests": [{"check": "assert f(3) == 6"}]}          tests written in Python

A call may have `values`, of which any is right, in the place of `value`, and `kwargs`, an object of
keyword arguments, beside `args`. Beside `tests` may stand
`language`, and for checks `setup` (Python that runs before each) and `preamble` (Python that stands
before the answer and before the checks).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.tasksets.check_names import USUAL_NAMES, NotPython, called_in, defined_in
from apps.tasksets.code_test_values import (
    BadTests,
    as_text,
    decode_value,
    function_name,
    is_test,
    read_arguments,
    read_assignments,
    read_keywords,
    read_lines,
    read_tests,
    read_text,
    read_texts,
    unpack_tests,
)

# Columns of prompts.
PROMPTS = (
    "prompt",
    "question",
    "question_content",
    "problem",
    "instruct_prompt",
    "description",
    "text",
)
MAX_WRAPPERS = 4  # of an answer, one in the other
WRAPPERS = ("reward_model", "ground_truth", "verification_info", "value")
OWN = "tests"  # our own form
# What a column `language` of a data set may say; in others it is the language that people speak.
LANGUAGES = ("python", "python3", "py", "javascript", "js", "node", "c", "c++", "cpp")
INPUTS = ("stdin", "input")
OUTPUTS = ("stdout", "output", "expected_output", "expected", "expected_stdout")
TEST_CODE = ("functional", "unit_tests", "unit_test", "test_code", "test")
# Lists of inputs and outputs; those that a statement shows count only where there are no others.
EXAMPLES = ("official_tests", "test_case", "io_tests", "examples")
KEYWORD = re.compile(r"\s*[A-Za-z_]\w*\s*=(?!=)")
FUNCTION_TYPES = ("functional", "function_call", "call_based")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RecognisedTests:
    """Tests in the one form, with the data set whose layout they have."""

    layout: str
    answer: dict[str, Any]


def normal_form(row: Row) -> RecognisedTests | None:
    """Return the row's tests in the stored form; None if it has none in any known layout.

    `row` may be a whole record of a file or the answer in one, and may hold its layout as JSON in a
    text. Raises BadTests where the layout is known and the tests cannot be read.
    """
    inner = _find_tests(row)
    for layout, keys, reader in LAYOUTS:
        if all(inner.get(key) is not None for key in keys):
            answer = reader(inner)
            if answer is None:
                continue
            if not answer["tests"]:
                raise BadTests(f"{keys[0]}: the task has none")
            if "check" in answer["tests"][0]:
                answer = _with_function(answer, keys[0])
            language = inner.get("language")
            if isinstance(language, str) and (layout == OWN or language.lower() in LANGUAGES):
                answer["language"] = language
            return RecognisedTests(layout, answer)
    return None


def prompt_column(row: Row) -> str | None:
    """Return which column of a recognised row holds the prompt, by its usual names."""
    if row.get("problem_description"):  # LeetCodeDataset, whose `prompt` has imports alone
        return "problem_description"
    return next((name for name in PROMPTS if row.get(name)), None)


def _find_tests(row: Row) -> Row:
    """Return what holds the tests.

    The row, or an object in it, also one that is written as JSON.
    """
    for _ in range(MAX_WRAPPERS):
        if any(all(row.get(key) is not None for key in keys) for _, keys, _ in LAYOUTS):
            return row
        inner = next((wrapped for name in WRAPPERS if (wrapped := _object(row.get(name)))), None)
        if inner is None:
            return row
        row = inner
    return row


def _object(value: Any) -> Row | None:
    """Return an object, or the tests that stand in the place of one; None for anything else."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = decode_value(value, "value")
        except BadTests:
            return None
    if isinstance(value, str) and is_test(value):
        return {"test": value}
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, str) and is_test(item) for item in value)
    ):
        return {"tests": value}
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return {"tests": value} if _first_of(value[0], OUTPUTS) else None
    return value if isinstance(value, Mapping) else None


# -- layouts ---------------------------------------------------------------------------------------


def _apps(row: Row) -> dict[str, Any]:
    """Read APPS and TACO: `input_output`, an object of columns, as JSON or as it is.

    LeetCodeDataset has a list of tests there.
    """
    columns = decode_value(row["input_output"], "input_output")
    if isinstance(columns, list) and columns:
        return _any_tests(columns, "input_output", row)
    if not isinstance(columns, Mapping):
        raise BadTests("input_output: must be an object with inputs and outputs")
    return _columns({**columns, "fn_name": columns.get("fn_name") or row.get("fn_name")})


UNPAIRED = "inputs, outputs: must be two lists of the same length"


def _columns(row: Row) -> dict[str, Any]:
    """Read two lists, `inputs` and `outputs`, and the name of a function if one is called.

    The name is `fn_name` or `function`.
    """
    inputs = row.get("inputs")
    outputs = row.get("outputs")
    if isinstance(inputs, str) and isinstance(outputs, str):
        are_lists = inputs.lstrip().startswith("[") and outputs.lstrip().startswith("[")
        inputs = decode_value(inputs, "inputs") if are_lists else [inputs]
        outputs = decode_value(outputs, "outputs") if are_lists else [outputs]
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise BadTests(UNPAIRED)
    if len(inputs) != len(outputs):
        raise BadTests(UNPAIRED)
    function = function_name(row.get("function") or row.get("fn_name"))
    pairs = enumerate(zip(inputs, outputs, strict=True))
    if not function:
        return {"tests": [_run(f"inputs.{n}", a, f"outputs.{n}", b) for n, (a, b) in pairs]}
    tests = [_column_call(f"inputs.{n}", a, f"outputs.{n}", b) for n, (a, b) in pairs]
    return {"function": function, "tests": tests}


def _column_call(field: str, passed_value: Any, wanted_field: str, expected: Any) -> dict[str, Any]:
    """Return one call of a function with its expected value.

    A list holds the arguments, an object keyword arguments. A text has one argument in JSON on each
    line, or keyword arguments as `n = 3, base = 2`, and its output is JSON, too.
    """
    if isinstance(passed_value, str):
        value = decode_value(expected, wanted_field) if isinstance(expected, str) else expected
        if KEYWORD.match(passed_value):
            return {**read_assignments(passed_value, field), "value": value}
        return {"args": read_lines(passed_value, field), "value": value}
    passed = read_arguments(passed_value, field)
    if isinstance(expected, list) and len(expected) == 1:  # many sets put the value into a list
        return {**passed, "values": [expected, expected[0]]}
    return {**passed, "value": expected}


def _mbpp(row: Row) -> dict[str, Any]:
    """Read MBPP: `test_list`, and what runs before it."""
    checks = _checks(row["test_list"], "test_list")
    before = [row.get("test_setup_code"), *read_texts(row.get("test_imports"), "test_imports")]
    return _with_setup({"tests": checks}, [text for text in before if text])


def _humaneval(row: Row) -> dict[str, Any]:
    """Read HumanEval and HumanEval+: `test` defines `check(candidate)`.

    The prompt has what the tests use.
    """
    return _with_candidate(row, "test")


def _skywork(row: Row) -> dict[str, Any] | None:
    """Read Skywork-OR1: `test_code` defines `check(candidate)`, behind `import_prefix`.

    None where the row has inputs and outputs, which say more.
    """
    if row.get("inputs"):
        return None
    before = [text for text in (row.get("import_prefix"),) if text]
    return _with_setup(_with_candidate(row, "test_code"), before)


def _with_candidate(row: Row, field: str) -> dict[str, Any]:
    function = function_name(row["entry_point"])
    test = read_text(row[field], field)
    call = f"\ncheck({function})\n" if re.search(r"^def check\s*\(", test, re.MULTILINE) else ""
    prompt = row.get("prompt")
    answer: dict[str, Any] = {"function": function, "tests": [{"check": test + call}]}
    if not isinstance(prompt, str):
        return answer
    is_code = re.search(rf"^def {function}\b", prompt, re.MULTILINE)
    if is_code and (preamble := _runnable_prompt(prompt)):
        answer["preamble"] = preamble
    return answer


def _runnable_prompt(prompt: str) -> str:
    """Return the prompt as Python that runs, with a body where it has none.

    "" where it is no Python.
    """
    for text in (f"{prompt}\n", f"{prompt}\n    pass\n"):
        try:
            defined_in(text)
        except NotPython:
            continue
        return text
    return ""


def _test_code(row: Row) -> dict[str, Any] | None:
    """Read Python with asserts, one text or a list of them, under one of the names of TEST_CODE."""
    name = next((name for name in TEST_CODE if row.get(name)), "")
    text = row.get(name)
    if isinstance(text, str) and text.lstrip().startswith("["):
        text = decode_value(text, name)
    if (
        isinstance(text, list)
        and text
        and all(isinstance(check, str) and is_test(check) for check in text)
    ):
        return {"tests": [{"check": check} for check in text]}
    if not isinstance(text, str) or not re.search(r"\bassert|\bself\.assert", text):
        return None
    return {"tests": [{"check": text}]}


def _livecodebench(row: Row) -> dict[str, Any]:
    """Read LiveCodeBench: public and private tests as JSON texts, the private ones also packed."""
    tests = [*read_tests(row.get("public_test_cases"), "public_test_cases")]
    if row.get("private_test_cases"):
        tests += read_tests(unpack_tests(row["private_test_cases"]), "private_test_cases")
    metadata = row.get("metadata")
    metadata = (
        decode_value(metadata, "metadata") if isinstance(metadata, str) and metadata else metadata
    )
    function_name_given = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    starter = re.search(
        r"^[ \t]*+def (\w+)\(self", str(row.get("starter_code") or ""), re.MULTILINE
    )
    return _read_tests(
        tests, "public_test_cases", function_name_given or (starter and starter[1]) or ""
    )


def _code_contests(row: Row) -> dict[str, Any]:
    """Read CodeContests: `public_tests`, `private_tests` and `generated_tests`, each of columns."""
    tests: list[dict[str, str]] = []
    for name in ("public_tests", "private_tests", "generated_tests"):
        columns = row.get(name) or {"input": [], "output": []}
        if not isinstance(columns, Mapping):
            raise BadTests(f"{name}: must be an object with input and output")
        tests += _columns({"inputs": columns.get("input"), "outputs": columns.get("output")})[
            "tests"
        ]
    return {"tests": tests}


def _examples(name: str) -> Callable[[Row], dict[str, Any] | None]:
    """Return what reads a list of inputs and outputs in the column of that name."""

    def read(row: Row) -> dict[str, Any] | None:
        examples = decode_value(row[name], name) if isinstance(row[name], str) else row[name]
        if not isinstance(examples, list) or not all(
            _first_of(example, OUTPUTS) for example in examples
        ):
            return None
        return _any_tests(examples, name, row)

    return read


def _streams(row: Row) -> dict[str, Any]:
    """Read columns named after the streams of a program."""
    return _columns({"inputs": row["stdin"], "outputs": row["stdout"]})


def _test_cases(row: Row) -> dict[str, Any]:
    """Read AceCode (asserts), and sets that give the type of each test (verification_info)."""
    return _any_tests(row["test_cases"], "test_cases", row)


def _tests(row: Row) -> dict[str, Any] | None:
    """Read our own form, and lists of tests under its name."""
    return _any_tests(row["tests"], "tests", row)


def _asserts(row: Row) -> dict[str, Any]:
    """Read the form of verl's sandbox: `assert_case`, a list of asserts."""
    before = [text for text in (row.get("import_prefix"),) if text]
    return _with_setup({"tests": _checks(row["assert_case"], "assert_case")}, before)


Reader = Callable[[Row], dict[str, Any] | None]
# The name, the columns by which it is recognised, and what reads it; the first that fits is taken.
LAYOUTS: tuple[tuple[str, tuple[str, ...], Reader], ...] = (
    ("APPS", ("input_output",), _apps),
    ("LiveCodeBench", ("public_test_cases",), _livecodebench),
    ("LiveCodeBench", ("private_test_cases",), _livecodebench),
    ("MBPP", ("test_list",), _mbpp),
    ("HumanEval", ("test", "entry_point"), _humaneval),
    ("CodeContests", ("public_tests",), _code_contests),
    ("verl", ("assert_case",), _asserts),
    ("AceCode", ("test_cases",), _test_cases),
    (OWN, ("tests",), _tests),
    ("Skywork-OR1", ("test_code", "entry_point"), _skywork),
    ("columns", ("inputs", "outputs"), _columns),
    ("columns", ("stdin", "stdout"), _streams),
    *(("examples", (name,), _examples(name)) for name in EXAMPLES),
    *(("test code", (name,), _test_code) for name in TEST_CODE),
)
LAYOUT_KEYS = tuple(dict.fromkeys(keys[0] for _, keys, _ in LAYOUTS))

# What an answer in any layout keeps its tests in; in its place stands the one form.
OF_TESTS = frozenset(
    [
        *LAYOUT_KEYS,
        *WRAPPERS,
        "outputs",
        "stdout",
        "fn_name",
        "entry_point",
        "test_setup_code",
        "test_imports",
        "metadata",
        "private_tests",
        "private_test_cases",
        "generated_tests",
        "import_prefix",
        "challenge_test_list",
        "starter_code",
    ]
)


# -- parts of them ---------------------------------------------------------------------------------


def _any_tests(value: Any, field: str, row: Row) -> dict[str, Any]:
    """Read a list of asserts or of objects, or an object of columns.

    Each may also be JSON in a text, or Python.
    """
    if isinstance(value, str) and is_test(value):
        value = [value]
    value = decode_value(value, field) if isinstance(value, str) else value
    function = function_name(row.get("function") or row.get("fn_name") or row.get("entry_point"))
    if isinstance(value, Mapping):
        columns = {"inputs": value.get("inputs", value.get("input"))}
        columns["outputs"] = value.get("outputs", value.get("output"))
        if columns["inputs"] is None:
            raise BadTests(f"{field}: must be a list of tests")
        return _columns({**columns, "fn_name": value.get("fn_name") or function})
    if not isinstance(value, list):
        raise BadTests(f"{field}: must be a list of tests")
    answer: dict[str, Any]
    if value and all(isinstance(test, str) for test in value):
        answer = {"tests": _checks(value, field)}
        return _with_setup({"function": function, **answer} if function else answer, _setup(row))
    if value and all(isinstance(test, Mapping) and "check" in test for test in value):
        checks = [read_text(test["check"], f"{field}.{n}.check") for n, test in enumerate(value)]
        answer = {"tests": _checks(checks, field)}
        if row.get("preamble"):
            answer["preamble"] = read_text(row["preamble"], "preamble")
        return _with_setup({"function": function, **answer} if function else answer, _setup(row))
    return _read_tests(value, field, function)


def _with_function(answer: dict[str, Any], field: str) -> dict[str, Any]:
    """Add the name of the tested function, if the checks call exactly one unknown name.

    A function that the row itself names is kept.
    """
    texts = [answer.get("preamble", ""), answer.get("setup", "")]
    try:
        defined = set().union(*(defined_in(text) for text in texts))
        called = [called_in(test["check"], defined) for test in answer["tests"]]
    except NotPython as error:
        raise BadTests(f"{field}: {error}") from None
    if answer.get("function"):
        return answer
    names = dict.fromkeys(name for calls in called for name in calls)
    candidates = [name for name in names if name not in USUAL_NAMES] or list(names)[:1]
    return {"function": candidates[0], **answer} if len(candidates) == 1 else answer


def _setup(row: Row) -> list[str]:
    setup = row.get("setup")
    return [read_text(setup, "setup")] if setup else []


def _read_tests(tests: Sequence[Any], field: str, function: str) -> dict[str, Any]:
    """Return objects of input and output, or of args and value.

    Each may say its type and its function.
    """
    function_names = {_function_of(test) for test in tests if isinstance(test, Mapping)} - {""}
    if len(function_names) > 1:
        raise BadTests(
            f"{field}: must test one function, not several: {', '.join(sorted(function_names))}"
        )
    function = function_name(function or next(iter(function_names), ""))
    types = {_is_call(test, function) for test in tests if isinstance(test, Mapping)}
    if len(types) > 1:
        raise BadTests(f"{field}: either all tests must run a program or all must call a function")
    if not (types or {bool(function)}).pop():
        return {"tests": [_row_run(test, f"{field}.{n}") for n, test in enumerate(tests)]}
    if not function:
        raise BadTests(
            f"{field}: the name of the function is missing (metadata.func_name, fn_name)"
        )
    calls = [_row_call(test, f"{field}.{n}") for n, test in enumerate(tests)]
    return {"function": function, "tests": calls}


def _function_of(test: Row) -> str:
    metadata = test.get("metadata")
    metadata_name = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    return str(test.get("fn_name") or metadata_name or "")


def _is_call(test: Row, function: str) -> bool:
    kind = test.get("testtype") or test.get("type")
    return kind in FUNCTION_TYPES if isinstance(kind, str) else bool(function)


def _row_run(row: Any, field: str) -> dict[str, str]:
    expected = _first_of(row, OUTPUTS)
    if expected is None:
        raise BadTests(f"{field}: must be an object with stdin and stdout")
    input_column = _first_of(row, INPUTS) or "stdin"
    return _run(
        f"{field}.{input_column}", row.get(input_column), f"{field}.{expected}", row[expected]
    )


def _first_of(row: Any, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in row), None) if isinstance(row, Mapping) else None


def _run(field: str, input_value: Any, wanted_field: str, expected: Any) -> dict[str, str]:
    stdin = "" if input_value is None else as_text(input_value, field)
    return {"stdin": stdin, "stdout": as_text(expected, wanted_field)}


def _row_call(row: Any, field: str) -> dict[str, Any]:
    accepted_values = row.get("values") if isinstance(row, Mapping) else None
    expected = _first_of(row, ("value", *OUTPUTS))
    if expected != "value" and isinstance(accepted_values, list) and accepted_values:
        return {**_passed_arguments(row, field), "values": accepted_values}
    if expected is None:
        raise BadTests(f"{field}: must be an object with args and value")
    if expected == "value" or "args" in row or "kwargs" in row:
        return {**_passed_arguments(row, field), "value": row[expected]}
    input_value = row.get(_first_of(row, INPUTS) or "input", [])
    return _column_call(f"{field}.input", input_value, f"{field}.{expected}", row[expected])


def _passed_arguments(row: Row, field: str) -> dict[str, Any]:
    """Return what a test passes to the function, by place in `args` and by name in `kwargs`."""
    passed = read_arguments(row.get("args", []), f"{field}.args")
    if not row.get("kwargs"):
        return passed
    keywords = read_keywords(row["kwargs"], f"{field}.kwargs")
    return {"args": passed["args"], "kwargs": {**passed.get("kwargs", {}), **keywords}}


def _checks(value: Any, field: str) -> list[dict[str, str]]:
    return [{"check": text} for text in read_texts(value, field)]


def _with_setup(answer: dict[str, Any], before: list[Any]) -> dict[str, Any]:
    setup = "\n".join(read_text(code, "setup") for code in before)
    return {**answer, "setup": setup} if setup else answer
