"""Make the links of README whole where `[project.urls]` in pyproject.toml has the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """A package index shows README alone: its links to files must lead into the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if repository := metadata.get("urls", {}).get("Repository"):
            text = re.sub(r"(!\[[^\]]*\]\()(?!https:)", rf"\1{repository}/raw/main/", text)
            text = re.sub(r"(\]\()(?!https:|#)", rf"\1{repository}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
