#!/usr/bin/env python3
"""wrong_arguments.py COMPILER SOURCE LIBTORCH: arguments of a wrong type give one sentence that says what to pass."""
import pathlib
import subprocess
import sys

PROGRAM = """
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include "kolo/torch/torch.h"
"""
FUNCTION = "void f{number}(kolo::Context& context, torch::nn::Sequential model, torch::optim::SGD& sgd) {{ {code} }}\n"
RIGHT = [
    "kolo::DistributedOptimizer optimizer(context, sgd, model);",
    "kolo::DistributedOptimizer optimizer(context, std::ref(sgd), model);",
]
ARGUMENTS, MODEL, NAMES = TEXTS = (["the arguments are (context, optimizer, model)"],
                                   ["pass the model as a torch::nn::Module"], ["parameters need names"])
# Types differ, because a compiler instantiates a template once for each type.
WRONG = [
    ("kolo::DistributedOptimizer optimizer(context, model, sgd);", ARGUMENTS + MODEL),
    ("kolo::DistributedOptimizer optimizer(context, sgd, 3);", MODEL),
    ("kolo::broadcast_parameters(context, 3.5);", MODEL),
    ("kolo::DistributedOptimizer optimizer(context, sgd, model->parameters());", NAMES),
    ("kolo::broadcast_parameters(context, std::vector<int>());", NAMES),
]


def main():
    compiler, source, torch = sys.argv[1:]
    include = pathlib.Path(torch) / "include"
    command = [compiler, "-std=c++20", "-fsyntax-only", "-D_GLIBCXX_USE_CXX11_ABI=1", "-x", "c++", "-",
               "-I", str(pathlib.Path(source) / "include"), "-isystem", str(include),
               "-isystem", str(include / "torch/csrc/api/include")]

    def compile_all(lines):
        functions = [FUNCTION.format(number=number, code=code) for number, code in enumerate(lines)]
        return subprocess.run(command, input=PROGRAM + "".join(functions), capture_output=True, text=True)

    right = compile_all(RIGHT)
    if right.returncode != 0:
        sys.exit(right.stderr)
    wrong = compile_all(code for code, _ in WRONG)
    errors = [line for line in wrong.stderr.splitlines() if "error:" in line]
    for (text,) in TEXTS:
        expected = sum(text in texts for _, texts in WRONG)
        if sum(text in error for error in errors) != expected:
            sys.exit(f"not {expected} times: {text}\n{wrong.stderr}")
    print(f"{len(RIGHT) + len(WRONG)} calls")


if __name__ == "__main__":
    main()
