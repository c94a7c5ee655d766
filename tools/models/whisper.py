"""whisper: a trained speech model from CTranslate2's form into the one whisper.cpp reads.

Both hold the same weights. What differs: names; query, key and value lie in one matrix there; vectors are
half precision there and whole here; the filters of the spectrogram are not in there, since they follow
from the number of bands.
"""
import array
import math
import struct

F32, F16 = 0, 1
MAGIC = 0x67676d6c
AUDIO_CONTEXT, TEXT_CONTEXT, HEAD_WIDTH, BINS, RATE = 1500, 448, 64, 201, 16000


class Reader:
    """The variables of a CTranslate2 model file, by name: (shape, bytes)."""

    def __init__(self, file):
        self.file = file
        version, spec = self.number("I"), self.text()
        if (version, spec) != (6, "WhisperSpec"):
            raise SystemExit(f"whisper.py: a {spec} of format {version}, not a WhisperSpec of format 6")
        self.number("I")
        self.variables = {}
        for _ in range(self.number("I")):
            name = self.text()
            shape = [self.number("I") for _ in range(self.number("B"))]
            self.number("B")
            self.variables[name] = (shape, file.read(self.number("I")))

    def number(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.file.read(self.number("H")).rstrip(b"\0").decode()

    def layers(self, side):
        return sum(name.startswith(side) and name.endswith("/ffn/linear_0/weight") for name in self.variables)


def filters(bands):
    """The mel filter bank: triangles whose corners are even in mel, each of unit area."""
    def mel(hertz):
        return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)

    def hertz(value):
        return value * 200 / 3 if value < 15 else 1000 * 6.4 ** ((value - 15) / 27)

    corners = [hertz(mel(RATE / 2) * i / (bands + 1)) for i in range(bands + 2)]
    out = array.array("f")
    for left, top, right in zip(corners, corners[1:], corners[2:]):
        for i in range(BINS):
            at = i * RATE / 2 / (BINS - 1)
            slope = min((at - left) / (top - left), (right - at) / (right - top))
            out.append(max(0.0, slope) * 2 / (right - left))
    return out.tobytes()


def token_bytes(vocabulary, count):
    """The first tokens as bytes. GPT-2's vocabulary writes each byte as a character that can be printed."""
    plain = {*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)}
    hidden = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain}
    byte_of.update((chr(256 + i), byte) for i, byte in enumerate(hidden))
    for token in sorted(vocabulary, key=vocabulary.get)[:count]:
        known = all(character in byte_of for character in token)
        yield bytes(byte_of[character] for character in token) if known else token.encode()


class Writer:
    def __init__(self, out):
        self.out = out

    def tensor(self, name, dims, raw, half):
        """`raw` is half precision; `dims` the fastest first."""
        if not half:
            raw = array.array("f", struct.unpack(f"<{len(raw) // 2}e", raw)).tobytes()
        title = name.encode()
        self.out.write(struct.pack(f"<3i{len(dims)}i", len(dims), len(title), F16 if half else F32, *dims))
        self.out.write(title + raw)


def convert(file, vocabulary, out):
    model, writer = Reader(file), Writer(out)
    tokens, width = model.variables["decoder/embeddings/weight"][0]
    bands = model.variables["encoder/conv1/weight"][0][1]
    texts = 50257 if tokens >= 51865 else 50256  # the English models lack one
    heads = width // HEAD_WIDTH
    out.write(struct.pack("<I11i", MAGIC, tokens, AUDIO_CONTEXT, width, heads, model.layers("encoder/"),
                          TEXT_CONTEXT, width, heads, model.layers("decoder/"), bands, F16))
    out.write(struct.pack("<2i", bands, BINS) + filters(bands) + struct.pack("<i", texts))
    for raw in token_bytes(vocabulary, texts):
        out.write(struct.pack("<I", len(raw)) + raw)

    def whole(name, source, half=False):
        shape, raw = model.variables[source]
        writer.tensor(name, shape[::-1], raw, half)

    def norm(name, source):
        whole(f"{name}.weight", f"{source}/gamma")
        whole(f"{name}.bias", f"{source}/beta")

    def linear(names, source):
        """One matrix there, as many as there are names here, one below the other. A key has no bias here."""
        for part in ("weight", "bias"):
            shape, raw = model.variables[f"{source}/{part}"]
            size = len(raw) // len(names)
            for i, name in enumerate(names):
                if part == "weight" or not name.endswith(".key"):
                    dims = [*shape[:0:-1], shape[0] // len(names)]
                    writer.tensor(f"{name}.{part}", dims, raw[i * size:(i + 1) * size], part == "weight")

    def block(name, source, cross):
        norm(f"{name}.attn_ln", f"{source}/self_attention/layer_norm")
        linear([f"{name}.attn.{x}" for x in ("query", "key", "value")], f"{source}/self_attention/linear_0")
        linear([f"{name}.attn.out"], f"{source}/self_attention/linear_1")
        if cross:
            norm(f"{name}.cross_attn_ln", f"{source}/attention/layer_norm")
            linear([f"{name}.cross_attn.query"], f"{source}/attention/linear_0")
            linear([f"{name}.cross_attn.{x}" for x in ("key", "value")], f"{source}/attention/linear_1")
            linear([f"{name}.cross_attn.out"], f"{source}/attention/linear_2")
        norm(f"{name}.mlp_ln", f"{source}/ffn/layer_norm")
        linear([f"{name}.mlp.0"], f"{source}/ffn/linear_0")
        linear([f"{name}.mlp.2"], f"{source}/ffn/linear_1")

    whole("encoder.positional_embedding", "encoder/position_encodings/encodings")
    for conv in ("conv1", "conv2"):
        whole(f"encoder.{conv}.weight", f"encoder/{conv}/weight", half=True)
        shape, raw = model.variables[f"encoder/{conv}/bias"]
        writer.tensor(f"encoder.{conv}.bias", [1, shape[0]], raw, False)
    for i in range(model.layers("encoder/")):
        block(f"encoder.blocks.{i}", f"encoder/layer_{i}", cross=False)
    norm("encoder.ln_post", "encoder/layer_norm")
    whole("decoder.positional_embedding", "decoder/position_encodings/encodings")
    whole("decoder.token_embedding.weight", "decoder/embeddings/weight", half=True)
    for i in range(model.layers("decoder/")):
        block(f"decoder.blocks.{i}", f"decoder/layer_{i}", cross=True)
    norm("decoder.ln", "decoder/layer_norm")
