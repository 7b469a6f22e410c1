"""Reads the declarations of a header, with their comments, in their order.

It knows C++ as clang-format leaves it: comments stand in lines of their own above a declaration, or behind it.
"""
import dataclasses
import re

TYPE = re.compile(r"(?:template <[^{;]*> )?(class|struct) (\w+)[^;(]*\{")
# Forward declarations, friends, and destructors of interfaces.
LEFT_OUT = re.compile(r"(class|struct) \w+;|friend |virtual ~\w+\(\) = default;$")


@dataclasses.dataclass
class Item:
    kind: str  # type, enum, function, field (also constants and aliases); note: a comment that belongs to no declaration
    name: str
    owner: str  # the type around it, "" outside of types
    signature: str
    comment: list
    follows: bool = False  # without an empty line behind the item before
    anchor: str = ""
    members: list = dataclasses.field(default_factory=list)

    @property
    def full_name(self):
        return f"{self.owner}::{self.name}" if self.owner else self.name


def end_of_declaration(text):
    """Where the declaration at the beginning of `text` ends: behind its ';', or behind the '}' of a function's body."""
    depth = 0
    for match in re.finditer(r'//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[(){}\[\];]', text):
        found = match[0]
        depth += (found in "({[") - (found in ")}]")
        if depth == 0 and (found == ";" or found == "}" and re.match(r"\n|  //", text[match.end():])):
            return match.end()
    return len(text)


def without_body(text):
    """A function that is defined here, without its body and the initialisers of a constructor."""
    depth = 0
    for match in re.finditer(r"[(){}\[\]]|(?<!:):(?!:)", text):
        if depth == 0 and match[0] in "{:":
            return text[:match.start()].rstrip() + ";"
        depth += (match[0] in "({[") - (match[0] in ")}]")
    return text


def wrapped(signature, width=76):
    """On one line, or on several that end behind a parameter."""
    template, _, rest = signature.rpartition(">\n") if signature.startswith("template") else ("", "", signature)
    lines, start, parentheses, angles = [""], 0, 0, 0
    rest = re.sub(r"\s*\n\s*", " ", rest)
    for position, character in enumerate(rest + "\0"):
        parentheses += (character == "(") - (character == ")")
        angles += (character == "<") - (character == ">")
        if character == "\0" or character == "," and parentheses == 1 and angles == 0:
            part = rest[start:position + 1]
            if lines[-1] and len(lines[-1] + part) > width:
                lines.append("   ")
            lines[-1] += part
            start = position + 1
    return (template + ">\n" if template else "") + "\n".join(lines)


def declaration(text, owner, comment):
    """The item of one declaration, or None."""
    text = re.sub(r"\[\[\w+\]\] ", "", text)
    if LEFT_OUT.match(" ".join(text.split())) and not comment:
        return None
    if match := TYPE.match(text):
        item = Item("type", match[2], owner, wrapped(text[:match.end() - 1].strip()), comment)
        item.members = declarations(text[match.end():text.rindex("}")], item.full_name, match[1] == "class")
        return item
    if match := re.match(r"enum (?:class |struct )?(\w+)", text):
        return Item("enum", match[1], owner, text, comment)
    plain, before = text.replace("decltype(auto)", "auto"), None
    while plain != before:  # arguments of templates hold parentheses and '='
        plain, before = re.sub(r"<[^<>]*>", "", plain), plain
    match = re.match(r"[^={(]*?(operator\W+|~?\w+)\s*\(", plain)
    if match and not plain.startswith("using "):
        return Item("function", match[1], owner, wrapped(text if text.endswith(";") else without_body(text)), comment)
    match = re.match(r"using ([\w:]+)|[^={;]*?(\w+)\s*[={;\[]", plain)
    return Item("field", match[1] or match[2], owner, wrapped(text), comment)


def declarations(text, owner="", private=False):
    """The public and protected declarations of a namespace or of a type."""
    lines = text.split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.endswith(":")), default=0)
    text = "\n".join(line.strip() if line[:indent].strip() else line[indent:] for line in lines) + "\n"
    items, comment, position, follows = [], [], 0, False

    def note(line):
        if not private:
            items.append(Item("note", "", owner, "", line))

    while position < len(text):
        line = text[position:text.index("\n", position)]
        access = re.fullmatch(r"(public|private|protected):", line)
        if line.startswith("//"):
            comment.append(line[3:])
        elif not line.strip() or access or re.match(r"#|namespace|\}", line):
            if comment:
                note([line.strip("- ") for line in comment])
            if access:
                private = access[1] == "private"
            if access and access[1] == "protected":
                note(["Protected, for subclasses:"])
            comment, follows = [], False
        else:
            end = position + end_of_declaration(text[position:])
            behind = text[end:text.index("\n", end)].strip()
            if comment and comment[-1].endswith(":"):  # the title of several declarations
                note(comment)
                comment = []
            found = None if private else declaration(text[position:end], owner, comment + ([behind[3:]] if behind else []))
            if found:
                found.follows = follows
                items.append(found)
            comment, follows = [], found is not None
            line = text[position:text.index("\n", end)]
        position += len(line) + 1
    return items
