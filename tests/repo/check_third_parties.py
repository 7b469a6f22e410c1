#!/usr/bin/env python3
"""No file sees LibTorch together with spdlog or protobuf, directly or through kolo's own headers.

LibTorch's include folder carries its own fmt and protobuf headers, of other versions than the system's.
"""
import sys

from common import includes, main, without_comments

TORCH = ("torch/", "ATen/", "c10/")
SYSTEM = ("spdlog/", "google/protobuf/", "fmt/")


def check(project):
    texts = {}

    def seen_from(path, seen):
        """Library headers that `path` includes, through our own headers too."""
        if path in seen:
            return set()
        seen.add(path)
        if path not in texts:
            texts[path] = [header for _, header in includes(without_comments(project.text(path)))]
        found = set()
        for header in texts[path]:
            folder = path.rsplit("/", 1)[0]
            own = [f"include/{header}", f"src/{header}", header, f"{folder}/{header}"]
            inner = next((name for name in own if (project.root / name).is_file()), None)
            if inner:
                found |= seen_from(inner, seen)
            else:
                found.add("google/protobuf/" if header.endswith(".pb.h") else header)
        return found

    for path in project.code("include", "src", "kernels", "tools", "examples", "bench", "tests"):
        headers = seen_from(path, set())
        torch = sorted(header for header in headers if header.startswith(TORCH))
        system = sorted(header for header in headers if header.startswith(SYSTEM))
        if torch and system:
            yield f"{path}: sees both {torch[0]} and {system[0]}"


BAD = [
    ({"src/torch/a.cpp": "#include <torch/types.h>\n#include <spdlog/spdlog.h>\n"}, "sees both"),
    (
        {"src/torch/a.cpp": '#include <ATen/ATen.h>\n#include "engine/b.h"\n', "src/engine/b.h": '#include "engine/c.pb.h"\n'},
        "src/torch/a.cpp: sees both ATen/ATen.h and google/protobuf/",
    ),
]
GOOD = {"src/torch/a.cpp": "#include <torch/types.h>\n// #include <spdlog/spdlog.h>\n", "src/base/b.cpp": "#include <spdlog/x.h>\n"}
if __name__ == "__main__":
    sys.exit(main(check, BAD, GOOD))
