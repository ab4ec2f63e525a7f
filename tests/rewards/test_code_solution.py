"""Finding the code block of a reply that is the solution."""

import random

import pytest

from apps.rewards.code.solution import SolutionRequirements, solution

FUNCTION = "def f(a):\n    return 2 * a\n"
PROGRAM = "n = int(input())\nprint(n)\n"
CALLED = SolutionRequirements("", ("f",))
RUN = SolutionRequirements()


def block(code: str, fence: str = "python", marks: str = "```") -> str:
    return f"{marks}{fence}\n{code}{marks}"


BEHIND = {
    "nothing": "",
    "output": "It prints:\n" + block("6\n", ""),
    "output that is named": block("6\n", "text"),
    "a command": block("python3 a.py\n", "bash"),
    "an example": "Example:\n" + block("print(f(3))\n"),
    "a test": block("assert f(3) == 6\n"),
    "sample input": "Input:\n" + block("2\n4 5\n", ""),
    "an inline word": "So ```f``` is it.",
    "a block that was cut off": block("def f(a:\n    return", "python")[:-3],
}
BEFORE = {
    "nothing": "",
    "thoughts": "<think>\n" + block("def f(a):\n    return 3 * input()\n") + "\n</think>\n",
    "thoughts that the prompt began": block("def f(a):\n    return 3 * input()\n") + "\n</think>\n",
    "a draft": block("def f(a):\n    return 3 * input()\n") + "\nNo, better:\n",
    "the installation": block("pip install numpy\n", "bash") + "\n",
    "a sketch in words": block("read a\nprint twice a\n", "text") + "\n",
}


TAGGED = {
    "both on the lines of the marks": f"<answer>{block(FUNCTION)}</answer>",
    "with a blank": f"<answer> {block(FUNCTION)} </answer>",
    "of the policy's template": f"{block(FUNCTION)}<|im_end|>",
    "behind a draft": f"{block('def f(a): return 3')}\n<solution>{block(FUNCTION)}</solution>",
    "with a sign for the order of bytes": block("\ufeff" + FUNCTION),
}


@pytest.mark.parametrize("name", TAGGED)
def test_tags_beside_the_fence_are_not_part_of_a_block(name):
    assert solution(TAGGED[name], CALLED).code == FUNCTION


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize(
    ("code", "wanted"), [(FUNCTION, CALLED), (PROGRAM, RUN)], ids=["function", "program"]
)
def test_text_and_blocks_around_the_solution_are_ignored(before, behind, code, wanted):
    text = f"{BEFORE[before]}So:\n{block(code)}\n{BEHIND[behind]}"
    assert solution(text, wanted).code == code


def test_solution_is_found_for_every_spelling_of_its_fence():
    drawn = random.Random(0)
    for _ in range(300):
        marks = drawn.choice(["```", "~~~", "````", "``````"])
        fence = drawn.choice(
            [
                "python",
                "Python",
                "py",
                "py3",
                "python3.11",
                "",
                "{.python .numberLines}",
                'python title="a.py"',
            ]
        )
        code = drawn.choice(
            [FUNCTION, f"import math\n\n\n{FUNCTION}", f"{FUNCTION}\n\nif True:\n    pass\n"]
        )
        lines = block(code, fence, marks).split("\n")
        before = drawn.choice(["", "  ", "   ", "      ", "> ", "\t"])
        lead = drawn.choice(["", "- ", "1. ", "* "]) if before.strip() == "" else ""
        rest = before + " " * len(lead)
        indented = [
            f"{before}{lead}{lines[0]}",
            *(f"{rest}{line}" if line else line for line in lines[1:]),
        ]
        is_open = drawn.random() < 0.2
        text = (
            "So:\n"
            + "\n".join(indented[:-1] if is_open else indented)
            + ("" if is_open else "\nThat is all.")
        )
        found = solution(text, CALLED)
        assert found is not None and found.code.strip() == code.strip(), text


@pytest.mark.parametrize(
    ("text", "wanted", "code"),
    [
        (
            block(FUNCTION) + "\n" + block("int f(int a) { return 2 * a; }\n", "cpp"),
            SolutionRequirements("python", ("f",)),
            FUNCTION,
        ),
        (
            block("int f(int a) {\n  return a;\n}\n", "c")
            + "\n"
            + block("int main() { f(1); }\n", "c"),
            CALLED,
            None,
        ),
        (block("```\na\n```\n", "", "````"), RUN, "```\na\n```\n"),
        (block("a\n", "py") + "\n" + block("b\n", "py"), RUN, "b\n"),
        (
            block("def f():\n    '''\n    ```\n    x\n    ```\n    '''\n"),
            CALLED,
            "def f():\n    '''\n    ```\n    x\n    ```\n    '''\n",
        ),
        (
            block("class Solution:\n    def f(self, a):\n        return a\n")
            + "\n"
            + block("Solution().f(1)\n"),
            CALLED,
            "class Solution:\n    def f(self, a):\n        return a\n",
        ),
        (
            block("f = lambda a: a\n") + "\n" + block("print(f(1) == 1)\n"),
            CALLED,
            "f = lambda a: a\n",
        ),
        (block("fn main() {}\n", "rust"), SolutionRequirements("python"), "fn main() {}\n"),
    ],
)
def test_last_block_that_defines_the_required_name_is_taken(text, wanted, code):
    found = solution(text, wanted)
    assert found.code == (code or "int f(int a) {\n  return a;\n}\n")


@pytest.mark.parametrize(
    "text",
    ["So it is: ```python\n{}```", "```python\n{}``` ", "So: ```python\n{}\n```\nas ```f``` is."],
)
def test_fence_may_be_at_the_end_of_a_line(text):
    code = FUNCTION.rstrip()
    assert solution(text.format(code), CALLED).code.strip() == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print(3)",
        "a ```b``` c",
        "<think>\n" + block(PROGRAM),
        "<think>\n" + block(PROGRAM) + "\n</think>\nI do not know.",
        "```python\ndef f(a:",
        block("ls\n", "bash"),
        block("fn main() {}\n", "rust"),
    ],
)
def test_reply_without_code_has_no_solution(text):
    assert solution(text, SolutionRequirements("", ("f",))) is None
