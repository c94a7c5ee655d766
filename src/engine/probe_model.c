/* The format is estimate/gguf.h's, version 3; sizes are chosen so that no tensor needs padding. */
#include "engine/probe_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

enum {
	LAYERS = 2,
	WIDTH = 64,
	HEADS = 8,
	HEAD = 128,        /* n_embd_k_gqa = 1024: 2 layers x (K + V) x 2 bytes = 8 KiB a token */
	FEED = 64,
	TOKENS = 3 + 256,
	VOCABULARY = 272,  /* a multiple of 16 */
	ALIGN = 32,
};
_Static_assert(LAYERS * 2 * HEADS * HEAD * 2 * PROBE_CONTEXT == PROBE_KV_BYTES, "its KV cache");

enum { U32 = 4, I32 = 5, FLOAT = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

struct tensor {
	char name[40];
	uint32_t columns, rows; /* rows 1: a vector */
	float scale;            /* of random values; 0: all ones */
};

struct file {
	struct buf head;
	uint32_t keys;
	uint32_t tensors;
	struct tensor tensor[3 + LAYERS * 9];
};

static void add_u32(struct buf *out, uint32_t value)
{
	buf_append(out, &value, sizeof(value));
}

static void add_u64(struct buf *out, uint64_t value)
{
	buf_append(out, &value, sizeof(value));
}

static void add_text(struct buf *out, const char *text)
{
	add_u64(out, strlen(text));
	buf_append(out, text, strlen(text));
}

static void add_key(struct file *file, const char *name, uint32_t type)
{
	add_text(&file->head, name);
	add_u32(&file->head, type);
	file->keys++;
}

static void add_number(struct file *file, const char *name, uint32_t value)
{
	add_key(file, name, U32);
	add_u32(&file->head, value);
}

static void add_float(struct file *file, const char *name, float value)
{
	add_key(file, name, FLOAT);
	buf_append(&file->head, &value, sizeof(value));
}

static void add_string(struct file *file, const char *name, const char *value)
{
	add_key(file, name, STRING);
	add_text(&file->head, value);
}

static void add_array(struct file *file, const char *name, uint32_t type)
{
	add_key(file, name, ARRAY);
	add_u32(&file->head, type);
	add_u64(&file->head, VOCABULARY);
}

static void add_vocabulary(struct file *file)
{
	static const char *const marks[] = { "<unk>", "<s>", "</s>" };
	char text[24];

	add_string(file, "tokenizer.ggml.model", "llama");
	add_array(file, "tokenizer.ggml.tokens", STRING);
	for (uint32_t i = 0; i < VOCABULARY; i++) {
		if (i < 3)
			snprintf(text, sizeof(text), "%s", marks[i]);
		else
			snprintf(text, sizeof(text), i < TOKENS ? "<0x%02X>" : "<unused%u>", i - 3);
		add_text(&file->head, text);
	}
	add_array(file, "tokenizer.ggml.scores", FLOAT);
	for (uint32_t i = 0; i < VOCABULARY; i++) {
		float score = -(float)i;
		buf_append(&file->head, &score, sizeof(score));
	}
	add_array(file, "tokenizer.ggml.token_type", I32);
	for (uint32_t i = 0; i < VOCABULARY; i++)
		add_u32(&file->head, i == 0 ? 2 : i < 3 ? 3 : i < TOKENS ? 6 : 5);
	add_number(file, "tokenizer.ggml.unknown_token_id", 0);
	add_number(file, "tokenizer.ggml.bos_token_id", 1);
	add_number(file, "tokenizer.ggml.eos_token_id", 2);
	add_key(file, "tokenizer.ggml.add_space_prefix", BOOL);
	buf_append_char(&file->head, 0);
}

static void add_tensor(struct file *file, const char *name, uint32_t columns, uint32_t rows, float scale)
{
	struct tensor *tensor = &file->tensor[file->tensors++];

	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	tensor->columns = columns;
	tensor->rows = rows;
	tensor->scale = scale;
}

static void add_layer(struct file *file, uint32_t layer)
{
	const struct {
		const char *name;
		uint32_t columns, rows;
		float scale;
	} parts[] = {
		{ "attn_norm", WIDTH, 1, 0 },
		{ "attn_q", WIDTH, HEADS * HEAD, 0.1F },
		{ "attn_k", WIDTH, HEADS * HEAD, 0.1F },
		{ "attn_v", WIDTH, HEADS * HEAD, 0.1F },
		{ "attn_output", HEADS * HEAD, WIDTH, 0.1F },
		{ "ffn_norm", WIDTH, 1, 0 },
		{ "ffn_gate", WIDTH, FEED, 0.2F },
		{ "ffn_up", WIDTH, FEED, 0.2F },
		{ "ffn_down", FEED, WIDTH, 0.2F },
	};
	char name[40];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, parts[i].name);
		add_tensor(file, name, parts[i].columns, parts[i].rows, parts[i].scale);
	}
}

