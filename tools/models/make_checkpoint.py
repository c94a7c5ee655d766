#!/usr/bin/env python3
"""make_checkpoint.py OUT: an image model of Stable Diffusion 1's shape, F16, 2.1 GB that take no disk.

It has the memory and the arithmetic of a real one and no training: all weights are a hole in the file,
which reads as zeros, so every picture is grey. Names and shapes are those that its parts (UNet,
autoencoder, text encoder) have in a published checkpoint.
"""
import json
import math
import os
import struct
import sys

WIDTHS, TIME, TEXT = (320, 640, 1280, 1280), 1280, 768  # of the UNet: by level, of the step, of the text
PIXELS = (128, 256, 512, 512)                           # of the autoencoder, by level


class Part:
    """Collects tensors under a prefix."""

    def __init__(self, tensors, prefix):
        self.tensors, self.prefix = tensors, prefix

    def at(self, name):
        return Part(self.tensors, f"{self.prefix}{name}.")

    def weight(self, name, *shape, bias=True):
        self.tensors.append((f"{self.prefix}{name}.weight", shape))
        if bias:
            self.tensors.append((f"{self.prefix}{name}.bias", shape[:1]))

    def norms(self, width, *names):
        for name in names:
            self.weight(name, width)

    def conv(self, name, after, before, kernel=3):
        self.weight(name, after, before, kernel, kernel)


def residual(part, before, after):
    part.norms(before, "in_layers.0")
    part.conv("in_layers.2", after, before)
    part.weight("emb_layers.1", after, TIME)
    part.norms(after, "out_layers.0")
    part.conv("out_layers.3", after, after)
    if before != after:
        part.conv("skip_connection", after, before, 1)


def transformer(part, width):
    part.norms(width, "norm")
    part.conv("proj_in", width, width, 1)
    block = part.at("transformer_blocks.0")
    for name, heard in (("attn1", width), ("attn2", TEXT)):
        block.weight(f"{name}.to_q", width, width, bias=False)
        block.weight(f"{name}.to_k", width, heard, bias=False)
        block.weight(f"{name}.to_v", width, heard, bias=False)
        block.weight(f"{name}.to_out.0", width, width)
    block.weight("ff.net.0.proj", 8 * width, width)
    block.weight("ff.net.2", width, 4 * width)
    block.norms(width, "norm1", "norm2", "norm3")
    part.conv("proj_out", width, width, 1)


def unet(part):
    part.weight("time_embed.0", TIME, WIDTHS[0])
    part.weight("time_embed.2", TIME, TIME)
    part.conv("input_blocks.0.0", WIDTHS[0], 4)
    passed, width, number = [WIDTHS[0]], WIDTHS[0], 1
    for level, wanted in enumerate(WIDTHS):
        for _ in range(2):
            residual(part.at(f"input_blocks.{number}.0"), width, wanted)
            if level < 3:
                transformer(part.at(f"input_blocks.{number}.1"), wanted)
            width, number = wanted, number + 1
            passed.append(width)
        if level < 3:
            part.conv(f"input_blocks.{number}.0.op", width, width)
            number += 1
            passed.append(width)
    residual(part.at("middle_block.0"), width, width)
    transformer(part.at("middle_block.1"), width)
    residual(part.at("middle_block.2"), width, width)
    for number in range(12):
        level = 3 - number // 3
        residual(part.at(f"output_blocks.{number}.0"), width + passed.pop(), WIDTHS[level])
        width = WIDTHS[level]
        if level < 3:
            transformer(part.at(f"output_blocks.{number}.1"), width)
        if number % 3 == 2 and level:
            part.conv(f"output_blocks.{number}.{2 if level < 3 else 1}.conv", width, width)
    part.norms(width, "out.0")
    part.conv("out.2", 4, width)


def plain(part, before, after):
    part.norms(before, "norm1")
    part.conv("conv1", after, before)
    part.norms(after, "norm2")
    part.conv("conv2", after, after)
    if before != after:
        part.conv("nin_shortcut", after, before, 1)


def middle(part, width):
    plain(part.at("block_1"), width, width)
    part.norms(width, "attn_1.norm")
    for name in ("q", "k", "v", "proj_out"):
        part.conv(f"attn_1.{name}", width, width, 1)
    plain(part.at("block_2"), width, width)


def autoencoder(part):
    encoder, decoder, width = part.at("encoder"), part.at("decoder"), PIXELS[0]
    encoder.conv("conv_in", width, 3)
    for level, wanted in enumerate(PIXELS):
        for block in range(2):
            plain(encoder.at(f"down.{level}.block.{block}"), width, wanted)
            width = wanted
        if level < 3:
            encoder.conv(f"down.{level}.downsample.conv", width, width)
    middle(encoder.at("mid"), width)
    encoder.norms(width, "norm_out")
    encoder.conv("conv_out", 8, width)
    part.conv("quant_conv", 8, 8, 1)
    part.conv("post_quant_conv", 4, 4, 1)
    decoder.conv("conv_in", width, 4)
    middle(decoder.at("mid"), width)
    for level in (3, 2, 1, 0):
        for block in range(3):
            plain(decoder.at(f"up.{level}.block.{block}"), width, PIXELS[level])
            width = PIXELS[level]
        if level:
            decoder.conv(f"up.{level}.upsample.conv", width, width)
    decoder.norms(width, "norm_out")
    decoder.conv("conv_out", 3, width)


def text_encoder(part):
    part.weight("embeddings.token_embedding", 49408, TEXT, bias=False)
    part.weight("embeddings.position_embedding", 77, TEXT, bias=False)
    for number in range(12):
        layer = part.at(f"encoder.layers.{number}")
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            layer.weight(f"self_attn.{name}", TEXT, TEXT)
        layer.norms(TEXT, "layer_norm1", "layer_norm2")
        layer.weight("mlp.fc1", 4 * TEXT, TEXT)
        layer.weight("mlp.fc2", TEXT, 4 * TEXT)
    part.norms(TEXT, "final_layer_norm")


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_checkpoint.py OUT")
    tensors, head, end = [], {}, 0
    unet(Part(tensors, "model.diffusion_model."))
    autoencoder(Part(tensors, "first_stage_model."))
    text_encoder(Part(tensors, "cond_stage_model.transformer.text_model."))
    for name, shape in tensors:
        begin, end = end, end + 2 * math.prod(shape)
        head[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    raw = json.dumps(head, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    partial = sys.argv[1] + ".new"
    with open(partial, "wb") as out:
        out.write(struct.pack("<Q", len(raw)) + raw)
        out.truncate(8 + len(raw) + end)
    os.replace(partial, sys.argv[1])
    print(f"{sys.argv[1]}: {len(tensors)} tensors, {8 + len(raw) + end} bytes")


if __name__ == "__main__":
    main()
