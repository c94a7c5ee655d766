/* What a header says is measured, and however it is cut or changed, nothing crashes or reads without end. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "estimate/gguf.h"
#include "gguf_estimate.h"

enum { ENTRIES = LLAMA_ENTRIES };

static const uint64_t embd[] = { 64, 256 };
static const uint64_t key[] = { 64, 32 };

/* A file that is right: two tensors (F32 and Q4_0), data and all. Returns the length of its header. */
static size_t put_good(struct buf *out)
{
	put_front(out, 3, 2, ENTRIES);
	put_llama_entries(out);
	put_tensor(out, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(out, "blk.0.attn_k.weight", 2, key, 2, 64 * 256 * 4);
	size_t header = buf_length(out);
	while (buf_length(out) % 32 != 0)
		buf_append_char(out, 0);
	size_t data = 64 * 256 * 4 + 64 / 32 * 18 * 32;
	memset(buf_reserve(out, data), 0, data);
	buf_commit(out, data);
	return header;
}

static void a_good_file_is_measured(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_good(&file);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_string_equal(out.architecture, "llama");
	assert_string_equal(out.flags, "");
	assert_int_equal(out.missing_bytes, 0);
	assert_int_equal(out.host.weights_bytes, 64 * 256 * 4 + 2 * (64 * 32 / 32 * 18)); /* mapped, and repacked */
	assert_int_equal(out.host.kv_bytes, 2 * 4096 * 2 * (32 * 2)); /* layers, cells, K and V, f16 */
	assert_int_equal(out.kv_bytes_per_token, 256);
	assert_int_equal(out.parameters, 64 * 256 + 64 * 32);
	assert_true(out.lower_bytes < out.base_bytes && out.base_bytes < out.upper_bytes);
	buf_release(&file);
}

/*
 * The walk follows the header's real size: so many reads as windows of it, whatever it counts up to,
 * and none of the data, however long it says that is.
 */
static void reads_follow_the_header_s_size(void **state)
{
	static const uint32_t tokens[] = { 10, 1000, 100000 };
	static const uint64_t large[] = { 1 << 20, 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++) {
		struct buf file = BUF_INIT;
		struct estimate_params params;
		struct estimate out;
		struct err err = { 0 };
		put_front(&file, 3, 1, ENTRIES + 1);
		put_llama_entries(&file);
		put_text(&file, "tokenizer.ggml.tokens");
		put(&file, ARRAY, 4);
		put(&file, TEXT, 4);
		put(&file, tokens[i], 8);
		for (uint32_t t = 0; t < tokens[i]; t++)
			put_text(&file, "word");
		put_tensor(&file, "blk.0.ffn_up.weight", 2, large, 0, 0);
		size_t header = buf_length(&file);
		memset(buf_reserve(&file, GGUF_WINDOW), 0, GGUF_WINDOW); /* the data's beginning */
		buf_commit(&file, GGUF_WINDOW);
		struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
		struct byte_source source = { &memory, memory_read, header + (UINT64_C(1) << 42) };
		estimate_defaults(&params);
		assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
		assert_in_range(memory.reads, 1, header / GGUF_WINDOW + 2);
		assert_in_range(memory.bytes, header, header + GGUF_WINDOW);
		buf_release(&file);
	}
	/* Counts beyond the file end the walk where the bytes end. */
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate out;
	struct err err = { 0 };
	put_front(&file, 3, 30000, 2000);
	put_llama_entries(&file);
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	estimate_defaults(&params);
	assert_true(estimate_gguf(&source, &params, &out, &err) < 0);
	assert_in_range(memory.reads, 1, 3);
	buf_release(&file);
}

static void a_header_cut_anywhere_is_told_as_cut(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;

	(void)state;
	size_t header = put_good(&file);
	for (size_t length = 0; length < header; length++) {
		struct err err = { 0 };
		char *cut = malloc(length ? length : 1); /* exact, so that a sanitizer sees a read beyond */
		assert_non_null(cut);
		memcpy(cut, buf_cstr(&file), length);
		int rc = estimate_bytes(cut, length, &out, &err);
		free(cut);
		assert_int_equal(rc, length > 0 && length < 4 ? -EBADMSG : -ENODATA);
		if (length >= 4)
			assert_non_null(strstr(err.text, "bytes are missing"));
	}
	buf_release(&file);
}

static void data_cut_is_estimated_and_told(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_good(&file);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file) - 1000, &out, &err), 0);
	assert_int_equal(out.missing_bytes, 1000);
	assert_string_equal(out.flags, "incomplete");
	buf_release(&file);
}

/* Each byte of the header replaced: any answer will do that is an answer. */
static void no_changed_byte_does_harm(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };

	(void)state;
	size_t header = put_good(&file);
	char *data = (char *)(uintptr_t)buf_cstr(&file);
	for (size_t i = 0; i < header; i++) {
		char kept = data[i];
		for (size_t v = 0; v < sizeof values; v++) {
			struct err err = { 0 };
			data[i] = (char)values[v];
			int rc = estimate_bytes(data, buf_length(&file), &out, &err);
			assert_true(rc == 0 || rc == -EBADMSG || rc == -ENODATA || rc == -ENOTSUP ||
			            rc == -EFBIG);
			assert_true(rc == 0 || err.text[0] != '\0');
			assert_true(rc < 0 || out.base_bytes > 0);
		}
		data[i] = kept;
	}
	buf_release(&file);
}

