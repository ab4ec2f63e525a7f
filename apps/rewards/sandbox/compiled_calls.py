"""Calls of functions in C and C++.

They are compiled together with what reads their arguments and writes their value, both as JSON.
"""

import re
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from shlex import quote

from apps.rewards.sandbox.functions import Outcome, read_outcome
from apps.rewards.sandbox.languages import require_tool
from apps.rewards.sandbox.limits import Limits
from apps.rewards.sandbox.programs import (
    STACKS,
    STANDARDS,
    THREAD_STACK,
    Program,
    first_command,
    prepare_script,
    stack_options,
)

GUEST = Path(__file__).with_name("guest.hpp")
HEADER = "/code/called.hpp"
PARTS = "/code/main.cpp"
# C++ is one text: its own `main`, if it has one, gives way. C is compiled as C; gcc tells the
# function's prototype.
CPLUSPLUS = '"$0" -O2 -pipe -pthread -std={standard} -x c++ /code/main.cpp {stacks} -o /tmp/binary'
PART = (
    '"$0" -O2 -pipe -std=gnu17 -Dmain=a_main_of_its_own -x c -c /code/program -o /tmp/part.o'
    " -aux-info /tmp/known"
)
PROTOTYPE = (
    "sed -n 's/^[^*]*\\*[^*]*\\*\\/ extern \\([^;]*[ *]{function} ([^;]*;\\).*$/\\1/p' /tmp/known"
)
PLAINLY = "sed 's/_Bool/bool/g;s/restrict//g' > /tmp/wanted.h"  # as C++ says it
WHOLE = (
    "exec {cxx} -O2 -pipe -pthread -std=gnu++20 -I/tmp -x c++ /code/main.cpp {stacks} "
    "/tmp/part.o -o /tmp/binary -lm"
)
SCRIPTS = {
    "c++": first_command(
        [CPLUSPLUS.replace("{standard}", standard) for standard in STANDARDS["c++"]]
    ),
    "c": f"{PART} && {PROTOTYPE} | {PLAINLY} && {WHOLE}",
}
SOLUTION = re.compile(r"\b(?:class|struct)\s+Solution\b")


@dataclass(frozen=True)
class CompiledCall:
    """Compiled function that can be called, each time in a guest of its own."""

    program: Program

    def run(self, arguments: tuple, limits: Limits) -> Outcome:
        """Call the function and return its outcome. Raises NoSandbox."""
        stdin = dumps(arguments, ensure_ascii=False).encode(errors="replace")
        return read_outcome(self.program.run(stdin, limits), limits)


def prepare_call(source: str, language: str, function: str) -> CompiledCall:
    """Compile a function to be called.

    Raises DoesNotCompile, also where no such function takes arguments out of JSON; NoTool,
    NoSandbox.
    """
    text = source.encode(errors="replace")
    files = {
        HEADER: GUEST.read_bytes(),
        PARTS: _main(source, language, function).encode(errors="replace"),
        "/code/program": text,
        STACKS: THREAD_STACK.encode(),
    }
    links = require_tool("c++")  # C's is linked with it, too
    script = SCRIPTS[language]
    substitutions = {
        "{function}": function,
        "{cxx}": quote(links.path),
        "{stacks}": stack_options("c++"),
    }
    for word, value in substitutions.items():
        script = script.replace(word, value)
    return CompiledCall(prepare_script(script, language, files, links.homes))


def _main(source: str, language: str, function: str) -> str:
    if language == "c":
        return (
            '#include "/code/called.hpp"\nextern "C" {\n#include "wanted.h"\n}\nint main() {'
            f" called::call(&{function}); }}\n"
        )
    callee = f"Solution::{function}" if SOLUTION.search(source) else function
    renamed_source = f"#define main a_main_of_its_own\n#line 1\n{source}\n#undef main\n"
    return (
        f'#include "/code/called.hpp"\n{renamed_source}int main() {{ called::call(&{callee}); }}\n'
    )
