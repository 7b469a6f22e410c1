#include "kolo/data/fingerprint.h"

#include <gtest/gtest.h>

#include <utility>

#include "support/temporary_folder.h"

namespace kolo::data {
namespace {

// Names and labels without files.
class Names final : public Dataset {
 public:
  using Samples = std::vector<std::pair<std::string, std::int64_t>>;
  Names(std::vector<std::string> class_names, Samples samples)
      : class_names_(std::move(class_names)), samples_(std::move(samples)) {}
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  [[nodiscard]] std::int64_t classes() const override { return static_cast<std::int64_t>(class_names_.size()); }
  std::span<const std::byte> bytes(std::int64_t, std::vector<std::byte>&) const override { return {}; }
  [[nodiscard]] std::int64_t label(std::int64_t i) const override {
    return samples_[static_cast<std::size_t>(i)].second;
  }
  [[nodiscard]] std::string name(std::int64_t i) const override { return samples_[static_cast<std::size_t>(i)].first; }
  [[nodiscard]] std::string class_name(std::int64_t i) const override {
    return class_names_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<std::string> class_names_;
  Samples samples_;
};

TEST(Fingerprint, ChangesWithNamesLabelsAndOrder) {
  const Names::Samples samples{{"a/1", 0}, {"a/2", 0}, {"b/1", 1}};
  const Fingerprint first = fingerprint(Names({"a", "b"}, samples));
  EXPECT_EQ(first, fingerprint(Names({"a", "b"}, samples)));
  EXPECT_EQ(first.classes, 2);
  EXPECT_EQ(first.samples, 3);
  EXPECT_NE(first, fingerprint(Names({"a", "c"}, samples))) << "a class renamed";
  EXPECT_NE(first, fingerprint(Names({"b", "a"}, samples))) << "classes in another order";
  EXPECT_NE(first, fingerprint(Names({"a", "b", "c"}, samples))) << "an additional class without samples";
  EXPECT_NE(first, fingerprint(Names({"a", "b"}, {{"a/1", 0}, {"a/2", 0}}))) << "a sample less";
  EXPECT_NE(first, fingerprint(Names({"a", "b"}, {{"a/1", 0}, {"a/3", 0}, {"b/1", 1}}))) << "a sample renamed";
  EXPECT_NE(first, fingerprint(Names({"a", "b"}, {{"a/2", 0}, {"a/1", 0}, {"b/1", 1}}))) << "another order";
  EXPECT_NE(first, fingerprint(Names({"a", "b"}, {{"a/1", 0}, {"a/2", 1}, {"b/1", 1}}))) << "another label";
  EXPECT_NE(fingerprint(Names({"ab", "c"}, {})), fingerprint(Names({"a", "bc"}, {}))) << "where a name ends";
}

TEST(Fingerprint, IgnoresRootFolderAndContents) {
  const test::TemporaryFolder one;
  const test::TemporaryFolder other;
  for (const char* name : {"a/1.jpg", "b/sub/2.png"}) {
    one.write(name, "1");
    other.write(name, "something else");
  }
  EXPECT_EQ(fingerprint(ImageFolder(one.path())), fingerprint(ImageFolder(other.path())));
  std::filesystem::rename(other.path() / "b/sub", other.path() / "b/sup");
  EXPECT_NE(fingerprint(ImageFolder(one.path())), fingerprint(ImageFolder(other.path())));
}

}  // namespace
}  // namespace kolo::data
