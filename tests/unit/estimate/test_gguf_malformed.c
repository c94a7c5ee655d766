/* Malformed files: each is refused with the right code and a sentence. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gguf_estimate.h"

enum { ENTRIES = LLAMA_ENTRIES };

static const uint64_t embd[] = { 64, 256 };

struct refusal {
	const char *name;
	int code;
	void (*make)(struct buf *out);
};

static void bad_magic(struct buf *out) { buf_append(out, "hello, world, this is no model", 30); }
static void version_0(struct buf *out) { put_front(out, 0, 1, 1); }
static void version_1(struct buf *out) { put_front(out, 1, 1, 1); }
static void version_4(struct buf *out) { put_front(out, 4, 1, 1); }
static void big_endian(struct buf *out) { put_front(out, 0x03000000, 1, 1); }
static void negative_tensors(struct buf *out) { put_front(out, 3, UINT64_MAX, 1); }
static void many_tensors(struct buf *out) { put_front(out, 3, UINT64_C(1) << 40, 1); }
static void many_entries(struct buf *out) { put_front(out, 3, 1, INT64_MAX); }

static void empty_key(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_number(out, "", 1);
}

static void endless_key(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put(out, UINT64_MAX, 8);
}

static void long_key(struct buf *out)
{
	char text[70001];
	memset(text, 'k', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	put_front(out, 3, 0, 1);
	put_number(out, text, 1);
}

static void bad_value_type(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_text(out, "a");
	put(out, 13, 4);
	put(out, 0, 8);
}

static void nested_array(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_text(out, "a");
	put(out, ARRAY, 4);
	put(out, ARRAY, 4);
	put(out, 1, 8);
}

static void wrapping_array(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_text(out, "a");
	put(out, ARRAY, 4);
	put(out, U64, 4);
	put(out, (UINT64_C(1) << 61) + 1, 8);
}

static void endless_array(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_text(out, "a");
	put(out, ARRAY, 4);
	put(out, TEXT, 4);
	put(out, 1 << 29, 8);
}

static void endless_text(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_text(out, "a");
	put(out, TEXT, 4);
	put(out, INT64_MAX, 8);
}

static void twice_a_key(struct buf *out)
{
	put_front(out, 3, 0, 2);
	put_number(out, "llama.block_count", 2);
	put_number(out, "llama.block_count", 3);
}

static void odd_alignment(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_number(out, "general.alignment", 48);
}

static void no_alignment(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_number(out, "general.alignment", 0);
}

static void huge_alignment(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_number(out, "general.alignment", 1u << 31);
}

static void text_alignment(struct buf *out)
{
	put_front(out, 3, 0, 1);
	put_string(out, "general.alignment", "32");
}

static void with_tensor(struct buf *out, const char *name, uint32_t dimensions,
                        const uint64_t *extents, uint32_t type, uint64_t offset)
{
	put_front(out, 3, 1, ENTRIES);
	put_llama_entries(out);
	put_tensor(out, name, dimensions, extents, type, offset);
}

static void wrapping_shape(struct buf *out)
{
	with_tensor(out, "w", 2, (uint64_t[]){ UINT64_C(1) << 32, UINT64_C(1) << 32 }, 0, 0);
}

static void wrapping_bytes(struct buf *out)
{
	with_tensor(out, "w", 2, (uint64_t[]){ UINT64_C(1) << 31, UINT64_C(1) << 30 }, 28, 0);
}

static void negative_extent(struct buf *out)
{
	with_tensor(out, "w", 1, (uint64_t[]){ UINT64_MAX }, 0, 0);
}

static void planet_sized(struct buf *out)
{
	with_tensor(out, "w", 2, (uint64_t[]){ UINT64_C(1) << 40, UINT64_C(1) << 18 }, 0, 0);
}

static void five_dimensions(struct buf *out)
{
	with_tensor(out, "w", 5, (uint64_t[]){ 1, 1, 1, 1, 1 }, 0, 0);
}

static void half_block(struct buf *out) { with_tensor(out, "w", 1, (uint64_t[]){ 33 }, 2, 0); }
static void removed_type(struct buf *out) { with_tensor(out, "w", 1, (uint64_t[]){ 32 }, 4, 0); }
static void fork_type(struct buf *out) { with_tensor(out, "w", 1, (uint64_t[]){ 32 }, 139, 0); }
static void newer_type(struct buf *out) { with_tensor(out, "w", 1, (uint64_t[]){ 32 }, 43, 0); }
static void gap(struct buf *out) { with_tensor(out, "w", 1, (uint64_t[]){ 32 }, 0, 32); }
static void slash(struct buf *out) { with_tensor(out, "../w", 1, (uint64_t[]){ 32 }, 0, 0); }
static void far_layer(struct buf *out) { with_tensor(out, "blk.512.w", 1, (uint64_t[]){ 32 }, 0, 0); }

static void long_name(struct buf *out)
{
	char name[65];
	memset(name, 'n', 64);
	name[64] = '\0';
	with_tensor(out, name, 1, (uint64_t[]){ 32 }, 0, 0);
}

static void twice_a_tensor(struct buf *out)
{
	put_front(out, 3, 2, ENTRIES);
	put_llama_entries(out);
	put_tensor(out, "w", 1, (uint64_t[]){ 32 }, 0, 0);
	put_tensor(out, "w", 1, (uint64_t[]){ 32 }, 0, 128);
}

static void overlap(struct buf *out)
{
	put_front(out, 3, 2, ENTRIES);
	put_llama_entries(out);
	put_tensor(out, "w", 1, (uint64_t[]){ 32 }, 0, 0);
	put_tensor(out, "v", 1, (uint64_t[]){ 32 }, 0, 0);
}

static void no_tensors(struct buf *out)
{
	put_front(out, 3, 0, ENTRIES);
	put_llama_entries(out);
}

/* Good but for one entry of the architecture. */
static void instead(struct buf *out, const char *name, void (*entry)(struct buf *, const char *))
{
	put_front(out, 3, 1, 6);
	put_string(out, "general.architecture", "llama");
	const char *const keys[] = { "llama.embedding_length", "llama.block_count",
		                     "llama.feed_forward_length", "llama.attention.head_count",
		                     "llama.attention.head_count_kv" };
	for (size_t i = 0; i < 5; i++) {
		if (strcmp(keys[i], name) == 0)
			entry(out, name);
		else
			put_number(out, keys[i], i == 0 ? 64 : 4);
	}
	put_tensor(out, "token_embd.weight", 2, embd, 0, 0);
}

