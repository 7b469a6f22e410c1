// load_plugin PLUGIN [stays] loads a plug-in that uses kolo, runs its main() and closes it. The plug-in must then be
// unloaded. With "stays" (the plug-in contains an archive of kolo) it must stay loaded.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** words) {
  void* const plugin = count >= 2 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (plugin == nullptr) {
    std::fprintf(stderr, "load_plugin PLUGIN [stays]: %s\n", count >= 2 ? dlerror() : "no argument");
    return 2;
  }
  const auto run = reinterpret_cast<int (*)()>(dlsym(plugin, "main"));
  const int status = run == nullptr ? 2 : run();
  const bool closed = dlclose(plugin) == 0;
  const bool is_loaded = dlopen(words[1], RTLD_NOW | RTLD_NOLOAD) != nullptr;
  if (!closed || is_loaded != (count == 3)) {
    std::fprintf(stderr, "after dlclose() %s is %s\n", words[1], is_loaded ? "loaded" : "not loaded");
    return 2;
  }
  return status;
}