static void keys_before_the_architecture_are_found(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 2, 1, 5);
	put_number(&file, "llama.block_count", 2);
	put_number(&file, "llama.embedding_length", 64);
	put_number(&file, "llama.attention.head_count", 4);
	put_string(&file, "general.architecture", "llama");
	put_number(&file, "llama.feed_forward_length", 128);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_int_equal(out.layers, 2);
	buf_release(&file);
}

static void an_unknown_architecture_gets_an_upper_bound(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 2, 4);
	put_string(&file, "general.architecture", "wonder");
	put_number(&file, "wonder.block_count", 2);
	put_number(&file, "wonder.embedding_length", 64);
	put_number(&file, "wonder.attention.sliding_window", 16);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(&file, "blk.0.attn_k.weight", 2, key, 2, 64 * 256 * 4);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_non_null(strstr(out.flags, "unknown-architecture"));
	assert_int_equal(out.host.kv_bytes, 2 * 4096 * 2 * (32 * 2)); /* no window: all tokens kept */
	assert_true(out.confidence < 0.5);
	assert_true(out.sigma_bytes >= out.base_bytes / 100 * 15);
	/* But what such an engine sets aside to go back to, it sets aside of all layers, for what we know. */
	assert_true(out.upper_bytes >= out.base_bytes + 32 * 2 * 16 * 2 * (32 * 2));
	assert_int_equal(out.steady_bytes - out.base_bytes, CHECKPOINTS_A_TURN * 2 * 16 * 2 * (32 * 2));
	buf_release(&file);
}

/* Beside the latent of each layer lie the keys of its indexer. */
static void sparse_attention_has_a_second_cache(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 1, 11);
	put_string(&file, "general.architecture", "deepseek32");
	put_number(&file, "deepseek32.block_count", 2);
	put_number(&file, "deepseek32.embedding_length", 64);
	put_number(&file, "deepseek32.attention.head_count", 4);
	put_number(&file, "deepseek32.attention.head_count_kv", 1);
	put_number(&file, "deepseek32.attention.key_length", 576);
	put_number(&file, "deepseek32.attention.value_length", 512);
	put_number(&file, "deepseek32.attention.key_length_mla", 192);
	put_number(&file, "deepseek32.attention.value_length_mla", 128);
	put_number(&file, "deepseek32.attention.kv_lora_rank", 512);
	put_number(&file, "deepseek32.attention.indexer.key_length", 128);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_int_equal(out.host.kv_bytes, 2 * 4096 * (576 + 128) * 2);
	buf_release(&file);
}

/* What goes beside a model is no model, and says what to do with it. */
static void an_adapter_and_a_projector_are_told(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 1, 2);
	put_string(&file, "general.architecture", "llama");
	put_string(&file, "general.type", "adapter");
	put_tensor(&file, "blk.0.attn_k.weight.lora_a", 2, key, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "LoRA adapter of a llama model"));
	assert_non_null(strstr(err.text, "--lora"));
	buf_release(&file);
	put_front(&file, 3, 1, 1);
	put_string(&file, "general.architecture", "clip");
	put_tensor(&file, "v.patch_embd.weight", 2, key, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "--mmproj"));
	buf_release(&file);
}

static void a_number_of_0_is_told_as_such(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 1, 2);
	put_string(&file, "general.architecture", "llama");
	put_number(&file, "llama.block_count", 0);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "'llama.block_count' is 0"));
	buf_release(&file);
}

/* Of what the other parts hold nothing is known. */
static void one_of_many_parts_is_not_trusted(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 1, ENTRIES + 1);
	put_llama_entries(&file);
	put_number(&file, "split.count", 65535);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_non_null(strstr(out.flags, "part-of-split"));
	assert_true(out.confidence < 0.5);
	buf_release(&file);
}

/* What llama-server (build 11669) says of Mamba-2 layers beside attention on the CPU: 37.10 MiB; no shorter set of tensors. */
static void a_state_s_layer_on_the_cpu_is_one_graph(void **state)
{
	struct memory_source memory;
	struct estimate_params params;
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 1, 10);
	put_string(&file, "general.architecture", "falcon-h1");
	put_number(&file, "falcon-h1.block_count", 2);
	put_number(&file, "falcon-h1.embedding_length", 1024);
	put_number(&file, "falcon-h1.attention.head_count", 8);
	put_number(&file, "falcon-h1.attention.head_count_kv", 2);
	put_number(&file, "falcon-h1.ssm.conv_kernel", 4);
	put_number(&file, "falcon-h1.ssm.inner_size", 2048);
	put_number(&file, "falcon-h1.ssm.state_size", 128);
	put_number(&file, "falcon-h1.ssm.time_step_rank", 32);
	put_number(&file, "falcon-h1.ssm.group_count", 1);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	memory = (struct memory_source){ .data = buf_cstr(&file), .size = buf_length(&file) };
	estimate_defaults(&params);
	params.context = 512;
	params.slots = 1;
	assert_int_equal(estimate_gguf(&(struct byte_source){ &memory, memory_read, memory.size }, &params, &out, &err), 0);
	assert_in_range(out.host.compute_bytes, 3710 * (INT64_C(1) << 20) / 100 - 8192, 3721 * (INT64_C(1) << 20) / 100);
	buf_release(&file);
}

