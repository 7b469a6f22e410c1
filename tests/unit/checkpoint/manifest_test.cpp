// What a manifest must not say. That good ones are read back is seen in checkpoint_directory_test.cpp; the fuzzer of
// tests/fuzz tries the rest.
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

TEST(Manifest, IsReadAsItWasWritten) {
  const std::string text = to_json(with_file("model.safetensors"));
  EXPECT_EQ(to_json(parse_manifest(text, "m")), text);
}

TEST(Manifest, NamesNothingOutsideItsFolder) {
  for (const std::string name : {"../model", "/etc/passwd", "a/b", "..", ".", ""}) {
    const std::string text = to_json(with_file(name));  // with a checksum that holds
    EXPECT_THAT([&] { (void)parse_manifest(text, "m"); },
                ThrowsMessage<BackendError>(HasSubstr("m is damaged: it lists a file outside the checkpoint")))
        << name;
  }
}

TEST(Manifest, MetadataThatIsNotUtf8IsReadBackWithReplacedBytes) {
  Manifest manifest = with_file("model.safetensors");
  manifest.info.metadata["data"] = "d\xe9/x";
  EXPECT_EQ(parse_manifest(to_json(manifest), "m").info.metadata.at("data"), "d\xef\xbf\xbd/x");
}

TEST(Manifest, NamesThatAreNotUtf8AreRefused) {
  EXPECT_THAT([] { (void)to_json(with_file("m\xe9")); }, ThrowsMessage<UsageError>(HasSubstr("must be UTF-8")));
  Manifest manifest = with_file("model.safetensors");
  manifest.info.metadata["\xe9"] = "x";
  EXPECT_THAT([&] { (void)to_json(manifest); }, ThrowsMessage<UsageError>(HasSubstr("must be UTF-8")));
}

TEST(Manifest, NonFiniteWeightsAreReadBack) {
  Manifest manifest = with_file("model.safetensors");
  EXPECT_TRUE(parse_manifest(to_json(manifest), "m").info.finite);
  manifest.info.finite = false;
  EXPECT_FALSE(parse_manifest(to_json(manifest), "m").info.finite);
}

TEST(Manifest, NestedAsDeepAsAStackIsLong) {
  constexpr std::size_t kDeep = 200'000;
  const std::string text = "{\"metadata\":" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}";
  EXPECT_THAT([&] { (void)parse_manifest(text, "m"); },
              ThrowsMessage<BackendError>(HasSubstr("m is damaged: its JSON is nested too deeply")));
}

}  // namespace
}  // namespace kolo::checkpoint
