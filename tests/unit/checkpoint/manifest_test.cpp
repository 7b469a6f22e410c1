// Manifests that must be refused. checkpoint_directory_test.cpp reads valid manifests back; tests/fuzz tries random
// ones.
#include "checkpoint/manifest.h"

#include <gmock/gmock.h>

#include <string>

#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Manifest with_file(const std::string& name) {
  return {{200, 3, {{"arch", "resnet50"}}}, {{name, 12, 0x0123456789abcdef}}};
}

TEST(Manifest, RoundTripIsIdentical) {
  const std::string text = to_json(with_file("model.safetensors"));
  EXPECT_EQ(to_json(parse_manifest(text, "m")), text);
}

TEST(Manifest, FileOutsideOfFolderIsRefused) {
  for (const std::string name : {"../model", "/etc/passwd", "a/b", "..", ".", ""}) {
    const std::string text = to_json(with_file(name));  // with a checksum that holds
    EXPECT_THAT([&] { (void)parse_manifest(text, "m"); },
                ThrowsMessage<BackendError>(HasSubstr("m is damaged: it lists a file outside the checkpoint")))
        << name;
  }
}

TEST(Manifest, InvalidUtf8InMetadataIsReplaced) {
  Manifest manifest = with_file("model.safetensors");
  manifest.info.metadata["data"] = "d\xe9/x";
  EXPECT_EQ(parse_manifest(to_json(manifest), "m").info.metadata.at("data"), "d\xef\xbf\xbd/x");
}

TEST(Manifest, InvalidUtf8InNamesIsUsageError) {
  EXPECT_THAT([] { (void)to_json(with_file("m\xe9")); }, ThrowsMessage<UsageError>(HasSubstr("must be UTF-8")));
  Manifest manifest = with_file("model.safetensors");
  manifest.info.metadata["\xe9"] = "x";
  EXPECT_THAT([&] { (void)to_json(manifest); }, ThrowsMessage<UsageError>(HasSubstr("must be UTF-8")));
}

TEST(Manifest, FiniteFlagIsReadBack) {
  Manifest manifest = with_file("model.safetensors");
  EXPECT_TRUE(parse_manifest(to_json(manifest), "m").info.finite);
  manifest.info.finite = false;
  EXPECT_FALSE(parse_manifest(to_json(manifest), "m").info.finite);
}

TEST(Manifest, DeepNestingIsRefused) {
  constexpr std::size_t kDeep = 200'000;
  const std::string text = "{\"metadata\":" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}";
  EXPECT_THAT([&] { (void)parse_manifest(text, "m"); },
              ThrowsMessage<BackendError>(HasSubstr("m is damaged: its JSON is nested too deeply")));
}

}  // namespace
}  // namespace kolo::checkpoint
