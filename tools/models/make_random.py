#!/usr/bin/env python3
"""make_random.py FAMILY OUT [EXPERTS [LAYERS]]

Write a small model (under 3 MB) whose weights are random, always the same: what it answers, and how sure it is,
depends on every token before. Families: one for each kind of memory that an engine keeps of a
conversation - llama (keys and values), moe (qwen3moe: the same, with experts), window (gemma3), latent
(deepseek2), recurrent (mamba), hybrid (granitehybrid), delta (qwen3next). EXPERTS, LAYERS: of moe, so many instead
of 8 and 2.
"""
import os
import random
import struct
import sys
from array import array

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf import QUANT, File, size_of  # noqa: E402
from make_gguf import chat_vocabulary  # noqa: E402

WIDTH, HEADS, KV_HEADS, HEAD, FEED, EXPERTS, LAYERS, USED, EXPERT_FEED = 128, 4, 2, 32, 256, 8, 2, 2, 64
VOCABULARY, CONTEXT = 400, 131072
REMEMBERS = -0.01  # a recurrent state loses a hundredth with a token


class Model(File):
    """Matrices are drawn, vectors are constant; a matrix keeps the size of what goes through it."""

    def __init__(self, architecture, layers, tied=False, **keys):
        super().__init__(architecture, f"random {architecture}", 2)
        self.random = random.Random(architecture)
        self.keys(context_length=CONTEXT, vocab_size=VOCABULARY, embedding_length=WIDTH, block_count=layers, **keys)
        chat_vocabulary(self, ["word"], VOCABULARY)
        # Where it is the output as well, a token that stood out would be followed by itself for ever.
        self.matrix("token_embd", WIDTH, VOCABULARY, quant="Q8_0", gain=1 if tied else 4)
        self.vector("output_norm", WIDTH)
        if not tied:
            self.matrix("output", WIDTH, VOCABULARY, quant="Q8_0", gain=4)

    def keys(self, **keys):
        for key, value in keys.items():
            self.own(key.replace("__", "."), value)

    def matrix(self, name, *dims, quant="Q4_0", gain=1):
        spread = gain / dims[0] ** 0.5
        size = size_of(dims, quant)
        if quant == "F32":
            raw = array("f", (self.random.gauss(0, spread) for _ in range(size // 4))).tobytes()
        else:
            _, _, block = QUANT[quant]
            raw = bytearray(self.random.randbytes(size))
            scale = struct.pack("<e", spread * 3 ** 0.5 / (8 if quant == "Q4_0" else 127))
            raw[0::block] = scale[:1] * (size // block)
            raw[1::block] = scale[1:] * (size // block)
        self.tensor(name + ".weight", dims, quant, [(0, bytes(raw))])

    def vector(self, name, *dims, value=1.0, ending=".weight"):
        raw = struct.pack("<f", value) * (size_of(dims, "F32") // 4)
        self.tensor(name + ending, dims, "F32", [(0, raw)])

    def attention(self, p, query=HEADS * HEAD, normed=False):
        self.matrix(p + "attn_q", WIDTH, query)
        self.matrix(p + "attn_k", WIDTH, KV_HEADS * HEAD)
        self.matrix(p + "attn_v", WIDTH, KV_HEADS * HEAD)
        self.matrix(p + "attn_output", HEADS * HEAD, WIDTH)
        for name in ("attn_q_norm", "attn_k_norm") if normed else ():
            self.vector(p + name, HEAD)

    def feed_forward(self, p, feed, ending=""):
        self.matrix(p + "ffn_gate" + ending, WIDTH, feed)
        self.matrix(p + "ffn_up" + ending, WIDTH, feed)
        self.matrix(p + "ffn_down" + ending, feed, WIDTH)

    def experts(self, p):
        self.matrix(p + "ffn_gate_inp", WIDTH, EXPERTS, quant="F32")
        self.matrix(p + "ffn_gate_exps", WIDTH, EXPERT_FEED, EXPERTS)
        self.matrix(p + "ffn_up_exps", WIDTH, EXPERT_FEED, EXPERTS)
        self.matrix(p + "ffn_down_exps", EXPERT_FEED, WIDTH, EXPERTS)


def attention_keys(epsilon=1e-5, rope=HEAD):
    return {"attention__head_count": HEADS, "attention__head_count_kv": KV_HEADS, "attention__key_length": HEAD,
            "attention__value_length": HEAD, "attention__layer_norm_rms_epsilon": epsilon,
            "rope__dimension_count": rope, "rope__freq_base": 500000.0}


def expert_keys():
    return {"expert_count": EXPERTS, "expert_used_count": USED, "expert_feed_forward_length": EXPERT_FEED}


def state_keys(inner, state, rank):
    return {"ssm__conv_kernel": 4, "ssm__inner_size": inner, "ssm__state_size": state, "ssm__time_step_rank": rank}


def llama():
    model = Model("llama", 2, feed_forward_length=FEED, **attention_keys())
    for p in ("blk.0.", "blk.1."):
        model.vector(p + "attn_norm", WIDTH)
        model.attention(p)
        model.vector(p + "ffn_norm", WIDTH)
        model.feed_forward(p, FEED)
    return model


def moe():
    model = Model("qwen3moe", LAYERS, feed_forward_length=EXPERT_FEED, **attention_keys(1e-6), **expert_keys())
    for layer in range(LAYERS):
        p = f"blk.{layer}."
        model.vector(p + "attn_norm", WIDTH)
        model.attention(p, normed=True)
        model.vector(p + "ffn_norm", WIDTH)
        model.experts(p)
    return model


def window():
    model = Model("gemma3", 6, tied=True, feed_forward_length=FEED, attention__sliding_window=512, **attention_keys(1e-6))
    for layer in range(6):
        p = f"blk.{layer}."
        model.attention(p, normed=True)
        model.feed_forward(p, FEED)
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            model.vector(p + name, WIDTH)
    return model


def latent():
    low, plain, turned, value = 64, 32, 32, 32
    model = Model("deepseek2", 3, feed_forward_length=FEED, attention__head_count=HEADS, attention__head_count_kv=1,
                  attention__layer_norm_rms_epsilon=1e-6, rope__dimension_count=turned, rope__freq_base=10000.0,
                  attention__kv_lora_rank=low, attention__q_lora_rank=2 * low, attention__key_length=low + turned,
                  attention__value_length=low, attention__key_length_mla=plain + turned,
                  attention__value_length_mla=value, leading_dense_block_count=1, expert_shared_count=1,
                  expert_weights_scale=1.0, expert_weights_norm=False, expert_gating_func=1, **expert_keys())
    for layer in range(3):
        p = f"blk.{layer}."
        model.vector(p + "attn_norm", WIDTH)
        model.matrix(p + "attn_q_a", WIDTH, 2 * low)
        model.vector(p + "attn_q_a_norm", 2 * low)
        model.matrix(p + "attn_q_b", 2 * low, HEADS * (plain + turned))
        model.matrix(p + "attn_kv_a_mqa", WIDTH, low + turned)
        model.vector(p + "attn_kv_a_norm", low)
        model.matrix(p + "attn_k_b", plain, low, HEADS)
        model.matrix(p + "attn_v_b", low, value, HEADS)
        model.matrix(p + "attn_output", HEADS * value, WIDTH)
        model.vector(p + "ffn_norm", WIDTH)
        if layer == 0:
            model.feed_forward(p, FEED)
        else:
            model.experts(p)
            model.feed_forward(p, EXPERT_FEED, "_shexp")
    return model


def recurrent():
    inner, state, rank = 2 * WIDTH, 16, 8
    model = Model("mamba", 2, feed_forward_length=0, attention__head_count=0,
                  attention__layer_norm_rms_epsilon=1e-5, **state_keys(inner, state, rank))
    for p in ("blk.0.", "blk.1."):
        model.vector(p + "attn_norm", WIDTH)
        model.matrix(p + "ssm_in", WIDTH, 2 * inner)
        model.matrix(p + "ssm_conv1d", 4, inner, quant="F32")
        model.vector(p + "ssm_conv1d", inner, value=0.0, ending=".bias")
        model.matrix(p + "ssm_x", inner, rank + 2 * state)
        model.matrix(p + "ssm_dt", rank, inner, quant="F32")
        model.vector(p + "ssm_dt", inner, value=0.0, ending=".bias")
        model.vector(p + "ssm_a", state, inner, value=REMEMBERS, ending="")
        model.vector(p + "ssm_d", inner, ending="")
        model.matrix(p + "ssm_out", inner, WIDTH)
    return model


def hybrid():
    layers, inner, state, groups = 10, 2 * WIDTH, 64, 1
    attends = [layer % 10 == 5 for layer in range(layers)]
    keys = attention_keys()
    keys["attention__head_count_kv"] = [KV_HEADS if a else 0 for a in attends]
    model = Model("granitehybrid", layers, feed_forward_length=EXPERT_FEED, ssm__group_count=groups,
                  expert_shared_feed_forward_length=EXPERT_FEED, rope__scaling__finetuned=False,
                  attention__scale=1 / 128, embedding_scale=12.0, residual_scale=0.22, logit_scale=6.0,
                  **keys, **expert_keys(), **state_keys(inner, state, inner // 64))
    mixed = inner + 2 * groups * state
    for layer in range(layers):
        p = f"blk.{layer}."
        model.vector(p + "attn_norm", WIDTH)
        if attends[layer]:
            model.attention(p)
        else:
            model.matrix(p + "ssm_in", WIDTH, inner + mixed + inner // 64)
            model.matrix(p + "ssm_conv1d", 4, mixed, quant="F32")
            model.vector(p + "ssm_conv1d", mixed, value=0.0, ending=".bias")
            model.vector(p + "ssm_dt", inner // 64, value=0.0, ending=".bias")
            model.vector(p + "ssm_a", 1, inner // 64, value=REMEMBERS, ending="")
            model.vector(p + "ssm_d", 1, inner // 64, ending="")
            model.vector(p + "ssm_norm", inner, groups)
            model.matrix(p + "ssm_out", inner, WIDTH)
        model.vector(p + "ffn_norm", WIDTH)
        model.experts(p)
        model.feed_forward(p, EXPERT_FEED, "_shexp")
    return model


def delta():
    state, keys, values = 32, 2, 4
    inner = state * values
    model = Model("qwen3next", 4, feed_forward_length=EXPERT_FEED, ssm__group_count=keys, full_attention_interval=4,
                  expert_shared_feed_forward_length=EXPERT_FEED, **attention_keys(1e-6, HEAD // 4), **expert_keys(),
                  **state_keys(inner, state, values))
    mixed = 2 * state * keys + inner
    for layer in range(4):
        p = f"blk.{layer}."
        model.vector(p + "attn_norm", WIDTH)
        model.vector(p + "post_attention_norm", WIDTH)
        if layer == 3:
            model.attention(p, query=2 * HEADS * HEAD, normed=True)
        else:
            model.matrix(p + "attn_qkv", WIDTH, mixed)
            model.matrix(p + "attn_gate", WIDTH, inner)
            model.matrix(p + "ssm_conv1d", 4, mixed, quant="F32")
            model.vector(p + "ssm_dt", values, value=0.0, ending=".bias")
            model.vector(p + "ssm_a", values, value=REMEMBERS, ending="")
            model.matrix(p + "ssm_ba", WIDTH, 2 * values)
            model.vector(p + "ssm_norm", state)
            model.matrix(p + "ssm_out", inner, WIDTH)
        model.experts(p)
        model.vector(p + "ffn_gate_inp_shexp", WIDTH, value=0.0)
        model.feed_forward(p, EXPERT_FEED, "_shexp")
    return model


FAMILIES = {function.__name__: function for function in (llama, moe, window, latent, recurrent, hybrid, delta)}


def main():
    global EXPERTS, LAYERS
    if len(sys.argv) not in (3, 4, 5) or sys.argv[1] not in FAMILIES:
        sys.exit(f"usage: make_random.py {'|'.join(FAMILIES)} OUT [EXPERTS [LAYERS]]")
    if len(sys.argv) > 3:
        EXPERTS = int(sys.argv[3])
    if len(sys.argv) > 4:
        LAYERS = int(sys.argv[4])
    FAMILIES[sys.argv[1]]().write(sys.argv[2])


if __name__ == "__main__":
    main()
