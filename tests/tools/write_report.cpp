// Writes the report of results that were made by hand or measured before: write_report RESULTS... FILE. With two
// results, the page that compares them.
#include <cstdio>
#include <fstream>

#include "scaling_report.h"
#include "scaling_results.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  try {
    const auto read = [](const char* path) { return nlohmann::ordered_json::parse(std::ifstream(path)); };
    kolo::tools::write_file(argv[argc - 1], argc == 3 ? kolo::tools::report_page(read(argv[1]))
                                                      : kolo::tools::compare_page(read(argv[1]), read(argv[2])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_report: %s\n", error.what());
    return 1;
  }
  return 0;
}
