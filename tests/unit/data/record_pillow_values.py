#!/usr/bin/env python3
"""Writes pillow_values.txt: the values that Pillow 13.0.0 and torchvision 0.26.0 give for images of pillow_values_test.cpp.

    python3 -m venv /tmp/pillow && /tmp/pillow/bin/pip install pillow==13.0.0 torchvision==0.26.0
    /tmp/pillow/bin/python tests/unit/data/record_pillow_values.py

One record a line; pixels are R, G, B bytes in hexadecimal digits:

    png NAME WIDTH HEIGHT FILE PIXELS                  Image.open(FILE).convert("RGB")
    resize WIDTH HEIGHT IMAGE_SIZE PIXELS              Resize and CenterCrop of pattern(WIDTH, HEIGHT)
    jpeg NAME WIDTH HEIGHT IMAGE_SIZE FILE PIXELS      Resize and CenterCrop of Image.open(FILE).convert("RGB")

`resize` and `jpeg` hold the pixels of a grid of GRID x GRID points. The exception: for 16-bit grey PNGs the pixels are
the high bytes, where Pillow saturates to white.
"""
import io
import pathlib
import struct
import warnings
import zlib

import PIL
import torchvision
from PIL import Image, ImageCms
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

VERSIONS = {"Pillow": (PIL.__version__, "13.0.0"), "torchvision": (torchvision.__version__.split("+")[0], "0.26.0")}
GRID = 21
WIDTH, HEIGHT = 9, 7
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of PNG's colour types
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pattern(width, height):
    """The formula of rough_image() in make_images.cpp."""
    return bytes((x * x * 3 + y * y * 5 + x * y * 7 + c * 500) // 16 % 256
                 for y in range(height) for x in range(width) for c in range(3))


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pack(samples, depth):
    """A row of samples, each of `depth` bits, the first one in the highest bits."""
    if depth == 16:
        return b"".join(struct.pack(">H", sample) for sample in samples)
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def png(colour, depth, interlaced, chunks=(), colours=None):
    """(file, samples): samples[y][x] is a tuple. `colours`: of the palette, for colour type 3."""
    top = colours if colour == 3 and colours is not None else 1 << depth
    seed = colour * 16 + depth
    samples = [[tuple((seed + 7919 * (y * WIDTH + x) + 104729 * c + x * y * 31) % top for c in range(CHANNELS[colour]))
                for x in range(WIDTH)] for y in range(HEIGHT)]
    rows = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        for y in range(y0, HEIGHT, dy):
            row = [sample for x in range(x0, WIDTH, dx) for sample in samples[y][x]]
            if row:
                rows += b"\0" + pack(row, depth)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, int(interlaced))
    body = b"".join(chunk(kind, content) for kind, content in chunks)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""),
            samples)


def palette(depth):
    return b"PLTE", bytes((i * 73 + c * 91 + 11) % 256 for i in range(1 << depth) for c in range(3))


