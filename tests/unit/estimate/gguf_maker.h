#ifndef TEST_GGUF_MAKER_H
#define TEST_GGUF_MAKER_H

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "estimate/estimate.h"

/* Bytes of GGUF files, right or wrong, put together piece by piece. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 };

static inline void put(struct buf *out, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		buf_append_char(out, (char)(value >> 8 * i));
}

static inline void put_text(struct buf *out, const char *text)
{
	put(out, strlen(text), 8);
	buf_append(out, text, strlen(text));
}

static inline void put_front(struct buf *out, uint32_t version, uint64_t tensors, uint64_t entries)
{
	buf_append(out, "GGUF", 4);
	put(out, version, 4);
	put(out, tensors, 8);
	put(out, entries, 8);
}

static inline void put_number(struct buf *out, const char *key, uint32_t value)
{
	put_text(out, key);
	put(out, U32, 4);
	put(out, value, 4);
}

static inline void put_string(struct buf *out, const char *key, const char *value)
{
	put_text(out, key);
	put(out, TEXT, 4);
	put_text(out, value);
}

static inline void put_tensor(struct buf *out, const char *name, uint32_t dimensions,
                              const uint64_t *extents, uint32_t type, uint64_t offset)
{
	put_text(out, name);
	put(out, dimensions, 4);
	for (uint32_t i = 0; i < dimensions; i++)
		put(out, extents[i], 8);
	put(out, type, 4);
	put(out, offset, 8);
}

/* A source over a buffer that counts what is asked of it. */
struct memory_source {
	const char *data;
	uint64_t size;
	uint64_t reads;
	uint64_t bytes;
};

static inline int memory_read(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct memory_source *memory = ctx;
	memory->reads++;
	memory->bytes += length;
	if (offset > memory->size || length > memory->size - offset)
		return -61; /* ENODATA */
	memcpy(out, memory->data + offset, length);
	return 0;
}

/* Eight of them: two layers of a llama. */
enum { LLAMA_ENTRIES = 8 };

static inline void put_llama_entries(struct buf *out)
{
	put_string(out, "general.architecture", "llama");
	put_number(out, "llama.context_length", 4096);
	put_number(out, "llama.embedding_length", 64);
	put_number(out, "llama.block_count", 2);
	put_number(out, "llama.feed_forward_length", 128);
	put_number(out, "llama.attention.head_count", 4);
	put_number(out, "llama.attention.head_count_kv", 2);
	put_number(out, "llama.vocab_size", 256);
}

#endif
