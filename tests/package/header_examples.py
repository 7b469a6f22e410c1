#!/usr/bin/env python3
"""header_examples.py COMPILER SOURCE [LIBTORCH]: compiles the example at the head of each public header.

An example is the indented part of the first comment: lines that begin with `//   `. Each becomes a function; GIVEN has
the variables that it takes for granted. A header without an example is an error."""
import pathlib
import re
import subprocess
import sys

# By header, relative to include/kolo: declarations in front of the example.
CONTEXT = "kolo::Context& context = *static_cast<kolo::Context*>(nullptr);"
MODEL = "torch::nn::Sequential model; " + CONTEXT
GIVEN = {
    "context.h": "const auto train = [](kolo::Context&) {};",
    "error.h": "kolo::Context* context = nullptr; const auto train = [](kolo::Context&) {};",
    "types.h": CONTEXT,
    "work.h": CONTEXT + " std::vector<float> values(3);",
    "distributed_sampler.h": CONTEXT + " std::uint64_t epoch = 0; const auto train = [](const std::vector<std::int64_t>&) {};",
    "checkpoint.h": CONTEXT + " std::vector<kolo::checkpoint::TensorView> tensors;",
    "mpi.h": "MPI_Comm comm; int color = 0;",
    "spi/communicator.h": CONTEXT + " std::vector<float> values(3);",
    "spi/engine.h": CONTEXT,
    "spi/gradient_reducer.h": CONTEXT + " float gradient[512]; const auto use = [](std::span<std::byte>) {};",
    "spi/round_notices.h": CONTEXT + " kolo::Engine& engine = context.engine(); const kolo::RoundNotices::Bits kStop = 1; "
                           "struct { void step() {} } optimizer;",
    "spi/step_recorder.h": CONTEXT + " std::uint64_t pass_of_this_gradient = 0; kolo::Stream stream; "
                           "auto reducer = context.engine().make_reducer({}, {}); const auto step = [] {};",
    "spi/optimizer_step.h": CONTEXT + " std::vector<kolo::StepTensor> tensors; kolo::Stream stream;",
    "data/fingerprint.h": CONTEXT + " const auto dataset = std::make_shared<kolo::data::ImageFolder>(\"images\");",
    "data/loader.h": "std::filesystem::path root; kolo::data::LoaderOptions options; std::uint64_t epoch = 0; "
                     "kolo::DistributedSampler sampler({}); const auto train = [](const kolo::data::Batch&) {}; "
                     "const auto report = [](const kolo::data::LoaderReport&) {};",
    "data/normalize_images.h": CONTEXT + " torch::Tensor bytes; torch::Device device(torch::kCPU);",
    "torch/torch.h": MODEL + " torch::optim::SGD sgd(model->parameters(), 0.1);",
    "torch/broadcast.h": MODEL + " torch::optim::SGD sgd(model->parameters(), 0.1);",
    "torch/checkpointer.h": "kolo::Context* context = nullptr; torch::nn::Sequential model; kolo::DistributedSampler sampler({}); "
                            "torch::optim::SGD optimizer(model->parameters(), 0.1); std::int64_t steps = 1; "
                            "const auto train_step = [] {};",
    "torch/distributed_optimizer.h": MODEL + " const auto loss = [](torch::nn::Sequential&) { return torch::Tensor(); };",
    "torch/fused_optimizers.h": MODEL,
    "torch/grad_scaler.h": MODEL + " torch::Tensor loss; torch::optim::SGD optimizer(model->parameters(), 0.1);",
    "torch/ops.h": CONTEXT + " torch::Tensor loss, count, predictions;",
    "torch/cuda.h": MODEL,
}
INCLUDES = ["cstdio", "filesystem", "memory", "span", "string", "vector"]
TORCH_INCLUDES = ["torch/nn.h", "torch/optim.h", "torch/types.h"]


def example(text):
    """The first run of lines that begin with `//   ` in the first comment, without that."""
    lines = []
    for line in text.splitlines()[1:]:
        if line.startswith("//   "):
            lines.append(line[5:])
        elif lines or not line.startswith("//"):
            break
    return "\n".join(lines)


def program(headers, root, system):
    source = "".join(f"#include <{name}>\n" for name in INCLUDES + system)
    source += "".join(f'#include "kolo/{name}"\n' for name in headers)
    for name in headers:
        code = example((root / name).read_text())
        if not code:
            sys.exit(f"include/kolo/{name}: no example in its first comment")
        function = "example_of_" + re.sub(r"\W", "_", name)
        source += f'void {function}() {{\n{GIVEN.get(name, "")}\n#line 1 "{name}"\n{code}\n}}\n'
    return source


def compile_program(command, source, what):
    done = subprocess.run(command + ["-std=c++20", "-fsyntax-only", "-Wno-unused", "-x", "c++", "-"], input=source, text=True)
    if done.returncode != 0:
        sys.exit(f"the examples of {what} do not compile")


def main():
    compiler, source, *torch = sys.argv[1:]
    root = pathlib.Path(source) / "include" / "kolo"
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.h") if path.parent.name != "detail")
    with_torch = [name for name in names if "<torch/" in (root / name).read_text() or "<ATen/" in (root / name).read_text()
                  or name.startswith("torch/")]
    plain = [name for name in names if name not in with_torch]
    command = [compiler, "-I", str(root.parent)]
    mpi = subprocess.run(["mpicxx", "--showme:compile"], capture_output=True, text=True) if "mpi.h" in plain else None
    compile_program(command + mpi.stdout.split(), program(plain, root, []), "the headers without LibTorch")
    if torch:
        include = pathlib.Path(torch[0]) / "include"
        command += ["-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include"),
                    "-D_GLIBCXX_USE_CXX11_ABI=1"]
        compile_program(command, program(with_torch, root, TORCH_INCLUDES), "the headers with LibTorch")
    print(f"{len(plain)} examples without LibTorch, {len(with_torch) if torch else 0} with it")


if __name__ == "__main__":
    main()
