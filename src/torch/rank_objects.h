#pragma once
// What each rank has of its own: the state of the random generators, and objects of the program.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

class RankObjects {
 public:
  using Save = std::function<void(torch::serialize::OutputArchive&)>;
  using Load = std::function<void(torch::serialize::InputArchive&)>;

  // Throws UsageError if the name is taken.
  void add(std::string name, Save save, Load load);
  // "loader cache "
  [[nodiscard]] std::string names() const;
  // Includes the generator of this GPU from now on.
  void use_gpu(c10::Device device) { gpu_ = device; }

  // An archive as torch::save() writes it.
  [[nodiscard]] std::string save() const;
  // Throws UsageError if an object is missing. A generator that was not saved keeps its state.
  void load(const std::string& archive) const;

 private:
  struct Object {
    std::string name;
    Save save;
    Load load;
  };
  std::vector<Object> objects_;
  std::optional<c10::Device> gpu_;
};

}  // namespace kolo
