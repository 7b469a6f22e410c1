"""Makes a PNG file small: a palette of its most frequent colours, and the best compression."""
import collections
import struct
import zlib

COLORS = 256


def chunks(png):
    at = 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at:at + 4])
        yield png[at + 4:at + 8], png[at + 8:at + 8 + size]
        at += 12 + size


def paeth(left, up, corner):
    estimate = left + up - corner
    return min((left, up, corner), key=lambda value: abs(estimate - value))


def pixels(png):
    """(width, rows) of a PNG file with 8 bits in a channel, without alpha and interlacing; a row is bytes."""
    parts = list(chunks(png))
    width, _, depth, kind = struct.unpack(">IIBB", parts[0][1][:10])
    assert (depth, kind) == (8, 2), f"a PNG file of {depth} bits and colour type {kind}; only 8 and 2 are known"
    data = zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT"))
    size, rows = 3 * width, []
    above = bytes(size)
    for start in range(0, len(data), size + 1):
        method, line = data[start], bytearray(data[start + 1:start + 1 + size])
        for i in range(size):
            left, corner = (line[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            up = above[i]
            line[i] = (line[i] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[method]) % 256
        above = bytes(line)
        rows.append(above)
    return width, rows


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def small_png(png):
    width, rows = pixels(png)
    lines = [[row[i:i + 3] for i in range(0, len(row), 3)] for row in rows]
    counts = collections.Counter(color for line in lines for color in line)
    palette = [color for color, _ in counts.most_common(COLORS)]
    number = {color: min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(color, palette[i])))
              for color in counts}
    data = b"".join(b"\0" + bytes(number[color] for color in line) for line in lines)
    head = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"PLTE", b"".join(palette))
            + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))
