"""Give mkdocs the public addresses in pyproject.toml, if any (`hooks` in mkdocs.yml)."""

import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def on_config(config: Any) -> Any:
    """The address of the site, of the source, of each page's file, and of the issues."""
    urls = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"].get("urls", {})
    config.site_url = urls.get("Documentation")
    if repository := urls.get("Repository"):
        config.repo_url, config.repo_name = repository, urlsplit(repository).path.strip("/")
        config.edit_uri = "edit/main/docs/"
    if issues := urls.get("Issues"):
        config.extra["social"] = [{"icon": "material/bug", "link": issues, "name": "Issues"}]
    return config
