"""Names of repositories and tokens of the Hugging Face Hub, as it takes them.

https://huggingface.co/docs/hub/repositories-getting-started
"""

_NAME = r"(?!.*(?:--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
REPOSITORY = rf"^{_NAME}/(?!.*\.git$){_NAME}$"
OWNER_NAME = "It must be owner/name with letters, digits, -, _ and . only."
TOKEN = r"^[A-Za-z0-9_-]+$"