static void as_text(struct buf *out, const char *name) { put_string(out, name, "4"); }
static void as_other_name(struct buf *out, const char *name) { (void)name, put_number(out, "other", 4); }
static void as_2_31(struct buf *out, const char *name) { put_number(out, name, 1u << 31); }
static void as_513(struct buf *out, const char *name) { put_number(out, name, 513); }
static void as_9(struct buf *out, const char *name) { put_number(out, name, 9); }

static void as_real(struct buf *out, const char *name)
{
	put_text(out, name);
	put(out, F32, 4);
	put(out, 0x40800000, 4);
}

static void as_array(struct buf *out, const char *name, uint32_t type, uint64_t count, uint32_t value)
{
	put_text(out, name);
	put(out, ARRAY, 4);
	put(out, type, 4);
	put(out, count, 8);
	for (uint64_t i = 0; i < count; i++)
		put(out, value, 4);
}

static void as_three(struct buf *out, const char *name) { as_array(out, name, I32, 3, 4); }
static void as_none(struct buf *out, const char *name) { as_array(out, name, I32, 0, 4); }
static void as_negative(struct buf *out, const char *name) { as_array(out, name, I32, 4, UINT32_MAX); }
static void as_reals(struct buf *out, const char *name) { as_array(out, name, F32, 4, 0x40800000); }

static void heads_text(struct buf *o) { instead(o, "llama.attention.head_count", as_text); }
static void heads_real(struct buf *o) { instead(o, "llama.attention.head_count", as_real); }
static void heads_missing(struct buf *o) { instead(o, "llama.attention.head_count", as_other_name); }
static void heads_three(struct buf *o) { instead(o, "llama.attention.head_count_kv", as_three); }
static void heads_none(struct buf *o) { instead(o, "llama.attention.head_count_kv", as_none); }
static void heads_negative(struct buf *o) { instead(o, "llama.attention.head_count_kv", as_negative); }
static void heads_reals(struct buf *o) { instead(o, "llama.attention.head_count_kv", as_reals); }
static void heads_over(struct buf *o) { instead(o, "llama.attention.head_count_kv", as_9); }
static void blocks_2_31(struct buf *o) { instead(o, "llama.block_count", as_2_31); }
static void blocks_513(struct buf *o) { instead(o, "llama.block_count", as_513); }
/* One draft layer for each there is: less it, none are left. */
static void drafts_alone(struct buf *out)
{
	put_front(out, 3, 1, ENTRIES + 1);
	put_llama_entries(out);
	put_number(out, "llama.nextn_predict_layers", 4);
	put_tensor(out, "token_embd.weight", 2, embd, 0, 0);
}
static void blocks_missing(struct buf *o) { instead(o, "llama.block_count", as_other_name); }

/*
 * Among them what was reported of llama.cpp and of those that read its files: counts and lengths that are believed
 * (CVE-2024-21802, GHSA-p5mv-gjc5-mwqv: entries, keys, texts), sums of sizes that wrap (CVE-2025-53630), a product that
 * wraps to 0 (CVE-2026-27940), extents beyond the file (CVE-2026-7482), as many draft layers as layers
 * (GHSA-645x-v54x-34w8), an array of another type (llama.cpp#27075).
 */
