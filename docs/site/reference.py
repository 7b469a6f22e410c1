"""The public headers as Markdown: for each declaration its signature and its comment, in the order of the header."""
import re

from declarations import declarations

# What is set as code in a comment: `quoted`, f(), A::b, paths of headers and pages, names_like_this, NamesLikeThis.
CODE = re.compile(r"`[^`]+`|\b[\w.]+(?:::\w+)*\(\)|\b\w+(?:::\w+)+|\b[a-z]+/[\w./]+\.(?:h|md)\b|\b\w*[A-Za-z0-9]_\w*|"
                  r"\b[A-Z][a-z]+(?:[A-Z]+[a-z]*)+\b")


def groups(items):
    """Items under one heading: overloads, and functions without a comment directly behind another function."""
    group = []
    for item in items:
        joins = group and item.kind == group[0].kind == "function" and (
            item.name == group[-1].name or item.follows and not item.comment)
        if group and not joins:
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def escaped(text):
    return re.sub(r"([\\*_\[\]#])", r"\\\1", text).replace("<", "&lt;")


class Reference:
    """The pages of all headers. `headers`: text by path ("include/kolo/work.h"); `pages`: paths that a comment may name."""

    def __init__(self, headers, pages):
        self.headers, self.pages = headers, pages
        self.heads, self.items, self.targets = {}, {}, {}
        for path, text in headers.items():
            head = re.match(r"#pragma once\n((?://.*\n)+)", text)
            self.heads[path] = [line[3:] for line in head[1].splitlines()]
            try:
                self.items[path] = declarations(text[head.end():])
            except (AttributeError, TypeError, ValueError) as error:
                raise SystemExit(f"{path}: docs/site/declarations.py cannot read a declaration: {error}") from error
            self.set_anchors(path, self.items[path], set())

    def set_anchors(self, path, items, taken):
        for group in groups(items):
            first = group[0]
            if first.kind != "note":
                anchor = re.sub(r"\W+", "-", first.full_name.lower().replace("~", "destroy-")).strip("-")
                first.anchor = anchor + "-again" * (anchor in taken)
                taken.add(first.anchor)
                for item in group:
                    self.targets.setdefault(item.full_name, f"{path}.md#{first.anchor}")
            self.set_anchors(path, first.members, taken)

    def target(self, owner, code):
        """The page, with the anchor, of a header, of a page, or of a name as it is understood inside `owner`."""
        if code in self.pages or f"include/{code}" in self.headers:
            return code if code in self.pages else f"include/{code}.md"
        name = code.removesuffix("()").removeprefix("kolo::")
        if code.endswith(")") or "::" in code:
            while owner:
                if found := self.targets.get(f"{owner}::{name}"):
                    return found
                owner = owner.rpartition("::")[0]
        return self.targets.get(name) or self.targets.get(name.rpartition("::")[0])

    def code(self, path, owner, code):
        target = None if code.startswith("`") or code == owner else self.target(owner, code)
        if target:
            return f"[`{code}`]({'../' * path.count('/')}{target})"
        return code if code.startswith("`") or code.isalpha() else f"`{code}`"

    def prose(self, path, owner, comment):
        """A comment as Markdown. Its indented lines are code, or a table."""
        out, inside = [], False
        for line in comment + [""]:
            preformatted = line.startswith("  ")
            if preformatted and not inside:
                out += ["", "```cpp" if re.search(r"[;{]\s*(//.*)?$", line) else "```text"]
            elif inside and not preformatted:
                out += ["```", ""]
            inside = preformatted
            if preformatted:
                out.append(line[2:])
                continue
            if line.startswith("- ") and out and out[-1] and not out[-1].startswith("- "):
                out.append("")
            parts, start = [], 0
            for match in CODE.finditer(line):
                parts += [escaped(line[start:match.start()]), self.code(path, owner, match[0])]
                start = match.end()
            out.append("".join(parts) + escaped(line[start:]))
        return "\n".join(out).strip("\n")

    def group(self, path, group, level):
        first = group[0]
        if first.kind == "field" and first.owner:
            text = self.prose(path, first.owner, first.comment).replace("\n", "\n    ")
            yield f"-   `{first.signature.removesuffix(';')}`{{ #{first.anchor} }}{text and f'  {chr(10)}    '}{text}"
            return
        if first.anchor:
            names = list(dict.fromkeys([first.full_name] + [item.name for item in group if item.name != first.name]))
            label = ", ".join([first.name] + names[1:])
            heading = ", ".join(f"`{name}`" for name in names)
            yield f'\n{"#" * level} {heading} {{ #{first.anchor} data-toc-label="{label}" }}\n'
        signatures = []
        for item, following in zip(group, group[1:] + [first]):
            signatures += [item.signature] if item.signature else []
            text = self.prose(path, item.full_name if item.kind == "type" else item.owner, item.comment)
            if item.kind == "function":
                text = text[:1].upper() + text[1:]
            if signatures and (text or following.comment or following is first):
                yield "\n".join(["```{ .cpp .signature }", *signatures, "```"])
                signatures = []
            yield f"\n{text}\n"

    def body(self, path, items, level):
        for group in groups(items):
            yield from self.group(path, group, level)
            yield from self.body(path, group[0].members, 3)

    def page(self, path):
        name, text = path.removeprefix("include/"), self.headers[path]
        space = "::".join(re.findall(r"^namespace (?:KOLO_EXPORT )?(\w+)", text, re.M))
        parts = [f"# {name}", f'`#include "{name}"`' + (f", namespace `{space}`" if space else ""),
                 self.prose(path, "", self.heads[path])]
        if not self.items[path]:
            parts.append("\n".join(f"- {self.code(path, '', other)}" for other in re.findall(r'#include "(.*)"', text)))
        return "\n\n".join(parts) + "\n" + "\n".join(self.body(path, self.items[path], 2)) + "\n"
