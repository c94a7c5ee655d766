#!/usr/bin/env python3
"""make_gguf.py SHAPE OUT [--say TEXT] [--name NAME] [--context N] [--layers N]

Write a model that has the shape and so the memory of a real one and no training, in a second and a
few megabytes of disk. Shapes: tiny, kv-test (small weights, the KV cache of a 7B), llama-1b,
llama-7b (Mistral's shape, Q4_0, 4.2 GB), bert (an embedder).

The chat shapes answer every prompt alike: without --say they recite a sentence for ever, with it
they say TEXT (no word twice) and stop.

How: all weights are holes, so a layer adds nothing and the last token's embedding reaches the output
as it is. The output row of each word is the embedding of the word before it; every token that is no
word of the sentence shares one embedding, which is the output row of the first word.
"""
import argparse
import os
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf import BYTE, CONTROL, DEFINED, NORMAL, UNKNOWN, UNUSED, File, signs, size_of  # noqa: E402

SENTENCE = ("Many models share one memory : each takes what it needs , keeps while used "
            "and gives all of that back when another wants room").split()
UNK, BOS, EOS, TURN, TURN_END = range(5)
ROLES = ("system", "user", "assistant")  # one token each: a prompt is otherwise a token a byte
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
LLAMA = {  # layers, width, heads, KV heads, head's width, feed-forward, vocabulary, context
    "tiny": (2, 64, 4, 2, 16, 128, 400, 131072),
    "kv-test": (32, 128, 8, 8, 128, 256, 400, 131072),
    "llama-1b": (16, 2048, 32, 8, 64, 8192, 32000, 131072),
    "llama-3b": (28, 3072, 24, 8, 128, 8192, 128256, 131072),
    "llama-7b": (32, 4096, 32, 8, 128, 14336, 32000, 131072),
}


def embedding(token, width):
    """+1 and -1 drawn from the token's number: any two are all but orthogonal."""
    bits = random.Random(7919 * token + 1).getrandbits(width)
    return [1 if bits >> i & 1 else -1 for i in range(width)]


def ones(width, value=1.0):
    return [(0, struct.pack(f"<{width}f", *[value] * width))]


def rows(width, by_token):
    size = size_of((width,), "Q8_0")
    return [(token * size, signs(row, "Q8_0")) for token, row in by_token]


def chat_vocabulary(out, words, size):
    """Marks, the roles, the 256 bytes, the space, the words; returns the words' tokens and how many are in use."""
    tokens = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    tokens += [f"{role}\n" for role in ROLES] + [f"<0x{i:02X}>" for i in range(256)] + ["\u2581"]
    types = [UNKNOWN] + [CONTROL] * 4 + [DEFINED] * len(ROLES) + [BYTE] * 256 + [NORMAL] * (1 + len(words))
    spoken = list(range(len(tokens), len(tokens) + len(words)))
    tokens += ["\u2581" + word for word in words]
    used = len(tokens)
    tokens += [f"<unused{i}>" for i in range(used, size)]
    types += [UNUSED] * (size - used)
    out.set("tokenizer.ggml.model", "llama")
    out.set("tokenizer.ggml.tokens", tokens)
    out.set("tokenizer.ggml.scores", [-float(i) for i in range(size)])
    out.set("tokenizer.ggml.token_type", types)
    out.set("tokenizer.ggml.unknown_token_id", UNK)
    out.set("tokenizer.ggml.bos_token_id", BOS)
    out.set("tokenizer.ggml.eos_token_id", EOS)
    out.set("tokenizer.ggml.eot_token_id", TURN_END)
    out.set("tokenizer.ggml.add_bos_token", True)
    out.set("tokenizer.ggml.add_space_prefix", False)
    out.set("tokenizer.chat_template", TEMPLATE)
    return spoken, used


def chain(spoken, used, width, ends):
    """The rows of the embedding and of the output, as (token, vector)."""
    other = embedding(0, width)
    inside = set(spoken)
    entry = [(t, embedding(t, width) if t in inside else other) for t in range(used)]
    follow = [(b, embedding(a, width)) for a, b in zip(spoken, spoken[1:] + [EOS if ends else spoken[0]])]
    exit_rows = dict(follow)
    first = exit_rows.get(spoken[0], [0] * width)
    exit_rows[spoken[0]] = [a + b for a, b in zip(first, other)]
    return entry, sorted(exit_rows.items())


