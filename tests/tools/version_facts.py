#!/usr/bin/env python3
"""What `kolo --version` says, against CMake's cache and the headers of this machine: version_facts.py KOLO BUILD SOURCE."""
import os
import platform
import re
import subprocess
import sys


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def read_cache(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as lines:
        return dict(re.findall(r"^([\w-]+):[A-Z]+=(.*)$", lines.read(), re.M))


class Headers:
    """Macros, as the compiler of the build sees them."""

    def __init__(self, cache):
        self.compiler = cache["CMAKE_CXX_COMPILER"]
        folders = [cache.get(name, "") for name in ("JPEG_INCLUDE_DIR", "PNG_PNG_INCLUDE_DIR", "MPI_CXX_HEADER_DIR")]
        folders += cache.get("MPI_CXX_COMPILER_INCLUDE_DIRS", "").split(";")
        if not cache.get("KOLO_NCCL_INCLUDE", "-NOTFOUND").endswith("-NOTFOUND"):
            folders += [cache["KOLO_NCCL_INCLUDE"], cache["KOLO_CUDA_INCLUDE"]]
        self.folders = [f"-I{folder}" for folder in folders if folder and not folder.startswith("/usr/include")]

    def macros(self, *headers):
        text = "".join(f"#include <{header}>\n" for header in headers)
        said = output(self.compiler, "-x", "c++", "-E", "-dM", *self.folders, "-", input=text)
        return {name: value.strip('"') for name, value in re.findall(r"^#define (\w+) (.*)$", said, re.M)}


def expected_mpi(cache, headers):
    if cache["KOLO_WITH_MPI"] == "OFF" or not cache.get("MPI_CXX_HEADER_DIR"):
        return "not built"
    macros = headers.macros("mpi.h")
    if "OMPI_MAJOR_VERSION" in macros:
        return "Open MPI v" + ".".join(macros[f"OMPI_{part}_VERSION"] for part in ("MAJOR", "MINOR", "RELEASE"))
    return macros["MPICH_VERSION"]


def expected_cuda(cache):
    if cache["KOLO_WITH_CUDA"] == "OFF" or "KOLO_NVCC_WORKS_AS" not in cache:
        return "not built"
    release = re.search(r"release ([\d.]+)", output(cache["KOLO_NVCC"], "--version"))[1]
    return " ".join([release] + ["sm_" + each for each in cache["KOLO_CUDA_ARCHITECTURES"].split(";")])


def expected_nccl(cache, headers):
    if cache["KOLO_WITH_NCCL"] == "OFF":
        return "not built"
    if cache.get("KOLO_NCCL_INCLUDE", "-NOTFOUND").endswith("-NOTFOUND"):
        return "built without its header"
    code = int(headers.macros("nccl.h")["NCCL_VERSION_CODE"])
    return f"header {code // 10000}.{code // 100 % 100}.{code % 100}"


def expected_jpeg(headers):
    macros = headers.macros("cstdio", "jpeglib.h")
    turbo = macros.get("LIBJPEG_TURBO_VERSION")
    return f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {macros['JPEG_LIB_VERSION']}"


def expected_facts(cache):
    headers = Headers(cache)
    build_type = cache["CMAKE_BUILD_TYPE"]
    flags = f"{cache['CMAKE_CXX_FLAGS']} {cache.get('CMAKE_CXX_FLAGS_' + build_type.upper(), '')}".strip()
    library = headers.macros("string")
    x86 = platform.machine() in ("x86_64", "AMD64")
    facts = {
        "kolo": cache["CMAKE_PROJECT_VERSION"],
        "build_type": build_type,
        "cxx_flags": flags,
        "sanitizers": cache["KOLO_SANITIZE"] or "none",
        "cpu_kernels": "portable avx2 avx512" if x86 else "portable",
        "cuda": expected_cuda(cache),
        "nccl": expected_nccl(cache, headers),
        "jpeg": expected_jpeg(headers),
        "png": "libpng " + headers.macros("png.h")["PNG_LIBPNG_VER_STRING"],
        "mpi": expected_mpi(cache, headers),
    }
    if "_GLIBCXX_RELEASE" in library:
        facts["standard_library"] = (
            f"libstdc++ {library['_GLIBCXX_RELEASE']} cxx11_abi={library['_GLIBCXX_USE_CXX11_ABI']}"
        )
    return facts


def is_commit(text, source):
    """Whether `text` is a commit of the checkout; a build may be older than the newest commit. A tarball knows none."""
    def git(*words):
        return subprocess.run(["git", "-C", source, *words], check=False, capture_output=True).returncode == 0

    if not os.path.exists(os.path.join(source, ".git")) or not git("rev-parse", "HEAD"):
        return text == "unknown"
    return re.fullmatch(r"[0-9a-f]{40,64}", text) is not None and git("cat-file", "-e", f"{text}^{{commit}}")


def main(kolo, build, source):
    cache = read_cache(build)
    said = dict(line.split(" ", 1) for line in output(kolo, "--version").splitlines())
    problems = []
    for key, expected in expected_facts(cache).items():
        value = said.pop(key, "")
        if not (expected in value if key == "mpi" else expected == value):
            problems.append(f"{key}: '{value}', expected '{expected}'")
    if not is_commit(said.pop("commit", ""), source):
        problems.append("commit: none of this checkout")
    name, _, version = said.pop("compiler", "").partition(" ")
    if not name or version not in output(cache["CMAKE_CXX_COMPILER"], "--version"):
        problems.append(f"compiler: '{name} {version}' is not {cache['CMAKE_CXX_COMPILER']}")
    said.pop("standard_library", None)
    problems += [f"{key}: not expected" for key in said]
    print("\n".join(problems) or "all facts are right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
