#!/usr/bin/env python3
"""docs_site.py FOLDER: script/docs builds the site there; its pages lead nowhere outside by themselves, and every link inside
leads to a page. Skipped without the packages that script/setup --docs installs."""
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

from common import ROOT

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data", "use": "href"}
FUNCTIONS = {
    "include/kolo/context.h.html": ("context-create", "create(Config config = Config::from_environment())"),
    "include/kolo/torch/distributed_optimizer.h.html": ("distributedoptimizer-step", "step(LossClosure closure = nullptr)"),
    "include/kolo/torch/ops.h.html": ("allreduce_async", "TensorWork allreduce_async(Context& context, at::Tensor tensor,"),
}


class Page(html.parser.HTMLParser):
    """What a page loads, where its links lead, its anchors, and its text."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.anchors, self.text = [], [], set(), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id") or attributes.get("name"))
        if attributes.get(LOADED.get(tag)):
            self.loads.append(attributes[LOADED[tag]])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])

    def handle_data(self, data):
        self.text += data


def bad_targets(site, pages, name):
    page = pages[name]
    for target in page.loads + page.links:
        if re.match(r"[a-z]+:|//", target):
            if target in page.loads:
                yield f"{name} loads {target}"
            continue
        path, anchor = urllib.parse.urldefrag(urllib.parse.unquote(target))
        file = (site / name).parent / path if path else site / name
        other = pages.get(os.path.relpath(file, site))
        if not file.is_file():
            yield f"{name}: {target} does not exist"
        elif anchor and other and anchor not in other.anchors:
            yield f"{name}: {target} names no heading"


def types(header):
    return re.findall(r"^(?:class|struct|enum class) (\w+)[^;(]*?\{", header.read_text(encoding="utf-8"), re.M)


def functions(header):
    """Names in front of a '(' in the first line of a declaration, but for private members and destructors."""
    private = False
    for line in header.read_text(encoding="utf-8").splitlines():
        if access := re.match(r" *(public|protected|private):|\};", line):
            private = access[1] == "private"
        found = re.match(r"(?:  )?(?! )(?:[^/(]*[\s*&])?(\w+)\(", line)
        if found and not private:
            yield found[1]


def complaints(folder):
    site = folder / "site"
    pages = {path.relative_to(site).as_posix(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for name in pages:
        yield from bad_targets(site, pages, name)
    for path in site.rglob("*.css"):
        if re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")):
            yield f"{path} loads something from outside"
    config = (folder / "mkdocs.yml").read_text(encoding="utf-8")
    for page in re.findall(r"[\w/.-]+\.md\b", config[config.index("\nnav:"):]):
        html_name = re.sub(r"(README)?\.md$", lambda match: "index.html" if match[1] else ".html", page)
        if html_name not in pages:
            yield f"{page} of the navigation has no page {html_name}"
    for name, (anchor, signature) in FUNCTIONS.items():
        if anchor not in pages[name].anchors or signature not in pages[name].text:
            yield f"{name} lacks {signature}"
    for header in (ROOT / "include/kolo").rglob("*.h"):
        page = pages.get(f"{header.relative_to(ROOT)}.html")
        for name in types(header):
            if not page or name.lower() not in page.anchors:
                yield f"the reference lacks {name} of {header.relative_to(ROOT)}"
        for name in functions(header) if page else ():
            if name + "(" not in page.text:
                yield f"the reference lacks {name}() of {header.relative_to(ROOT)}"
    if not (site / "search/search_index.js").is_file():
        yield "there is no index for the search without a server"


def main(folder):
    installed = ROOT / ".deps/docs/requirements.txt"
    if not installed.exists() or installed.read_text() != (ROOT / "docs/site/requirements.txt").read_text():
        print("skipped: .deps/docs is missing or not of docs/site/requirements.txt (run script/setup --docs)")
        return 77
    subprocess.run([ROOT / "script/docs", folder], check=True)
    found = list(complaints(folder))
    with open(folder / "pages/README.md", "a", encoding="utf-8") as page:
        page.write("\n[dead](docs/none.md)\n")
    built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-f", folder / "mkdocs.yml"],
                           env={**os.environ, "PYTHONPATH": str(ROOT / ".deps/docs")}, capture_output=True, text=True)
    if built.returncode == 0 or "docs/none.md" not in built.stderr:
        found.append("a dead link does not end the build")
    print("\n".join(found) or "docs_site: fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
