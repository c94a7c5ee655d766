"""gguf: write GGUF files with the standard library alone.

A file is metadata and tensors. A tensor given no content is a hole: the file has its full size and
reads as zeros there, and takes no room on the disk. So a model of any shape costs a few megabytes.
"""
import struct
from array import array

ALIGN = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
QUANT = {  # name: (number in the format, elements of a block, bytes of a block)
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34)}

# How a vocabulary marks its tokens.
NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_of(value):
    """(type, bytes) of a metadata value; Python's type decides."""
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, string(value)
    kind, _ = value_of(value[0])
    if kind == STRING:
        body = b"".join(map(string, value))
    elif kind == F32:
        body = array("f", value).tobytes()
    else:
        kind, body = I32, array("i", value).tobytes()
    return ARRAY, struct.pack("<IQ", kind, len(value)) + body


def size_of(dims, quant):
    _, elements, size = QUANT[quant]
    count = 1
    for d in dims:
        count *= d
    if dims[0] % elements:
        raise ValueError(f"{quant} needs rows of a multiple of {elements}, not {dims[0]}")
    return count // elements * size


def signs(row, quant):
    """One row of +1 and -1 (or 0) in a quantisation whose scale is 1."""
    if quant == "F16":
        return struct.pack(f"<{len(row)}e", *row)
    if quant != "Q8_0":
        raise ValueError(quant)
    one = struct.pack("<e", 1.0)
    return b"".join(one + struct.pack("32b", *row[i:i + 32]) for i in range(0, len(row), 32))


class File:
    def __init__(self, architecture, name, file_type):
        self.architecture = architecture
        self.metadata = []
        self.tensors = []
        self.set("general.architecture", architecture)
        self.set("general.name", name)
        self.set("general.file_type", file_type)

    def set(self, key, value):
        kind, raw = value_of(value)
        self.metadata.append(string(key) + struct.pack("<I", kind) + raw)

    def own(self, key, value):
        """A key that stands under the architecture's name."""
        self.set(f"{self.architecture}.{key}", value)

    def tensor(self, name, dims, quant, pieces=()):
        """`pieces`: (offset in the tensor, bytes); what none covers is a hole."""
        self.tensors.append((name, dims, quant, pieces))

    def write(self, path):
        infos, places, end = b"", [], 0
        for name, dims, quant, _ in self.tensors:
            infos += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, QUANT[quant][0], end)
            places.append(end)
            end += -(-size_of(dims, quant) // ALIGN) * ALIGN
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.metadata))
        head += b"".join(self.metadata) + infos
        base = -(-len(head) // ALIGN) * ALIGN
        with open(path, "wb") as out:
            out.write(head)
            out.truncate(base + end)
            for (_, _, _, pieces), place in zip(self.tensors, places):
                for offset, raw in pieces:
                    out.seek(base + place + offset)
                    out.write(raw)
        return base + end
