/* What a start puts where: the estimate of a launch follows its flags. */
#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/estimate_params.h"
#include "models.h"

#define MIB (1024.0 * 1024.0)

static void params_of(const char *settings, bool has_devices, struct estimate_params *out)
{
	const struct launch_choice choice = { .context = 4096, .slots = 2, .has_devices = has_devices };
	char yaml[400];

	snprintf(yaml, sizeof(yaml), "models: {a: {engine: llama-server, file: /m/a.gguf, %s}}\n", settings);
	struct conf *conf = conf_from(yaml);
	engine_estimate_params(&conf->models[0], &choice, out);
	conf_free(conf);
}

static int64_t layers_of(const char *settings, bool has_devices)
{
	struct estimate_params params;

	params_of(settings, has_devices, &params);
	return params.gpu_layers;
}

static void layers_go_where_the_launch_puts_them(void **state)
{
	(void)state;
	assert_int_equal(layers_of("slots: 1", true), -1);
	assert_int_equal(layers_of("device: gpu", true), -1);
	assert_int_equal(layers_of("device: Vulkan1", true), -1);
	assert_int_equal(layers_of("device: cpu", true), 0);
	assert_int_equal(layers_of("device: gpu", false), 0);
	assert_int_equal(layers_of("args: \"-ngl 5\"", true), 5);
	assert_int_equal(layers_of("args: \"--gpu-layers 5\"", true), 5);
	assert_int_equal(layers_of("args: \"--n-gpu-layers all\"", true), -1);
	assert_int_equal(layers_of("args: \"-ngl 5\"", false), 0);
	assert_int_equal(layers_of("args: \"-dev none\"", true), 0);
	assert_int_equal(layers_of("device: cpu, args: \"-ngl 7\"", true), 7);
}

static bool sees_device(const char *settings, bool has_devices)
{
	struct estimate_params params;

	params_of(settings, has_devices, &params);
	return params.device_there;
}

/* Without layers of its own it still computes what lies on the host. */
static void a_device_is_there_unless_it_is_kept_from_the_engine(void **state)
{
	(void)state;
	assert_true(sees_device("slots: 1", true));
	assert_true(sees_device("args: \"-ngl 0\"", true));
	assert_true(sees_device("device: cpu, args: \"-ngl 0\"", true));
	assert_false(sees_device("device: cpu", true));
	assert_false(sees_device("args: \"-dev none\"", true));
	assert_false(sees_device("args: \"-ngl 0\"", false));
}

static void flags_that_move_memory_are_followed(void **state)
{
	struct estimate_params params;
	(void)state;

	params_of("args: \"-ncmoe 3\"", true, &params);
	assert_int_equal(params.cpu_experts, 3);
	params_of("args: \"-ot exps=CPU --override-tensor attn=CPU\"", true, &params);
	assert_int_equal(params.override_count, 2);
	params_of("args: \"--no-op-offload --no-mmproj-offload --image-max-tokens 900\"", true, &params);
	assert_true(params.no_op_offload && params.projector_on_host);
	assert_int_equal(params.image_tokens, 900);
	params_of("env: {LLAMA_ARG_UBATCH: \"2048\", LLAMA_ARG_KV_UNIFIED: \"1\", LLAMA_ARG_KV_OFFLOAD: off}", true, &params);
	assert_int_equal(params.ubatch, 2048);
	assert_true(params.unified_kv && params.kv_on_host);
	params_of("env: {LLAMA_ARG_UBATCH: \"2048\"}, args: \"-ub 64\"", true, &params);
	assert_int_equal(params.ubatch, 64);
	params_of("args: \"-nkvo\"", true, &params);
	assert_true(params.kv_on_host);
	params_of("experts: {resident: 1GiB}", true, &params);
	assert_int_equal(params.experts_resident_bytes, 1 << 30);
	assert_int_equal(params.cpu_experts, -1);
	assert_int_equal(params.load, LOAD_MMAP);
	params_of("args: \"-ctxcp 7\"", true, &params);
	assert_int_equal(params.checkpoints, 7);
	params_of("slots: 1", true, &params);
	assert_int_equal(params.checkpoints, CHECKPOINTS_A_TURN);
	assert_int_equal(params.context, 8192);
}