/* Of two layers one attends and one keeps a state: the tensors say which. */
static void an_unknown_hybrid_is_told_by_its_tensors(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 3, 7);
	put_string(&file, "general.architecture", "wonder");
	put_number(&file, "wonder.block_count", 2);
	put_number(&file, "wonder.embedding_length", 64);
	put_number(&file, "wonder.attention.head_count", 2);
	put_number(&file, "wonder.ssm.conv_kernel", 4);
	put_number(&file, "wonder.ssm.inner_size", 128);
	put_number(&file, "wonder.ssm.state_size", 16);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(&file, "blk.0.attn_k.weight", 2, key, 2, 64 * 256 * 4);
	put_tensor(&file, "blk.1.ssm_in.weight", 2, key, 2, 64 * 256 * 4 + 64 * 32 / 32 * 18);
	assert_int_equal(estimate_bytes(buf_cstr(&file), buf_length(&file), &out, &err), 0);
	assert_int_equal(out.host.kv_bytes, 4096 * 2 * (64 * 2)); /* keys of head_count are wider than the matrix */
	assert_int_equal(out.host.recurrent_bytes, 4 * (3 * 128 + 16 * 128));
	buf_release(&file);
}

/* The buffer, and zeros without end behind it. */
static int endless_read(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct memory_source *memory = ctx;
	char *to = out;

	memory->bytes += length;
	memset(to, 0, length);
	for (uint32_t i = 0; i < length && offset + i < memory->size; i++)
		to[i] = memory->data[offset + i];
	return 0;
}

static void many_short_texts_end_at_the_budget(void **state)
{
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };
	struct estimate_params params;

	(void)state;
	put_front(&file, 3, 0, 1);
	put_text(&file, "a");
	put(&file, ARRAY, 4);
	put(&file, TEXT, 4);
	put(&file, 1 << 27, 8);
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, endless_read, UINT64_C(1) << 40 };
	estimate_defaults(&params);
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), -EFBIG);
	assert_in_range(memory.bytes, 1, 129 * 1024 * 1024);
	buf_release(&file);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

struct heap_source {
	struct memory_source memory;
	size_t before, most; /* of the heap, at each read */
};

static int heap_read(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct heap_source *source = ctx;
	size_t now = heap_bytes();

	if (now - source->before > source->most)
		source->most = now - source->before;
	return endless_read(&source->memory, offset, out, length);
}

/* Whatever a header claims, and however long it is, one block of fixed size is all that is held. */
static void memory_does_not_follow_the_file(void **state)
{
	static const uint64_t claims[][3] = { { 0, 1, 1 << 27 }, { 1 << 14, 1 << 14, 0 }, { UINT64_C(1) << 62, 1, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); i++) {
		struct buf file = BUF_INIT;
		struct estimate out;
		struct err err = { 0 };
		struct estimate_params params;
		put_front(&file, 3, claims[i][0], claims[i][1]);
		put_text(&file, "a");
		put(&file, ARRAY, 4);
		put(&file, TEXT, 4);
		put(&file, claims[i][2], 8);
		struct heap_source heap = { .memory = { .data = buf_cstr(&file), .size = buf_length(&file) },
			                    .before = heap_bytes() };
		struct byte_source source = { &heap, heap_read, UINT64_C(1) << 40 };
		estimate_defaults(&params);
		assert_true(estimate_gguf(&source, &params, &out, &err) < 0);
		assert_in_range(heap.most, 0, 1 << 20);
		assert_in_range(heap_bytes() - heap.before, 0, 4096); /* and nothing stays */
		buf_release(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_file_is_measured),
		cmocka_unit_test(reads_follow_the_header_s_size),
		cmocka_unit_test(a_header_cut_anywhere_is_told_as_cut),
		cmocka_unit_test(data_cut_is_estimated_and_told),
		cmocka_unit_test(no_changed_byte_does_harm),
		cmocka_unit_test(keys_before_the_architecture_are_found),
		cmocka_unit_test(an_unknown_architecture_gets_an_upper_bound),
		cmocka_unit_test(an_unknown_hybrid_is_told_by_its_tensors),
		cmocka_unit_test(a_state_s_layer_on_the_cpu_is_one_graph),
		cmocka_unit_test(an_adapter_and_a_projector_are_told),
		cmocka_unit_test(a_number_of_0_is_told_as_such),
		cmocka_unit_test(one_of_many_parts_is_not_trusted),
		cmocka_unit_test(sparse_attention_has_a_second_cache),
		cmocka_unit_test(many_short_texts_end_at_the_budget),
		cmocka_unit_test(memory_does_not_follow_the_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
