"""Episodes as lines of the verifiers package's Episode and Trace (v1), out and in: one line of JSON is one episode.

A trace is a conversation of nodes; put together, their tokens are what the policy saw and said, `mask` is what it sampled, and
`logprobs` are of those. What the format has no place for stands in the trace's `info`, under `rftweb`. `exporting` writes the
lines of a run, `reading` understands a line, `looking` and `importing` make a run of a file.
"""
