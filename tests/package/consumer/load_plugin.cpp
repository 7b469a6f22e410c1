// A program that does not know kolo: runs main() of a plug-in that uses it, and closes the plug-in.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** words) {
  void* const plugin = count == 2 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (plugin == nullptr) {
    std::fprintf(stderr, "load_plugin PLUGIN: %s\n", count == 2 ? dlerror() : "one argument");
    return 2;
  }
  const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "main"));
  const int status = run == nullptr ? 2 : run();
  return dlclose(plugin) == 0 ? status : 2;
}