/* A recorded model's file as launched on a machine with a GPU. */
static struct conf *recorded(const char *key, const char *settings)
{
	char yaml[1000];

	snprintf(yaml, sizeof(yaml), "models: {a: {engine: llama-server, slots: 1, file: \"%s/estimator/%s.gguf\", %s}}\n",
	         getenv("COTENANT_TEST_DATA"), key, settings);
	return conf_from(yaml);
}

static void estimate_with(const struct conf *conf, int64_t context, int64_t host_layers, struct estimate *out)
{
	const struct launch_choice choice = { .context = context, .slots = 1, .has_devices = true,
		                              .host_layers = host_layers };
	struct err err;

	if (engine_estimate(&conf->models[0], &choice, out, &err) < 0)
		fail_msg("%s", err.text);
}

static double off(int64_t bytes, double mib)
{
	double value = (double)bytes / MIB - mib;
	return value < 0 ? -value : value;
}

/* Lines of allocator.tsv, which the engine's own allocator reserved with all layers on its device. */
static void all_on_the_device_is_what_was_recorded(void **state)
{
	static const struct {
		const char *key, *settings;
		double context_mib, compute_mib;
	} rows[] = {
		{ "qwen3-8b", "args: \"-ub 512 -fa on\"", 576.0, 100.01 },
		{ "mixtral-8x7b", "args: \"-ub 512 -fa on\"", 512.0, 196.01 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct conf *conf = recorded(rows[i].key, rows[i].settings);
		struct estimate e;
		estimate_with(conf, 4096, 0, &e);
		assert_true(off(e.device.kv_bytes, rows[i].context_mib) < 0.01);
		assert_true(off(e.device.compute_bytes, rows[i].compute_mib) < 0.03 * rows[i].compute_mib);
		assert_int_equal(e.host.kv_bytes, 0);
		conf_free(conf);
	}
}

/* A recurrent model's turn leaves as many copies of its state as the launch allows. */
static void what_a_turn_leaves_is_a_request_s(void **state)
{
	struct conf *conf = recorded("mamba-2.8b", "weight: 1"), *fewer = recorded("mamba-2.8b", "args: \"-ctxcp 1\"");
	struct estimate e;
	(void)state;

	estimate_with(conf, 4096, 0, &e);
	assert_true(e.device.recurrent_bytes > 0);
	assert_int_equal(e.per_request_bytes, CHECKPOINTS_A_TURN * e.device.recurrent_bytes);
	assert_true(e.peak_bytes >= e.base_bytes + e.per_request_bytes);
	estimate_with(fewer, 4096, 0, &e);
	assert_int_equal(e.per_request_bytes, e.device.recurrent_bytes);
	conf_free(conf);
	conf_free(fewer);
}

static void a_prompt_cache_that_is_allowed_is_counted(void **state)
{
	struct conf *plain = recorded("qwen3-8b", "device: cpu"), *keeps = recorded("qwen3-8b", "args: \"--cache-ram 512\"");
	struct estimate without, with;
	(void)state;

	estimate_with(plain, 4096, 41, &without);
	estimate_with(keeps, 4096, 41, &with);
	assert_int_equal(without.cache_limit_bytes, 0);
	assert_int_equal(with.base_bytes - without.base_bytes, 512 << 20);
	assert_true(with.peak_bytes - without.peak_bytes >= 512 << 20);
	conf_free(plain);
	conf_free(keeps);
}

/* Without a limit it would grow as it likes, or be counted as none: it gets one. */
static void a_prompt_cache_without_a_limit_gets_one(void **state)
{
	struct conf *plain = recorded("qwen3-8b", "device: cpu"), *keeps = recorded("qwen3-8b", "device: cpu, args: \"-cram -1\"");
	struct estimate without, with;
	struct launch_tuning tuning;
	(void)state;

	estimate_with(plain, 4096, 41, &without);
	estimate_with(keeps, 4096, 41, &with);
	assert_true(with.cache_limit_bytes >= without.host.kv_bytes);
	assert_int_equal(with.base_bytes - without.base_bytes, with.cache_limit_bytes);
	assert_non_null(strstr(with.flags, "prompt-cache-limited"));
	engine_tuning(&with, &tuning);
	assert_int_equal(tuning.cache_ram_mib, with.cache_limit_bytes >> 20);
	engine_tuning(&without, &tuning);
	assert_int_equal(tuning.cache_ram_mib, 0);
	conf_free(plain);
	conf_free(keeps);
}

/* A decoder's embeddings are one for each token unless they are pooled, and each has its logits. */
static void embeddings_that_are_not_pooled_have_their_logits(void **state)
{
	struct conf *plain = recorded("llama2-7b", "device: cpu"), *pooled = recorded("llama2-7b", "device: cpu, args: \"--embeddings --pooling mean\"");
	struct conf *each = recorded("llama2-7b", "device: cpu, args: \"--embeddings\"");
	const int64_t logits = 512 * INT64_C(32000) * 4, stream = 512 * 4096 * 4, mask = 512 * 4096 * 2;
	struct estimate none, one, all;
	(void)state;

	estimate_with(plain, 4096, 33, &none);
	estimate_with(pooled, 4096, 33, &one);
	estimate_with(each, 4096, 33, &all);
	assert_int_equal(one.base_bytes, none.base_bytes);
	assert_in_range(all.host.compute_bytes, logits + 6 * stream + mask, logits + 6 * stream + mask + (1 << 20));
	assert_true(all.base_bytes >= none.base_bytes - none.host.compute_bytes + all.host.compute_bytes + 511 * 32000 * 4);
	conf_free(plain);
	conf_free(pooled);
	conf_free(each);
}

/* Its graph has room for so many nodes a token: 50 KiB of tables for each, which a longer batch pays for. */
static void a_delta_net_s_tables_follow_its_batch(void **state)
{
	struct conf *usual = recorded("qwen3next-80b", "device: cpu, args: \"-ub 1024\""), *longer = recorded("qwen3next-80b", "device: cpu, args: \"-ub 2048\"");
	struct estimate few, many;
	(void)state;

	estimate_with(usual, 4096, 0, &few);
	estimate_with(longer, 4096, 0, &many);
	assert_true(many.host.overhead_bytes - few.host.overhead_bytes >= 1024 * INT64_C(50) * 1024);
	conf_free(usual);
	conf_free(longer);
}

static void numbers_below_nought_are_the_engine_s_own(void **state)
{
	struct estimate_params params;
	(void)state;

	params_of("args: \"-np -1\"", false, &params);
	assert_int_equal(params.slots, 0);
	assert_true(params.unified_kv);
	params_of("device: cpu, args: \"-ngl -1\"", true, &params);
	assert_int_equal(params.gpu_layers, -1);
}

/* Its caches are not of its model's types, and a prompt cache is there once. */
static void a_draft_has_types_of_its_own(void **state)
{
	char settings[3][600];
	static const char *const args[] = { "", "-ctk q8_0 -ctv q8_0 -fa on", "-ctkd q8_0 -ctvd q8_0 --cache-ram 512" };
	int64_t kv[3];
	(void)state;

	for (int i = 0; i < 3; i++) {
		struct estimate e;
		snprintf(settings[i], sizeof(settings[i]), "device: cpu, draft: \"%s/estimator/qwen3-8b.gguf\", args: \"%s\"",
		         getenv("COTENANT_TEST_DATA"), args[i]);
		struct conf *conf = recorded("qwen3-8b", settings[i]);
		estimate_with(conf, 4096, 41, &e);
		kv[i] = e.host.kv_bytes;
		assert_int_equal(e.cache_limit_bytes, i == 2 ? 512 << 20 : 0);
		conf_free(conf);
	}
	assert_int_equal(kv[1], kv[2]);
	assert_int_equal(kv[1], kv[0] / 2 + kv[0] / 2 * 17 / 32);
}

/* Layer by layer: the device's caches and weights fall, the host's rise by as much, nothing is lost. */
static void a_split_moves_layers_and_loses_nothing(void **state)
{
	struct conf *conf = recorded("qwen3-8b", "context: 4096");
	struct estimate all, e, before;
	struct device_share share;
	(void)state;

	estimate_with(conf, 4096, 0, &all);
	before = all;
	for (int64_t host = 1; host <= all.layers + 1; host++) {
		estimate_with(conf, 4096, host, &e);
		assert_int_equal(e.host_layers, host);
		assert_int_equal(e.device.kv_bytes + e.host.kv_bytes, all.device.kv_bytes);
		int64_t on_host = host > all.layers ? all.layers : host;
		assert_int_equal(e.device.kv_bytes, all.device.kv_bytes / all.layers * (all.layers - on_host));
		assert_true(host == 1 || e.device.total_bytes <= before.device.total_bytes);
		estimate_on_device(&e, &share);
		assert_int_equal(share.base_bytes, e.device.total_bytes);
		assert_true(share.sigma_bytes <= e.sigma_bytes && share.lower_bytes <= e.lower_bytes);
		before = e;
	}
	assert_int_equal(e.device.total_bytes, 0);
	conf_free(conf);
}

struct ladder {
	int64_t bytes[8];
	int asked;
};

static int64_t bytes_without(void *ctx, int64_t host_layers)
{
	struct ladder *ladder = ctx;

	ladder->asked++;
	return ladder->bytes[host_layers];
}

static void as_many_layers_as_fit(void **state)
{
	struct ladder ladder = { .bytes = { 80, 70, 60, 50, 40, 30, 20, 0 } };
	(void)state;

	assert_int_equal(engine_layers_to_spare(6, 55, bytes_without, &ladder), 3);
	assert_int_equal(engine_layers_to_spare(6, 70, bytes_without, &ladder), 1);
	assert_int_equal(engine_layers_to_spare(6, 5, bytes_without, &ladder), 7);
	assert_true(ladder.asked <= 9);
	ladder.bytes[1] = ladder.bytes[2] = ladder.bytes[3] = ladder.bytes[4] = -1;
	assert_int_equal(engine_layers_to_spare(6, 55, bytes_without, &ladder), 0);
}

static void nobody_splits_what_somebody_placed(void **state)
{
	static const struct {
		const char *settings;
		bool free;
	} rows[] = {
		{ "weight: 1", true },          { "device: auto", true },         { "device: gpu", false },
		{ "device: cpu", false },       { "args: \"-ngl 3\"", false },    { "args: \"-cmoe\"", false },
		{ "args: \"-ts 1,2\"", false }, { "args: \"-ot x=CPU\"", false },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct conf *conf = recorded("qwen3-8b", rows[i].settings);
		assert_int_equal(engine_layers_are_free(&conf->models[0]), rows[i].free);
		conf_free(conf);
	}
}

static void the_start_follows_the_estimate(void **state)
{
	const struct estimate split = { .layers = 32, .host_layers = 10, .ubatch = 128 };
	const struct estimate whole = { .layers = 32, .plain_weights = true };
	struct launch_tuning tuning;
	(void)state;

	engine_tuning(&split, &tuning);
	assert_true(tuning.split && !tuning.plain);
	assert_int_equal(tuning.gpu_layers, 23);
	assert_int_equal(tuning.ubatch, 128);
	engine_tuning(&whole, &tuning);
	assert_true(!tuning.split && tuning.plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_go_where_the_launch_puts_them),
		cmocka_unit_test(a_device_is_there_unless_it_is_kept_from_the_engine),
		cmocka_unit_test(flags_that_move_memory_are_followed),
		cmocka_unit_test(all_on_the_device_is_what_was_recorded),
		cmocka_unit_test(what_a_turn_leaves_is_a_request_s),
		cmocka_unit_test(a_prompt_cache_that_is_allowed_is_counted),
		cmocka_unit_test(a_prompt_cache_without_a_limit_gets_one),
		cmocka_unit_test(embeddings_that_are_not_pooled_have_their_logits),
		cmocka_unit_test(a_delta_net_s_tables_follow_its_batch),
		cmocka_unit_test(numbers_below_nought_are_the_engine_s_own),
		cmocka_unit_test(a_draft_has_types_of_its_own),
		cmocka_unit_test(a_split_moves_layers_and_loses_nothing),
		cmocka_unit_test(as_many_layers_as_fit),
		cmocka_unit_test(nobody_splits_what_somebody_placed),
		cmocka_unit_test(the_start_follows_the_estimate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