def llama(shape, options):
    layers, width, heads, kv_heads, head, feed, vocabulary, context = LLAMA[shape]
    layers = options.layers or layers
    words = options.say.split() if options.say else SENTENCE
    if len(set(words)) != len(words):
        raise SystemExit("make_gguf.py: --say may not hold a word twice")
    vocabulary = max(vocabulary, 300 + len(words))
    out = File("llama", options.name or shape, 2)
    for key, value in (("context_length", options.context or context), ("vocab_size", vocabulary),
                       ("embedding_length", width), ("block_count", layers), ("feed_forward_length", feed),
                       ("attention.head_count", heads), ("attention.head_count_kv", kv_heads),
                       ("attention.key_length", head), ("attention.value_length", head),
                       ("attention.layer_norm_rms_epsilon", 1e-5),
                       ("rope.dimension_count", head), ("rope.freq_base", 10000.0)):
        out.own(key, value)
    spoken, used = chat_vocabulary(out, words, vocabulary)
    entry, exit_rows = chain(spoken, used, width, ends=bool(options.say))
    out.tensor("token_embd.weight", (width, vocabulary), "Q8_0", rows(width, entry))
    out.tensor("output_norm.weight", (width,), "F32", ones(width))
    out.tensor("output.weight", (width, vocabulary), "Q8_0", rows(width, exit_rows))
    for i in range(layers):
        for name, dims in (("attn_q", (width, heads * head)), ("attn_k", (width, kv_heads * head)),
                           ("attn_v", (width, kv_heads * head)), ("attn_output", (heads * head, width)),
                           ("ffn_gate", (width, feed)), ("ffn_up", (width, feed)), ("ffn_down", (feed, width))):
            out.tensor(f"blk.{i}.{name}.weight", dims, "Q4_0")
        for name in ("attn_norm", "ffn_norm"):
            out.tensor(f"blk.{i}.{name}.weight", (width,), "F32", ones(width))
    return out


def bert(options):
    layers, width, heads, feed, vocabulary, context = options.layers or 6, 384, 12, 1536, 500, 512
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    tokens = marks + ["\u2581" + c for c in letters] + letters
    used = len(tokens)
    tokens += [f"[unused{i}]" for i in range(used, vocabulary)]
    out = File("bert", options.name or "bert", 7)
    for key, value in (("context_length", options.context or context), ("embedding_length", width),
                       ("block_count", layers), ("feed_forward_length", feed), ("attention.head_count", heads),
                       ("attention.layer_norm_epsilon", 1e-12), ("attention.causal", False), ("pooling_type", 1)):
        out.own(key, value)
    out.set("tokenizer.ggml.model", "bert")
    out.set("tokenizer.ggml.tokens", tokens)
    out.set("tokenizer.ggml.token_type", [CONTROL] * 5 + [NORMAL] * (used - 5) + [UNUSED] * (vocabulary - used))
    out.set("tokenizer.ggml.token_type_count", 2)
    for key, mark in (("padding", 0), ("unknown", 1), ("cls", 2), ("bos", 2), ("seperator", 3), ("eos", 3)):
        out.set(f"tokenizer.ggml.{key}_token_id", mark)
    out.tensor("token_embd.weight", (width, vocabulary), "Q8_0",
               rows(width, [(t, embedding(t, width)) for t in range(used)]))
    out.tensor("position_embd.weight", (width, options.context or context), "F32")
    out.tensor("token_types.weight", (width, 2), "F32")
    vector = lambda name, size, value: out.tensor(name, (size,), "F32", ones(size, value))
    vector("token_embd_norm.weight", width, 1.0)
    vector("token_embd_norm.bias", width, 0.0)
    for i in range(layers):
        p = f"blk.{i}."
        for name, dims in (("attn_q", (width, width)), ("attn_k", (width, width)), ("attn_v", (width, width)),
                           ("attn_output", (width, width)), ("ffn_up", (width, feed)), ("ffn_down", (feed, width))):
            out.tensor(p + name + ".weight", dims, "Q8_0")
            vector(p + name + ".bias", dims[1], 0.0)
        for name in ("attn_output_norm", "layer_output_norm"):
            vector(p + name + ".weight", width, 1.0)
            vector(p + name + ".bias", width, 0.0)
    return out


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0], add_help=False)
    parser.add_argument("shape", choices=[*LLAMA, "bert"])
    parser.add_argument("out")
    parser.add_argument("--say")
    parser.add_argument("--name")
    parser.add_argument("--context", type=int)
    parser.add_argument("--layers", type=int)
    options = parser.parse_args()
    model = bert(options) if options.shape == "bert" else llama(options.shape, options)
    partial = options.out + ".new"
    size = model.write(partial)
    os.replace(partial, options.out)
    print(f"{options.out}: {size} bytes, {os.stat(options.out).st_blocks * 512} on disk")


if __name__ == "__main__":
    main()
