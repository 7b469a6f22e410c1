"""Reads a file of ours by the format's description alone: length, JSON header, offsets."""
import json
import struct
import subprocess
import sys

writer, path = sys.argv[1:]
subprocess.run([writer, path], check=True)
with open(path, "rb") as file:
    content = file.read()

(length,) = struct.unpack("<Q", content[:8])
assert length % 8 == 0, "the header is padded"
header = json.loads(content[8 : 8 + length].decode("utf-8"))
data = content[8 + length :]
assert content[8:9] == b"{"
assert header.pop("__metadata__") == {"format": "pt", "step": "7"}
names = ["layer1.0.conv1.weight", "bn1.num_batches_tracked", "empty", 'flags "quoted" \u00e9']
assert list(header) == names, list(header)

end = 0
for entry in header.values():
    assert set(entry) == {"dtype", "shape", "data_offsets"}
    assert entry["data_offsets"][0] == end, "no gaps"
    end = entry["data_offsets"][1]
assert end == len(data)


def values(name, code):
    begin, end = header[name]["data_offsets"]
    return struct.unpack("<" + code, data[begin:end])


assert header["layer1.0.conv1.weight"]["dtype"] == "F32" and header["layer1.0.conv1.weight"]["shape"] == [2, 3]
weight = values("layer1.0.conv1.weight", "6f")
assert weight[:5] == (0.5, -1.0, 2.25, 3.0, -4.5) and abs(weight[5] - 1e-3) < 1e-9
assert header["bn1.num_batches_tracked"]["shape"] == []
assert values("bn1.num_batches_tracked", "q") == (12345678901,)
assert header["empty"]["shape"] == [0, 7]
assert values('flags "quoted" \u00e9', "3?") == (True, False, True)
print("ok:", len(header), "tensors")
