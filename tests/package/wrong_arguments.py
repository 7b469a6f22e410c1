#!/usr/bin/env python3
"""wrong_arguments.py COMPILER SOURCE LIBTORCH: arguments of a wrong kind give one sentence that says what to pass."""
import pathlib
import subprocess
import sys

PROGRAM = """
#include <torch/nn.h>
#include <torch/optim.h>
#include "kolo/torch/torch.h"
void f(kolo::Context& context, torch::nn::Sequential model, torch::optim::SGD& sgd) {{ {code} }}
"""
CASES = [
    ("kolo::DistributedOptimizer optimizer(context, sgd, model);", None),
    ("kolo::DistributedOptimizer optimizer(context, model, sgd);", "the arguments are (context, optimizer, model)"),
    ("kolo::DistributedOptimizer optimizer(context, sgd, 3);", "pass the model as a torch::nn::Module"),
    ("kolo::broadcast_parameters(context, 3);", "pass the model as a torch::nn::Module"),
]


def main():
    compiler, source, torch = sys.argv[1:]
    include = pathlib.Path(torch) / "include"
    command = [compiler, "-std=c++20", "-fsyntax-only", "-D_GLIBCXX_USE_CXX11_ABI=1", "-x", "c++", "-",
               "-I", str(pathlib.Path(source) / "include"), "-isystem", str(include),
               "-isystem", str(include / "torch/csrc/api/include")]
    for code, expected in CASES:
        done = subprocess.run(command, input=PROGRAM.format(code=code), capture_output=True, text=True)
        if expected is None and done.returncode != 0:
            sys.exit(f"{code}\n{done.stderr}")
        if expected is not None and (done.returncode == 0 or expected not in done.stderr):
            sys.exit(f"{code}\ndoes not say: {expected}\n{done.stderr}")
    print(f"{len(CASES)} programs")


if __name__ == "__main__":
    main()
