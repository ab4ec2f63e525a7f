"""Weight versions in the formats that other programs read, and their way to the Hub.

`vocabulary` and `architectures` say a model in GGUF's words, `gguf_writing` writes the file,
`modelfile` what Ollama reads beside it, `hub` sends a folder away.
"""
