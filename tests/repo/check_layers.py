#!/usr/bin/env python3
"""Every #include and every CMake dependency against layers.txt: modules, libraries, and no circle among the modules.
Public headers export their names, and only they do."""
import re
import sys

from common import includes, main, without_comments


# Public headers for LibTorch programs outside include/kolo/torch.
TORCH_HEADERS = ("include/kolo/spi/fused_optimizer.h", "include/kolo/data/normalize_images.h")


def read_layers(text):
    """{'modules': {name: set}, 'libraries': {prefix: set}}"""
    tables, table = {}, None
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            table = tables.setdefault(line.strip("[]"), {})
        elif line:
            key, _, values = line.partition(":")
            table[key.strip()] = set(values.split())
    return tables


def module_of(path):
    """The module that a file of the project belongs to, or None."""
    parts = path.split("/")
    if path.startswith("include/kolo/torch/") or path in TORCH_HEADERS:
        return "torch-public"
    if path.startswith("include/kolo/"):
        return "public"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in ("kernels", "tools", "examples", "bench") and len(parts) > 1 else None


def target_of(header, modules):
    """The module that an included header belongs to, or None for the file's own folder and for libraries."""
    if header.startswith("kolo/"):
        return module_of("include/" + header)
    first = header.split("/")[0] if "/" in header else ""
    return first if first in modules or first == "tests" else None


def cmake_depends(text):
    """(module, what it DEPENDS on) of every kolo_module() call."""
    for call in re.findall(r"kolo_module\(([^)]*)\)", re.sub(r"#[^\n]*", "", text)):
        words = call.split()
        depends, taking = [], False
        for word in words[1:]:
            if word in ("SOURCES", "DEPENDS", "LINK"):
                taking = word == "DEPENDS"
            elif taking:
                depends.append(word)
        yield words[0], depends


def circle(modules):
    """One circle of modules as text, or None."""
    done = set()

    def visit(name, path):
        if name in path:
            return " -> ".join(path[path.index(name):] + [name])
        if name in done:
            return None
        for other in sorted(modules.get(name, ())):
            found = visit(other, path + [name])
            if found:
                return found
        done.add(name)
        return None

    return next(filter(None, (visit(name, []) for name in modules)), None)


def check(project):
    layers = read_layers(project.text("layers.txt"))
    modules, libraries = layers["modules"], layers["libraries"]
    for name, allowed in modules.items():
        for other in allowed - set(modules):
            yield f"layers.txt: {name} may include {other}, which is no module"
    found = circle(modules)
    if found:
        yield f"layers.txt: circle {found}"
    for folder in project.folders("src"):
        if folder not in modules:
            yield f"src/{folder}: not in layers.txt"
    for path in project.files("src", "kernels", endings="CMakeLists.txt"):
        for module, depends in cmake_depends(project.text(path)):
            for other in depends:
                if other not in modules.get(module, ()):
                    yield f"{path}: {module} must not depend on {other}"
    for path in project.code("include", "src", "kernels", "tools", "examples", "bench"):
        module = module_of(path)
        if module not in modules:
            yield f"{path}: belongs to no module of layers.txt"
            continue
        text = without_comments(project.text(path))
        if module.endswith("public") and re.search(r"^namespace kolo\b", text, re.M):
            yield f"{path}: a public header needs 'namespace KOLO_EXPORT kolo {{'"
        if not module.endswith("public") and "KOLO_EXPORT" in text:
            yield f"{path}: only public headers export names"
        for line, header in includes(text):
            target = target_of(header, modules)
            # "torch/..." is LibTorch's unless src/torch has such a file.
            if target == "torch" and not project.has(f"src/{header}"):
                target = None
            if target and target != module and target not in modules[module]:
                yield f"{path}:{line}: {module} must not include {target} ({header})"
            for prefix, who in libraries.items():
                if target is None and header.startswith(prefix) and module not in who and path not in who:
                    yield f"{path}:{line}: only {', '.join(sorted(who))} may include {header}"


LAYERS = """
[modules]
public:
base: public
engine: public base
torch: public
[libraries]
torch/: torch
mpi.h: include/kolo/mpi.h
"""
BAD = [
    ({"layers.txt": LAYERS, "src/base/a.cpp": '#include "engine/x.h"\n'}, "base must not include engine"),
    ({"layers.txt": LAYERS, "include/kolo/a.h": '#include "base/x.h"\n'}, "public must not include base"),
    ({"layers.txt": LAYERS, "src/engine/a.cpp": "#include <torch/types.h>\n"}, "only torch may include"),
    ({"layers.txt": LAYERS, "src/engine/a.cpp": "#include <mpi.h>\n"}, "only include/kolo/mpi.h may include"),
    ({"layers.txt": LAYERS, "src/engine/a.cpp": '#include "tests/support/x.h"\n'}, "engine must not include tests"),
    (
        {"layers.txt": LAYERS, "src/base/CMakeLists.txt": "kolo_module(base SOURCES a.cpp DEPENDS engine LINK x)\n"},
        "base must not depend on engine",
    ),
    ({"layers.txt": LAYERS, "include/kolo/a.h": "namespace kolo::data {\n"}, "needs 'namespace KOLO_EXPORT kolo {'"),
    ({"layers.txt": LAYERS, "src/base/a.h": "namespace KOLO_EXPORT kolo {\n"}, "only public headers export names"),
    ({"layers.txt": LAYERS, "src/extra/a.cpp": "\n"}, "not in layers.txt"),
    ({"layers.txt": LAYERS.replace("base: public", "base: engine"), "src/base/a.h": "\n"}, "circle"),
]
GOOD = {
    "layers.txt": LAYERS,
    "src/engine/a.cpp": '#include "engine/b.h"\n#include "base/x.h"\n#include <vector>\n// #include "torch/x.h"\n',
    "include/kolo/mpi.h": "#include <mpi.h>\n",
    "src/torch/a.cpp": '#include <torch/types.h>\n#include "kolo/spi/engine.h"\n',
}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
