// What the default tests run in place of libFuzzer: every file of the corpus, then so many mutations of them, from one
// seed. The input at which a process ends is left in replay-failure.bin: a new file for the corpus.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kLongest = 4096;

const Bytes* current = nullptr;  // for the handler, which cannot be given anything

void keep(int signal) {
  std::FILE* file = std::fopen("replay-failure.bin", "wb");
  if (file != nullptr && current != nullptr) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
    std::fputs("the input is in replay-failure.bin\n", stderr);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Bytes& input) {
  current = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current = nullptr;
}

std::vector<Bytes> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<Bytes>& corpus, std::uint32_t seed) : corpus_(corpus), random_(seed) {}

  Bytes next() {
    Bytes bytes = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(bytes);
    if (bytes.size() > kLongest) bytes.resize(kLongest);
    return bytes;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  void change(Bytes& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:  // another byte
        if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(random_());
        break;
      case 1:  // another bit
        if (at < bytes.size()) bytes[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 2:  // cut off
        bytes.resize(at);
        break;
      case 3:  // one more
        bytes.insert(place, static_cast<std::uint8_t>(random_()));
        break;
      default: {  // a piece of another one
        const Bytes& other = corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size() + 1);
        const std::size_t to = from + below(other.size() - from + 1);
        bytes.insert(place, other.begin() + static_cast<std::ptrdiff_t>(from),
                     other.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }

  const std::vector<Bytes>& corpus_;
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("replay FOLDER MUTATIONS [SEED]\n", stderr);
    return 2;
  }
  std::signal(SIGABRT, keep);
  std::signal(SIGSEGV, keep);
  auto corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s holds no input\n", argv[1]);
    return 1;
  }
  for (const Bytes& input : corpus) run(input);
  const auto mutations = std::strtoul(argv[2], nullptr, 10);
  Mutator mutator(corpus, argc > 3 ? static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)) : 1);
  for (unsigned long i = 0; i < mutations; ++i) run(mutator.next());
  std::printf("%zu inputs of the corpus and %lu mutations\n", corpus.size(), mutations);
  return 0;
}
