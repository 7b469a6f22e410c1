// A program that reads images: writes a small folder of JPEG files and loads a batch of it.
#include <kolo/data/loader.h>
#include <kolo/data/synth.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const std::filesystem::path root = argv[1];
    kolo::data::write_synthetic_folder(root, {.classes = 2, .images = 4, .val_images = 2, .image_size = 32});
    kolo::data::LoaderOptions options;
    options.transform.image_size = 24;
    options.batch_size = 4;
    kolo::data::Loader loader(std::make_shared<kolo::data::ImageFolder>(root / "train"), options);
    loader.start_epoch(0, {0, 1, 2, 3});
    const auto batch = loader.next();
    std::printf("%lld images\n", static_cast<long long>(batch->count));
    return batch->count == 4 && loader.report().broken.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
