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
from urllib.parse import unquote, urlsplit

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


NOT_FOUND = (
    ("en", "Not found", "This page does not exist.", "Home", "Operators", ""),
    ("zh", "找不到页面", "没有这个页面。", "首页", "算子", "zh/"),
)


def not_found(language: int, address: str) -> str:
    """404.html: it is shown at any address, so its links are absolute, and it needs no other file."""
    code, title, text, home, operators, folder = NOT_FOUND[language]
    root = (urlsplit(address).path if address else "").rstrip("/") + "/"
    links = f'<a href="{root}{folder}">{home}</a> <a href="{root}{folder}operators/">{operators}</a>'
    style = (
        ":root{color-scheme:light dark}body{margin:0;font:1.05rem/1.6 system-ui,sans-serif}"
        "header{background:#4051b5;color:#fff;font-weight:700;padding:.7rem 1.5rem}"
        "main{max-width:34rem;margin:12vh auto;padding:0 1.5rem}"
        "a{display:inline-block;border:2px solid #5488e8;border-radius:.15rem;color:#5488e8;font-weight:700;text-decoration:none;"
        "padding:.4rem 1.1rem;margin:0 .6rem .6rem 0}"
    )
    return (
        f'<!doctype html><html lang="{code}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title} - ascend_aclnn</title><style>{style}</style>"
        f"<header>ascend_aclnn</header><main><h1>404</h1><p>{text}</p><p>{links}</p></main></html>\n"
    )


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
    parser.add_argument(
        "--family", default="", help="operators of this family only, for a look: links are not checked then"
    )
    options = parser.parse_args()
    target = options.output.absolute()
    shutil.rmtree(target, ignore_errors=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ascend-aclnn-site-") as name:
        work = Path(name)
        write(work / "en", site.files(options.family))
        write(work / "zh", site.chinese_files(options.family))
        running = []
        for number, language in enumerate(("en", "zh")):
            here = work / "built" if number else target
            config = work / f"{language}.yml"
            text = site.configuration(number, work / language, here, options.address, options.family)
            config.write_text(text, encoding="utf-8")
            strict = [] if options.family else ["--strict"]
            command = [sys.executable, "-m", "mkdocs", "build", "--quiet", *strict, "--config-file", str(config)]
            # Material announces its own future on standard error otherwise.
            running.append(subprocess.Popen(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}))
        failures = [code for code in (process.wait() for process in running) if code]
        if failures:
            return failures[0]
        shutil.move(work / "built", target / "zh")  # MkDocs empties the folder that it builds into
    for number, folder in enumerate((target, target / "zh")):
        (folder / "404.html").write_text(not_found(number, options.address), encoding="utf-8")
    problems = [] if options.family else broken_links(target)
    problems += [*(f"fetched from elsewhere: {link}" for link in fetched(target))]
    for problem in problems[:30]:
        print(problem)
    for gap in site.gaps():
        print(f"gap: {gap}")
    pages = len(list(target.rglob("index.html")))
    print(f"{pages} pages in {time.monotonic() - started:.0f} s: {target}; {len(problems)} problems")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
