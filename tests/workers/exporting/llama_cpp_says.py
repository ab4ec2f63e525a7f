"""Print how llama.cpp reads a GGUF file: `python llama_cpp_says.py FILE`, with texts and token ids
as JSON on standard input.

This is a separate program because rftweb does not depend on the package; RFTWEB_TEST_LLAMA_CPP
names an interpreter that has it.
"""

import json
import sys

import llama_cpp
import numpy as np


def main() -> None:
    asked = json.load(sys.stdin)
    model = llama_cpp.Llama(
        sys.argv[1], n_ctx=len(asked["ids"]) + 8, logits_all=True, verbose=False, n_threads=1
    )
    model.eval(asked["ids"])
    scores = np.array(model._scores[: len(asked["ids"])], dtype=np.float64)
    scores -= scores.max(-1, keepdims=True)
    logprobs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    vocabulary = model._model.vocab
    ends = [
        token for token in range(model.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocabulary, token)
    ]
    tokens = [model.tokenize(text.encode(), add_bos=False, special=True) for text in asked["texts"]]
    json.dump({"logprobs": logprobs.tolist(), "tokens": tokens, "ends": ends}, sys.stdout)


if __name__ == "__main__":
    main()
