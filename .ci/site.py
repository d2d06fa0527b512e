"""
Look at a built site: `python .ci/site.py SITE`.

It loads nothing from elsewhere, and each query of `FOUND` leads to its page. Where Chromium is
installed, it opens every page at 400 pixels in light and in dark, and nothing is wider than the
screen but what scrolls in itself, no word is broken into pieces, a button copies commands without
their prompts, and the search is asked itself. Exits with 1 if something is wrong.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTH = 400
SECONDS = 600  # until the browser has looked at all pages
BROWSERS = "chromium", "chromium-browser", "google-chrome"
FOUND = {
    "recompile": "traps/",
    "error bars": "tutorials/rollouts/",
    "which N": "advanced/speed/",
    "reset some slots": "advanced/resets/",
    "curriculum": "advanced/domain-randomization/",
    "no display": "tutorials/rendering/",
    "compare two policies": "tutorials/rollouts/",
    "own simulator": "trainers/simulators/",
    "time limit": "tutorials/make/",
    "resume": "advanced/saving/",
    "action mask": "advanced/masks/",
    "doorkey": "libraries/navix/",
    "known bugs": "libraries/surprises/",
    "vectorize": "tutorials/vectorising/",
    "lstm": "tutorials/rollouts/",
    "hydra": "tutorials/configuration/",
    "docker": "getting-started/",
    "gpu": "getting-started/",
    "save model": "advanced/saving/",
    "checkpoint": "advanced/saving/",
    "frame skip": "tutorials/wrappers/",
    "frame stack": "tutorials/wrappers/",
    "gymnasium.make": "coming-from/gymnasium/",
    "colab": "notebooks/",
    "replay buffer": "examples/",
    "state": "tutorials/state/",
}
LOADED = re.compile(
    r'<(?:script|img|link rel="(?:stylesheet|icon|preload)")[^>]*(?:src|href)="(\w+:)?//'
)
PROBE = Path(__file__).with_name("site.js")


def main() -> int:
    [site] = map(Path, sys.argv[1:])
    wrong = [*loaded_from_elsewhere(site), *not_tagged(site)]
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser:
        wrong += seen(site, browser)
    else:
        print("NOTE: no Chromium here; no page is opened.")
    for line in wrong:
        print(line)
    print(f"{len(wrong)} faults in {sum(1 for _ in pages(site))} pages")
    return bool(wrong)


def pages(site: Path) -> Iterator[str]:
    """The addresses of the pages."""
    for path in sorted(site.rglob("index.html")):
        yield path.parent.relative_to(site).as_posix().replace(".", "", 1) + "/" * (
            path.parent != site
        )


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*.html")):
        if found := LOADED.search(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: expected no file from elsewhere; got {found[0]}"


def not_tagged(site: Path) -> Iterator[str]:
    """Queries whose words are not all in the tags or the title of their page; states not last."""
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    for query, address in FOUND.items():
        texts = [
            f"{' '.join(entry.get('tags', []))} {entry['title']}".lower()
            for entry in index["docs"]
            if entry["location"].partition("#")[0] == address
        ]
        if not any(all(word in text for word in query.lower().split()) for text in texts):
            yield f"search: expected {query!r} among the tags or titles of {address}"
    for entry in index["docs"]:
        if entry["title"].endswith("State") and entry.get("boost", 1) >= 1:
            yield f"search: expected {entry['title']} last, with a boost below 1"


class Server(SimpleHTTPRequestHandler):
    """Serves the site and the page that looks at it; takes what that found."""

    found: list[str]
    done: threading.Event
    addresses: list[str]

    def do_GET(self) -> None:
        if self.path == "/probe":
            self._answer(f"<!doctype html><script>{PROBE.read_text('utf-8')}</script>".encode())
        elif self.path == "/asked":
            asked = {"pages": self.addresses, "width": WIDTH, "queries": FOUND}
            self._answer(json.dumps(asked).encode())
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.found.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(b"")
        self.done.set()

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


def seen(site: Path, browser: str) -> list[str]:
    """What the browser finds wrong; the page asks for it, and the server gets it."""
    found, done = list[str](), threading.Event()
    handler = type(
        "Handler", (Server,), {"found": found, "done": done, "addresses": [*pages(site)]}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # it still writes
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
        flags += ["--window-size=1280,1000", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_port}/probe"
        process = subprocess.Popen([browser, *flags, address], stderr=subprocess.DEVNULL)
        if not done.wait(SECONDS):
            found.append(f"expected an answer of {browser} within {SECONDS} s; got none")
        process.terminate()
        process.wait()
    server.shutdown()
    server.server_close()
    return found


if __name__ == "__main__":
    sys.exit(main())
