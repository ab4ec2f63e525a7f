"""Export and import episodes as lines of the verifiers package's Episode and Trace (v1).

One line of JSON is one episode. A trace is a conversation of nodes. Their tokens joined are what
the policy saw and wrote, `mask` marks what it sampled, and `logprobs` belong to those tokens. Data
that the format has no field for is in the trace's `info`, under `rftweb`. `exporting` writes the
lines of a run, `reading` parses a line, `looking` and `importing` make a run from a file.
"""
