// Writes checkpoints of steps 100, 200 and 300 into a folder: write_checkpoints FOLDER. That of step 300 is not finite.
#include <cstdio>
#include <exception>

#include "kolo/checkpoint.h"

int main(int argc, char** argv) {
  namespace checkpoint = kolo::checkpoint;
  if (argc != 2) return 2;
  try {
    checkpoint::CheckpointDirectory directory(argv[1], {.keep = 0});
    for (const int step : {100, 200, 300}) {
      directory.save({.step = step, .finite = step != 300}, [](const std::filesystem::path& folder) {
        (void)checkpoint::write_file(folder / "model.safetensors", std::string_view("a model"));
      });
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_checkpoints: %s\n", error.what());
    return 1;
  }
  return 0;
}