static void describe(struct file *file)
{
	add_string(file, "general.architecture", "llama");
	add_string(file, "general.name", "probe");
	add_number(file, "llama.context_length", PROBE_CONTEXT);
	add_number(file, "llama.vocab_size", VOCABULARY);
	add_number(file, "llama.embedding_length", WIDTH);
	add_number(file, "llama.block_count", LAYERS);
	add_number(file, "llama.feed_forward_length", FEED);
	add_number(file, "llama.attention.head_count", HEADS);
	add_number(file, "llama.attention.head_count_kv", HEADS);
	add_number(file, "llama.attention.key_length", HEAD);
	add_number(file, "llama.attention.value_length", HEAD);
	add_number(file, "llama.rope.dimension_count", HEAD);
	add_float(file, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
	add_vocabulary(file);
	add_tensor(file, "token_embd.weight", WIDTH, VOCABULARY, 1);
	add_tensor(file, "output_norm.weight", WIDTH, 1, 0);
	add_tensor(file, "output.weight", WIDTH, VOCABULARY, 0.5F);
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		add_layer(file, layer);
}

static uint64_t tensor_bytes(const struct tensor *tensor)
{
	return (uint64_t)tensor->columns * tensor->rows * sizeof(float);
}

static void write_head(struct file *file, FILE *out)
{
	struct buf start = BUF_INIT;
	uint64_t offset = 0;

	buf_append(&start, "GGUF", 4);
	add_u32(&start, 3);
	add_u64(&start, file->tensors);
	add_u64(&start, file->keys);
	for (uint32_t i = 0; i < file->tensors; i++) {
		const struct tensor *tensor = &file->tensor[i];
		add_text(&file->head, tensor->name);
		add_u32(&file->head, tensor->rows > 1 ? 2 : 1);
		add_u64(&file->head, tensor->columns);
		if (tensor->rows > 1)
			add_u64(&file->head, tensor->rows);
		add_u32(&file->head, 0); /* F32 */
		add_u64(&file->head, offset);
		offset += tensor_bytes(tensor);
	}
	while ((buf_length(&start) + buf_length(&file->head)) % ALIGN)
		buf_append_char(&file->head, 0);
	fwrite(buf_str(&start).data, 1, buf_length(&start), out);
	fwrite(buf_str(&file->head).data, 1, buf_length(&file->head), out);
	buf_release(&start);
}

/* Between -1 and 1; an LCG of Knuth's, its upper bits. */
static float next_value(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (float)(int32_t)(*state >> 32) / 2147483648.0F;
}

static void write_weights(const struct file *file, FILE *out)
{
	uint64_t state = 1;

	for (uint32_t i = 0; i < file->tensors; i++) {
		const struct tensor *tensor = &file->tensor[i];
		for (uint64_t left = tensor_bytes(tensor) / sizeof(float); left; left--) {
			float value = tensor->scale > 0 ? tensor->scale * next_value(&state) : 1;
			fwrite(&value, sizeof(value), 1, out);
		}
	}
}

int probe_model_write(const char *path, struct err *err)
{
	struct file file = { 0 };
	FILE *out = fopen(path, "wbe");

	if (!out)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	describe(&file);
	write_head(&file, out);
	write_weights(&file, out);
	buf_release(&file.head);
	bool failed = ferror(out);
	if (fclose(out) != 0 || failed)
		return err_set(err, -EIO, "%s: cannot be written", path);
	return 0;
}
