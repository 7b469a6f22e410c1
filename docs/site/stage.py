#!/usr/bin/env python3
"""stage.py FOLDER: puts the sources of the documentation site there: mkdocs.yml, and pages/ with the Markdown files of the
project at their own paths, a page for each public header, and a page for each other file that a page links to."""
import pathlib
import re
import shutil
import sys

from common import ROOT, Project
from reference import Reference

ASSETS = (".svg", ".png", ".css", ".js")
FOR_DEVELOPERS = ("bench", "docs/decisions", "findings", "kernels", "tests")  # the search lists these pages last
ITEM = re.compile(r"\s*([-*+]|\d+\.) ")  # of a list
LINK = re.compile(r"\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".cu": "cpp", ".py": "python", ".json": "json", ".txt": "text", ".cmake": "cmake"}


def source_page(path):
    """A page that shows a file. The search leaves it out."""
    language = LANGUAGES.get(path.suffix, "bash" if path.parts[0] in ("script", ".ci") else "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{(ROOT / path).read_text(encoding='utf-8')}\n````\n"


class Stage:
    def __init__(self, folder):
        self.pages = folder / "pages"
        files = (pathlib.Path(name) for name in Project(ROOT).files(endings=".md"))
        self.markdown = [path for path in files if not (ROOT / path).is_relative_to(folder)]
        self.headers = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
                        for path in sorted((ROOT / "include/kolo").rglob("*.h")) if path.parent.name != "detail"}

    def write(self, name, text):
        path = self.pages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def site_link(self, page, match):
        """A link as the site has it: to the page of a file that is not Markdown, and not to a folder without a page."""
        text, target, anchor = match.groups()
        file = (ROOT / page).parent / target
        if re.match(r"[a-z]+:", target) or target.endswith(ASSETS + (".md",)) or not file.exists():
            return match[0]
        path = file.resolve().relative_to(ROOT)
        if file.is_dir():
            readme = path / "README.md"
            return f"[{text}]({target.rstrip('/')}/README.md)" if readme in self.markdown else text
        if path.as_posix() not in self.headers:
            self.write(f"{path}.md", source_page(path))
        return f"[{text}]({target}.md)"

    def site_text(self, page):
        """A page with its links, and with the empty line before a list that MkDocs needs."""
        lines, fenced = [], False
        if page.as_posix().startswith(FOR_DEVELOPERS):
            lines += ["---", "search:", "  boost: 0.2", "---"]
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                if ITEM.match(line) and lines and re.match(r"\S", lines[-1]) and not ITEM.match(lines[-1]):
                    lines.append("")
                line = LINK.sub(lambda match: self.site_link(page, match), line)
            lines.append(line)
        return "\n".join(lines) + "\n"

    def run(self, folder):
        shutil.rmtree(self.pages, ignore_errors=True)
        for page in self.markdown:
            self.write(page, self.site_text(page))
        for asset in (path for path in (ROOT / "docs").rglob("*") if path.suffix in ASSETS):
            (self.pages / asset.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(asset, self.pages / asset.relative_to(ROOT))
        reference = Reference(self.headers, {page.as_posix() for page in self.markdown})
        for header in self.headers:
            self.write(f"{header}.md", reference.page(header))
        order = sorted(self.headers, key=lambda path: (path.count("/"), path.split("/")[-2] != "torch", path))
        config = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8")
        entries = ", ".join(f"{path.removeprefix('include/kolo/')}: {path}.md" for path in order)
        (folder / "mkdocs.yml").write_text(config.replace("HEADERS", entries), encoding="utf-8")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1]).resolve()
    Stage(target).run(target)
