"""Builds the documentation site with MkDocs; run by scripts/site, which makes the environment."""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote

from generators import site

ROOT = Path(__file__).resolve().parents[1]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def broken_links(target: Path) -> list[str]:
    """Links to files that are not there: MkDocs checks neither HTML in pages nor links from one language to the other."""
    broken = []
    for page in target.rglob("*.html"):
        if page.name == "404.html":  # its links are absolute
            continue
        for link in set(
            re.findall(r'<(?:a|link|script|img)[^>]* (?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8"))
        ):
            link = unquote(html.unescape(link))
            if re.match(r"[a-z]+:|//", link):
                continue
            path = (page.parent / link).resolve()
            if not (path / "index.html" if path.is_dir() else path).exists():
                broken.append(f"{page.relative_to(target)}: {link}")
    return broken


def fetched(target: Path) -> list[str]:
    """What readers' browsers would fetch from elsewhere."""
    pattern = r'<(?:script|img|link rel="(?:stylesheet|preconnect|icon)")[^>]*(?:src|href)="(https?://[^"]+)'
    return sorted(
        {link for page in target.rglob("*.html") for link in re.findall(pattern, page.read_text(encoding="utf-8"))}
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--address", default="", help="where the site will be, for its sitemap")
    options = parser.parse_args()
    target = options.output.absolute()
    shutil.rmtree(target, ignore_errors=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ascend-aclnn-site-") as name:
        work = Path(name)
        write(work / "en", site.files())
        write(work / "zh", site.chinese_files())
        for number, language in enumerate(("en", "zh")):
            here = target / "zh" if number else target
            config = work / f"{language}.yml"
            config.write_text(site.configuration(number, work / language, here, options.address), encoding="utf-8")
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(config)]
            # Material announces its own future on standard error otherwise.
            done = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
            if done.returncode:
                return done.returncode
    problems = [*broken_links(target), *(f"fetched from elsewhere: {link}" for link in fetched(target))]
    for problem in problems[:30]:
        print(problem)
    pages = len(list(target.rglob("index.html")))
    print(f"{pages} pages in {time.monotonic() - started:.0f} s: {target}; {len(problems)} problems")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
