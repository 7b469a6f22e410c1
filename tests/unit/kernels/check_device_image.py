#!/usr/bin/env python3
"""check_device_image.py FATBIN KERNEL_LIST ARCHITECTURE...: the image holds every kernel of device_kernel_list.h, as machine
code for each architecture and as PTX for the last, and no kernel beside them.

A fatbin is a header and entries, each PTX or an ELF file for one architecture; kolo's are not compressed.
"""
import re
import struct
import sys

MAGIC, PTX, ELF = 0xBA55ED50, 1, 2


def entries(image):
    """(kind, architecture, payload) of each entry."""
    magic, _, header, size = struct.unpack_from("<IHHQ", image)
    if magic != MAGIC or header + size > len(image):
        raise ValueError("no fatbin")
    at, end = header, header + size
    while at < end:
        kind, _, header, size = struct.unpack_from("<HHIQ", image, at)
        (architecture,) = struct.unpack_from("<I", image, at + 28)
        yield kind, architecture, image[at + header : at + header + size]
        at += header + size


def elf_kernels(elf):
    """Global functions of an ELF file."""
    sections, entry_size, count = (struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58))
    headers = [struct.unpack_from("<IIQQQQII", elf, sections + i * entry_size) for i in range(count)]
    for _, kind, _, _, offset, size, link, _ in headers:
        if kind != 2:  # a symbol table
            continue
        for at in range(offset, offset + size, 24):
            name, info = struct.unpack_from("<IB", elf, at)
            start = headers[link][4] + name
            if info & 15 == 2 and info >> 4 == 1:
                yield elf[start : elf.index(b"\0", start)].decode()


def ptx_kernels(ptx):
    return re.findall(r"\.entry\s+(\w+)", ptx.decode(errors="replace"))


def main(image, kernel_list, architectures):
    with open(image, "rb") as file:
        found = {(kind, where): sorted(elf_kernels(code) if kind == ELF else ptx_kernels(code))
                 for kind, where, code in entries(file.read())}
    with open(kernel_list, encoding="utf-8") as file:
        wanted = sorted("kolo_" + name for name in re.findall(r"^\s*KERNEL\((\w+), \w+\)", file.read(), re.M))
    expected = {(ELF, int(where)): wanted for where in architectures} | {(PTX, int(architectures[-1])): wanted}
    if found != expected or not wanted:
        sys.exit(f"the image holds {found}, expected {expected}")
    print(f"{len(wanted)} kernels for {', '.join('sm_' + where for where in architectures)} and as PTX")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
