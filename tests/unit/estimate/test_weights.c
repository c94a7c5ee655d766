/* In which form the weights lie in memory: rewritten for the processor, mapped, in part. */
#include "../cmocka_all.h"
#include "gguf_maker.h"

enum { ENTRIES = LLAMA_ENTRIES };

static const uint64_t embd[] = { 64, 256 };
static const uint64_t key[] = { 64, 32 };

/* With AMX a Q8_0 matrix has its sums beside it; read instead of mapped, that alone is added. */
static void a_processor_with_tiles_keeps_matrices_larger(void **state)
{
	static const uint64_t odd[] = { 64, 24 };
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate plain, tiled;
	struct err err = { 0 };
	int64_t key_bytes = 64 * 32 / 32 * 34, odd_bytes = 64 * 24 / 32 * 34, embedding_bytes = 64 * 256 * 2;

	(void)state;
	put_front(&file, 3, 3, ENTRIES);
	put_llama_entries(&file);
	put_tensor(&file, "token_embd.weight", 2, embd, 1, 0);
	put_tensor(&file, "blk.0.attn_k.weight", 2, key, 8, (uint64_t)embedding_bytes);
	put_tensor(&file, "blk.0.attn_q.weight", 2, odd, 8, (uint64_t)(embedding_bytes + key_bytes));
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	estimate_defaults(&params);
	for (int mode = LOAD_MMAP; mode <= LOAD_NONE; mode++) {
		params.load = (enum load_mode)mode;
		params.amx = false;
		assert_int_equal(estimate_gguf(&source, &params, &plain, &err), 0);
		params.amx = true;
		assert_int_equal(estimate_gguf(&source, &params, &tiled, &err), 0);
		assert_int_equal(plain.host.weights_bytes, embedding_bytes + key_bytes + odd_bytes);
		/* The embedding is the output as well: looked up in one form, multiplied in the other. */
		int64_t packed = mode == LOAD_MMAP ? key_bytes / 34 * 38 : key_bytes / 34 * 4;
		assert_int_equal(tiled.host.weights_bytes - plain.host.weights_bytes, packed + embedding_bytes);
	}
	params.repack = REPACK_OFF;
	assert_int_equal(estimate_gguf(&source, &params, &tiled, &err), 0);
	assert_int_equal(tiled.host.weights_bytes, plain.host.weights_bytes);
	buf_release(&file);
}

enum { MIXTURE_EMBEDDING = 64 * 256 * 4, MIXTURE_KEY = 64 * 32 / 32 * 18, MIXTURE_EXPERTS = 64 * 128 * 8 / 32 * 18 };