def png_cases():
    """(name, arguments of png())."""
    gamma = lambda value: (b"gAMA", struct.pack(">I", value))
    chroma = (b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000))
    content = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    content = content[:24] + bytes(12) + content[36:]  # without the time of creation
    profile = (b"iCCP", b"XYZ\0\0" + zlib.compress(content))
    srgb = (b"sRGB", b"\0")
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            base = [palette(depth)] if colour == 3 else []
            for interlaced in (False, True):
                name = f"type{colour}_depth{depth}" + ("_interlaced" if interlaced else "")
                yield name, (colour, depth, interlaced, base)
            colours = {"gamma_1.0": [gamma(100000)], "gamma_0.45": [gamma(45455)], "gamma_2.2": [gamma(220000)],
                       "chroma": [gamma(100000), chroma], "profile": [profile], "srgb": [srgb, gamma(45455), chroma]}
            if depth < 8:
                colours = {"gamma_1.0": colours["gamma_1.0"]}
            for extra, chunks in colours.items():
                yield f"type{colour}_depth{depth}_{extra}", (colour, depth, False, chunks + base)
    yield "grey_transparent", (0, 8, False, [(b"tRNS", b"\0\x10")])
    yield "grey2_transparent", (0, 2, False, [(b"tRNS", b"\0\1")])
    yield "grey16_transparent", (0, 16, False, [(b"tRNS", b"\x10\0")])
    yield "rgb_transparent", (2, 8, False, [(b"tRNS", b"\0\1\0\2\0\3")])
    yield "rgb16_transparent", (2, 16, True, [(b"tRNS", b"\0\1\0\2\0\3")])
    yield "rgb_background", (2, 8, False, [(b"bKGD", b"\0\1\0\2\0\3")])
    yield "rgba_background", (6, 8, False, [(b"bKGD", b"\0\1\0\2\0\3"), gamma(100000)][::-1])
    yield "rgb_significant_bits", (2, 8, False, [(b"sBIT", b"\5\6\5")])
    yield "rgb16_significant_bits", (2, 16, False, [(b"sBIT", b"\x0a\x0a\x0a")])
    for depth in (1, 2, 4, 8):
        alphas = b"".join(bytes([i * 40 % 256]) for i in range(1 << depth))
        yield f"palette{depth}_transparent", (3, depth, False, [palette(depth), (b"tRNS", alphas)])
    yield "palette8_transparent_interlaced", (3, 8, True, [gamma(100000), palette(8), (b"tRNS", b"\0\x80")])
    yield "palette_of_5", (3, 8, False, [(b"PLTE", palette(8)[1][:15])], 5)
    yield "palette_suggested", (2, 8, False, [palette(4)])


def grid(image):
    """The pixels of GRID x GRID points, the corners among them."""
    last = image.width - 1
    points = [k * last // (GRID - 1) for k in range(GRID)]
    return bytes(value for y in points for x in points for value in image.getpixel((x, y))).hex()


def evaluated(image, image_size):
    transformed = Resize(image_size * 256 // 224, InterpolationMode.BILINEAR, antialias=True)(image)
    return CenterCrop(image_size)(transformed)


def jpeg_cases():
    """(name, width, height, subsampling of Pillow, image_size)."""
    yield "420", 320, 240, 2, 56
    yield "422", 241, 323, 1, 56
    yield "444", 203, 151, 0, 28


def records():
    for name, arguments in png_cases():
        file, samples = png(*arguments)
        if arguments[:2] == (0, 16):
            pixels = bytes(value >> 8 for row in samples for (value,) in row for _ in range(3)).hex()
        else:
            pixels = Image.open(io.BytesIO(file)).convert("RGB").tobytes().hex()
        yield f"png {name} {WIDTH} {HEIGHT} {file.hex()} {pixels}"
    for width, height, image_size in ((500, 375, 224), (375, 500, 224), (640, 480, 224), (1024, 768, 224), (768, 1024, 224),
                                      (512, 512, 224), (333, 500, 224), (500, 334, 224), (256, 256, 224), (257, 256, 224),
                                      (259, 256, 224), (100, 75, 224), (300, 17, 224), (17, 300, 224), (3, 2, 224),
                                      (1, 1, 224), (640, 480, 32), (481, 640, 96), (500, 375, 160), (500, 375, 299)):
        image = Image.frombytes("RGB", (width, height), pattern(width, height))
        yield f"resize {width} {height} {image_size} {grid(evaluated(image, image_size))}"
    for name, width, height, subsampling, image_size in jpeg_cases():
        image = Image.frombytes("RGB", (width, height), pattern(width, height))
        file = io.BytesIO()
        # Squares, because a JPEG of the pattern itself is large.
        image.resize((width // 6, height // 6)).resize((width, height), Image.Resampling.NEAREST).save(
            file, "JPEG", quality=50, subsampling=subsampling)
        decoded = Image.open(io.BytesIO(file.getvalue())).convert("RGB")
        pixels = grid(evaluated(decoded, image_size))
        yield f"jpeg {name} {width} {height} {image_size} {file.getvalue().hex()} {pixels}"


def main():
    for name, (found, wanted) in VERSIONS.items():
        if found != wanted:
            raise SystemExit(f"{name} is {found}; the values are those of {wanted}: pip install {name.lower()}=={wanted}")
    warnings.simplefilter("ignore")
    target = pathlib.Path(__file__).with_name("pillow_values.txt")
    target.write_text("".join(record + "\n" for record in records()), encoding="ascii")
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