static const struct refusal refusals[] = {
	{ "bad magic", -EBADMSG, bad_magic },
	{ "version 0", -EBADMSG, version_0 },
	{ "version 1", -ENOTSUP, version_1 },
	{ "version 4", -ENOTSUP, version_4 },
	{ "big-endian", -ENOTSUP, big_endian },
	{ "negative tensors", -EBADMSG, negative_tensors },
	{ "2^40 tensors", -EFBIG, many_tensors },
	{ "2^63-1 entries", -EFBIG, many_entries },
	{ "empty key", -EBADMSG, empty_key },
	{ "key of 2^64-1 bytes", -EBADMSG, endless_key },
	{ "key of 70000 bytes", -EBADMSG, long_key },
	{ "value of type 13", -EBADMSG, bad_value_type },
	{ "array of arrays", -EBADMSG, nested_array },
	{ "array whose size wraps", -EBADMSG, wrapping_array },
	{ "array beyond the end", -ENODATA, endless_array },
	{ "text of 2^63-1 bytes", -EBADMSG, endless_text },
	{ "a key twice", -EBADMSG, twice_a_key },
	{ "alignment 48", -EBADMSG, odd_alignment },
	{ "alignment 0", -EBADMSG, no_alignment },
	{ "alignment 2^31", -EFBIG, huge_alignment },
	{ "alignment as text", -EBADMSG, text_alignment },
	{ "shape (2^32, 2^32)", -EBADMSG, wrapping_shape },
	{ "bytes that wrap", -EBADMSG, wrapping_bytes },
	{ "extent -1", -EBADMSG, negative_extent },
	{ "2^60 bytes", -EFBIG, planet_sized },
	{ "five dimensions", -EBADMSG, five_dimensions },
	{ "half a block", -EBADMSG, half_block },
	{ "removed type", -ENOTSUP, removed_type },
	{ "type of a fork", -ENOTSUP, fork_type },
	{ "newer type", -ENOTSUP, newer_type },
	{ "gap in the data", -EBADMSG, gap },
	{ "overlapping data", -EBADMSG, overlap },
	{ "slash in a name", -EBADMSG, slash },
	{ "name of 64 bytes", -EBADMSG, long_name },
	{ "layer 512", -EBADMSG, far_layer },
	{ "a tensor twice", -EBADMSG, twice_a_tensor },
	{ "no tensors", -EBADMSG, no_tensors },
	{ "heads as text", -EBADMSG, heads_text },
	{ "heads as float", -EBADMSG, heads_real },
	{ "no heads", -EBADMSG, heads_missing },
	{ "key heads: wrong count", -EBADMSG, heads_three },
	{ "key heads: empty array", -EBADMSG, heads_none },
	{ "key heads: negative", -EBADMSG, heads_negative },
	{ "key heads: floats", -EBADMSG, heads_reals },
	{ "more key heads than heads", -EBADMSG, heads_over },
	{ "2^31 layers", -EBADMSG, blocks_2_31 },
	{ "513 layers", -EBADMSG, blocks_513 },
	{ "no layers", -EBADMSG, blocks_missing },
	{ "draft layers alone", -EBADMSG, drafts_alone },
};

static void each_malformed_file_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		struct buf file = BUF_INIT;
		struct estimate out;
		struct err err = { 0 };

		refusals[i].make(&file);
		int rc = estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err);
		if (rc != refusals[i].code)
			fail_msg("%s: %d (%s), not %d", refusals[i].name, rc, err.text, refusals[i].code);
		buf_release(&file);
	}
}

/* "array of arrays" -> ".../corpus/gguf/refused-array-of-arrays.gguf" */
static void corpus_path(const char *name, char *out, size_t out_bytes)
{
	const char *data = getenv("COTENANT_TEST_DATA");
	size_t at = (size_t)snprintf(out, out_bytes, "%s/../corpus/gguf/refused-", data ? data : "tests/data");

	for (; *name && at < out_bytes - 8; name++)
		out[at++] = isalnum((unsigned char)*name) ? *name : '-';
	memcpy(out + at, ".gguf", sizeof ".gguf");
}

/* The fuzzer's seeds hold each of them, as they are made here; COTENANT_CORPUS_WRITE=1 writes them. */
static void each_of_them_is_in_the_corpus(void **state)
{
	enum { SEED_MOST = 4096 };
	char path[600], read[SEED_MOST + 1];

	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		struct buf file = BUF_INIT;
		refusals[i].make(&file);
		corpus_path(refusals[i].name, path, sizeof path);
		bool write = getenv("COTENANT_CORPUS_WRITE") != NULL, small = buf_length(&file) <= SEED_MOST;
		FILE *seed = small ? fopen(path, write ? "w" : "r") : NULL;
		if (small && !seed)
			fail_msg("%s is missing", path);
		if (small && write)
			assert_int_equal(fwrite(buf_cstr(&file), 1, buf_length(&file), seed), buf_length(&file));
		else if (small) {
			assert_int_equal(fread(read, 1, sizeof read, seed), buf_length(&file));
			assert_memory_equal(read, buf_cstr(&file), buf_length(&file));
		}
		if (seed)
			fclose(seed);
		buf_release(&file);
	}
}

static void a_tensor_without_elements_is_no_error(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	with_tensor(&file, "w", 2, (uint64_t[]){ 0, 64 }, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_int_equal(out.host.weights_bytes, 0);
	buf_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_malformed_file_is_refused),
		cmocka_unit_test(each_of_them_is_in_the_corpus),
		cmocka_unit_test(a_tensor_without_elements_is_no_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