/* An embedding, a key, and eight experts of which two are used: so many bytes of each. */
static void put_mixture(struct buf *file)
{
	static const uint64_t up[] = { 64, 128, 8 };

	put_front(file, 3, 3, ENTRIES + 2);
	put_llama_entries(file);
	put_number(file, "llama.expert_count", 8);
	put_number(file, "llama.expert_used_count", 2);
	put_tensor(file, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(file, "blk.0.attn_k.weight", 2, key, 2, MIXTURE_EMBEDDING);
	put_tensor(file, "blk.0.ffn_up_exps.weight", 3, up, 2, MIXTURE_EMBEDDING + MIXTURE_KEY);
}

/* Mapped experts: what is kept of them counts, the rest as it is in the file, and what a token misses. */
static void experts_count_as_far_as_they_are_kept(void **state)
{
	int64_t embedding_bytes = MIXTURE_EMBEDDING, key_bytes = MIXTURE_KEY, expert_bytes = MIXTURE_EXPERTS;
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate all, part;
	struct err err = { 0 };

	(void)state;
	put_mixture(&file);
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	estimate_defaults(&params);
	params.load = LOAD_NONE;
	assert_int_equal(estimate_gguf(&source, &params, &all, &err), 0);
	assert_int_equal(all.experts.total_bytes, expert_bytes);
	assert_int_equal(all.experts.missed_bytes, 0);
	assert_int_equal(all.experts.mapped_bytes, 0);
	assert_int_equal(all.host.weights_bytes, embedding_bytes + key_bytes + expert_bytes);

	params.load = LOAD_MMAP;
	params.experts_resident_bytes = expert_bytes / 4;
	assert_int_equal(estimate_gguf(&source, &params, &part, &err), 0);
	assert_int_equal(part.host.weights_bytes, all.host.weights_bytes - expert_bytes / 4 * 3);
	/* What were rewritten would be plain memory, which nobody can take back: the key matrix is not either. */
	assert_true(part.plain_weights && !all.plain_weights);
	assert_int_equal(part.experts.mapped_bytes, part.host.weights_bytes);
	assert_int_equal(part.experts.active_bytes, expert_bytes / 4); /* 2 of 8 */
	assert_int_equal(part.experts.missed_bytes, expert_bytes / 4 / 4 * 3);

	/* What its engine may hold: all that was reckoned with, and something for the kernel; no bound where none is mapped. */
	assert_true(estimate_bound_bytes(&part) > part.upper_bytes);
	assert_true(estimate_bound_bytes(&part) < part.upper_bytes + (20 << 20));
	assert_int_equal(estimate_bound_bytes(&all), 0);

	/* Who has them rewritten all the same keeps all of them. */
	params.repack = REPACK_ON;
	assert_int_equal(estimate_gguf(&source, &params, &part, &err), 0);
	assert_int_equal(part.experts.mapped_bytes, 0);
	assert_int_equal(part.experts.resident_bytes, expert_bytes);
	assert_int_equal(part.host.weights_bytes, all.host.weights_bytes + key_bytes + expert_bytes);

	params.repack = REPACK_AUTO;
	params.load = LOAD_NONE;
	assert_int_equal(estimate_gguf(&source, &params, &part, &err), 0);
	assert_int_equal(part.experts.mapped_bytes, 0);
	assert_int_equal(part.host.weights_bytes, all.host.weights_bytes);
	assert_false(part.plain_weights);

	params.load = LOAD_MMAP;
	params.experts_resident_bytes = 10 * expert_bytes;
	assert_int_equal(estimate_gguf(&source, &params, &part, &err), 0);
	assert_int_equal(part.experts.resident_bytes, expert_bytes);
	assert_int_equal(part.experts.missed_bytes, 0);
	buf_release(&file);
}

/* Latent attention multiplies stacks of matrices: an engine that puts them into tiles ends with a failed assertion. */
static void a_stack_of_matrices_is_not_put_into_tiles(void **state)
{
	static const uint64_t stack[] = { 64, 32, 4 };
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 2, ENTRIES);
	put_llama_entries(&file);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(&file, "blk.0.attn_k_b.weight", 3, stack, 8, 64 * 256 * 4);
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	estimate_defaults(&params);
	params.load = LOAD_NONE;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_false(out.plain_weights);
	params.amx = true;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_true(out.plain_weights);
	assert_int_equal(out.host.weights_bytes, 64 * 256 * 4 + 64 * 32 * 4 / 32 * 34);
	params.gpu_layers = -1; /* on a device there are no tiles */
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_false(out.plain_weights);
	params.gpu_layers = 0;
	params.repack = REPACK_ON;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_false(out.plain_weights);
	buf_release(&file);
}

/*
 * Layers go to the device from the last on, the output before them. An embedding that is the output as well is
 * multiplied there and looked up on the host, so it lies in both. llama-server says the same of its buffers.
 */
static void layers_are_shared_out(void **state)
{
	static const uint64_t shape[] = { 64, 256 };
	int64_t embedding = 64 * 256 * 2, layer = 64 * 32 / 32 * 34;

	(void)state;
	for (int tied = 0; tied < 2; tied++) {
		struct buf file = BUF_INIT;
		struct estimate_params params;
		struct estimate out;
		struct err err = { 0 };

		put_front(&file, 3, tied ? 3 : 4, ENTRIES);
		put_llama_entries(&file);
		put_tensor(&file, "token_embd.weight", 2, embd, 1, 0);
		put_tensor(&file, "blk.0.attn_k.weight", 2, key, 8, (uint64_t)embedding);
		put_tensor(&file, "blk.1.attn_k.weight", 2, key, 8, (uint64_t)(embedding + layer));
		if (!tied)
			put_tensor(&file, "output.weight", 2, shape, 1, (uint64_t)(embedding + 2 * layer));
		struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
		struct byte_source source = { &memory, memory_read, memory.size };
		estimate_defaults(&params);
		for (params.gpu_layers = 1; params.gpu_layers <= 4; params.gpu_layers++) {
			int64_t moved = params.gpu_layers < 3 ? params.gpu_layers - 1 : 2;
			assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
			assert_int_equal(out.device.weights_bytes, embedding + moved * layer);
			assert_int_equal(out.host.weights_bytes, embedding + (2 - moved) * layer);
		}
		buf_release(&file);
	}
}

/*
 * llama.cpp's Vulkan backend (build 10434, on a processor) said so with -ngl 0 of a model of 8 x 128 wide caches:
 * 32.57 MiB at 4,096 tokens, 60.57 at 8,192, nothing with -ub 16 or --no-op-offload.
 */
static void a_device_without_layers_computes_batches_all_the_same(void **state)
{
	int64_t embedding = 64 * 256 * 4, layer = 64 * 32 / 32 * 18, context = 4096, k_bytes = context * 32 * 2;
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate out, twice;
	struct err err = { 0 };

	(void)state;
	put_front(&file, 3, 3, ENTRIES);
	put_llama_entries(&file);
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	put_tensor(&file, "blk.0.attn_k.weight", 2, key, 2, (uint64_t)embedding);
	put_tensor(&file, "blk.1.attn_k.weight", 2, key, 2, (uint64_t)(embedding + layer));
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	estimate_defaults(&params);
	params.context = context;
	params.slots = 1;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(out.device.total_bytes, 0);
	assert_int_equal(out.host.weights_bytes, embedding + 4 * layer); /* mapped, and rewritten */

	params.device_there = true;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(out.device.weights_bytes + out.device.kv_bytes, 0);
	assert_int_equal(out.host.weights_bytes, embedding + 2 * layer); /* nothing is rewritten where a device reads it */
	assert_true(out.device.overhead_bytes > 0); /* the driver's, as for any device */
	params.context = 2 * context;
	assert_int_equal(estimate_gguf(&source, &params, &twice, &err), 0);
	int64_t masks = context * 512 * 2;
	assert_int_equal(twice.device.compute_bytes - out.device.compute_bytes, 3 * k_bytes + masks);
	assert_int_equal(twice.host.compute_bytes - out.host.compute_bytes, masks);

	params.no_op_offload = true;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(out.device.compute_bytes, 0);
	params.no_op_offload = false;
	params.ubatch = 16;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(out.device.compute_bytes, 0);
	/* All layers kept off it so that the model fits: it is not used at all. */
	params.ubatch = 512;
	params.gpu_layers = -1;
	params.host_layers = out.layers + 1;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(out.device.total_bytes, 0);
	buf_release(&file);
}

/* -ot: by the names that a pattern is found in; the embedding is looked up on the host either way. */
static void weights_stay_on_the_host_by_name(void **state)
{
	static const struct {
		const char *texts[2];
		uint32_t count;
		bool keeps_experts, keeps_key, whole;
	} cases[] = {
		{ { "exps=CPU" }, 1, true, false, true },
		{ { "blk\\.0\\.ffn_(up|down)_exps=CPU" }, 1, true, false, true },
		{ { "blk\\.[1-9]\\.=CPU" }, 1, false, false, true },
		{ { "exps=CUDA0,.*=CPU" }, 1, false, true, true },
		{ { "exps=CPU", "attn_k=CPU" }, 2, true, true, true },
		{ { "attn_k\\d*=CPU,exps=CPU" }, 1, true, false, false },
		{ { "(=CPU" }, 1, false, false, false },
		{ { "exps" }, 1, false, false, false },
		{ { "token_embd=CPU" }, 1, false, false, true },
	};
	int64_t embedding_bytes = MIXTURE_EMBEDDING, key_bytes = MIXTURE_KEY, expert_bytes = MIXTURE_EXPERTS;
	struct buf file = BUF_INIT;
	struct estimate_params params;
	struct estimate out;
	struct err err = { 0 };

	(void)state;
	put_mixture(&file);
	struct memory_source memory = { .data = buf_cstr(&file), .size = buf_length(&file) };
	struct byte_source source = { &memory, memory_read, memory.size };
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		estimate_defaults(&params);
		params.gpu_layers = -1;
		params.overrides[0] = cases[i].texts[0];
		params.overrides[1] = cases[i].texts[1];
		params.override_count = cases[i].count;
		assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
		int64_t kept = (cases[i].keeps_experts ? expert_bytes : 0) + (cases[i].keeps_key ? key_bytes : 0);
		/* The output is the embedding once more. */
		assert_int_equal(out.device.weights_bytes, embedding_bytes + key_bytes + expert_bytes - kept);
		assert_int_equal(out.host.weights_bytes, embedding_bytes + kept);
		assert_int_equal(strstr(out.flags, "override-not-understood") == NULL, cases[i].whole);
	}
	/* What is multiplied where it lies is not copied to the device for a batch. */
	estimate_defaults(&params);
	params.gpu_layers = params.cpu_experts = -1;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	int64_t staged = out.device.compute_bytes;
	params.no_op_offload = true;
	assert_int_equal(estimate_gguf(&source, &params, &out, &err), 0);
	assert_int_equal(staged - out.device.compute_bytes, 3 * expert_bytes);
	buf_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_processor_with_tiles_keeps_matrices_larger),
		cmocka_unit_test(weights_stay_on_the_host_by_name),
		cmocka_unit_test(experts_count_as_far_as_they_are_kept),
		cmocka_unit_test(a_stack_of_matrices_is_not_put_into_tiles),
		cmocka_unit_test(layers_are_shared_out),
		cmocka_unit_test(a_device_without_layers_computes_batches_all_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
