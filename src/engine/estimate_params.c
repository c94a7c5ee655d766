#include "engine/estimate_params.h"

#include <string.h>

#include "base/units.h"
#include "engine/adapter.h"

static bool kv_type(const char *name, enum kv_cache_type *out)
{
	static const struct {
		const char *name;
		enum kv_cache_type type;
	} types[] = {
		{ "f32", KV_F32 },   { "f16", KV_F16 },   { "bf16", KV_BF16 },
		{ "q8_0", KV_Q8_0 }, { "q5_1", KV_Q5_1 }, { "q5_0", KV_Q5_0 },
		{ "q4_1", KV_Q4_1 }, { "q4_0", KV_Q4_0 }, { "iq4_nl", KV_IQ4_NL },
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(name, types[i].name) == 0) {
			*out = types[i].type;
			return true;
		}
	}
	return false;
}

static bool is_flag(const char *arg, const char *shorter, const char *longer)
{
	return strcmp(arg, shorter) == 0 || strcmp(arg, longer) == 0;
}

static void take_number(const char *value, int64_t *out)
{
	uint64_t number;

	if (str_to_u64(str_from(value), &number) && number < INT32_MAX)
		*out = (int64_t)number;
}

static void take_flash(const char *value, enum flash_attn *out)
{
	if (strcmp(value, "on") == 0 || strcmp(value, "1") == 0)
		*out = FLASH_ON;
	else if (strcmp(value, "off") == 0 || strcmp(value, "0") == 0)
		*out = FLASH_OFF;
	else if (strcmp(value, "auto") == 0)
		*out = FLASH_AUTO;
}

static void take_load_mode(const char *value, enum load_mode *out)
{
	if (strstr(value, "mmap"))
		*out = LOAD_MMAP;
	else if (strcmp(value, "none") == 0)
		*out = LOAD_NONE;
	else if (strcmp(value, "dio") == 0)
		*out = LOAD_DIO;
}

/* An argument with a value; what does not change memory is passed over. */
static void take_pair(const char *arg, const char *value, struct estimate_params *out)
{
	if (is_flag(arg, "-c", "--ctx-size"))
		take_number(value, &out->context);
	else if (is_flag(arg, "-np", "--parallel"))
		take_number(value, &out->slots);
	else if (is_flag(arg, "-b", "--batch-size"))
		take_number(value, &out->batch);
	else if (is_flag(arg, "-ub", "--ubatch-size"))
		take_number(value, &out->ubatch);
	else if (is_flag(arg, "-ctk", "--cache-type-k"))
		kv_type(value, &out->kv_k);
	else if (is_flag(arg, "-ctv", "--cache-type-v"))
		kv_type(value, &out->kv_v);
	else if (is_flag(arg, "-fa", "--flash-attn"))
		take_flash(value, &out->flash);
	else if (is_flag(arg, "-lm", "--load-mode"))
		take_load_mode(value, &out->load);
	else if (is_flag(arg, "-cram", "--cache-ram")) {
		int64_t mib = 0;
		take_number(value, &mib);
		out->cache_ram_bytes = mib << 20;
	}
}

static void take_switch(const char *arg, struct estimate_params *out)
{
	if (is_flag(arg, "-nr", "--no-repack"))
		out->repack = REPACK_OFF;
	else if (strcmp(arg, "--repack") == 0)
		out->repack = REPACK_ON;
	else if (is_flag(arg, "-kvu", "--kv-unified"))
		out->unified_kv = true;
	else if (is_flag(arg, "-no-kvu", "--no-kv-unified"))
		out->unified_kv = false;
	else if (is_flag(arg, "--embedding", "--embeddings"))
		out->embeddings = true;
}

void engine_estimate_params(const struct conf_model *model, int64_t context, int64_t slots,
                            struct estimate_params *out)
{
	estimate_defaults(out);
	out->context = context * slots;
	out->slots = slots;
	out->unified_kv = false;
	out->unified_given = true;
	out->gpu_layers = 0;
	out->load = LOAD_NONE;
	out->cache_ram_bytes = 0;
	if (kv_type(model->kv_type, &out->kv_k)) {
		kv_type(model->kv_type, &out->kv_v);
		/* A quantised V cache needs flash attention; the adapter turns it on with it. */
		if (out->kv_v > KV_BF16)
			out->flash = FLASH_ON;
	}
	for (size_t i = 0; i < model->args.count; i++) {
		take_switch(model->args.items[i], out);
		if (i + 1 < model->args.count)
			take_pair(model->args.items[i], model->args.items[i + 1], out);
	}
}

/* An encoder's batch holds its longest text, unless the arguments say otherwise. */
static void take_whole_texts(const struct conf_model *model, int64_t context,
                             struct estimate_params *params)
{
	if (!args_have(&model->args, "-b --batch-size"))
		params->batch = context;
	if (!args_have(&model->args, "-ub --ubatch-size"))
		params->ubatch = context;
	params->embeddings = true;
}

/*
 * We start engines with huge pages for malloc (GLIBC_TUNABLES): each large buffer
 * and each thread's heap rounds up to 2 MiB. Measured over plain pages: 6 MiB for
 * a model of 2 layers, 15 for 6, 25 for 30; the peak is to hold for all of them.
 */
enum { HUGE_PAGES_BASE = 20 << 20, HUGE_PAGES_PEAK = 28 << 20 };

static void add_huge_pages(struct estimate *out)
{
	out->host.overhead_bytes += HUGE_PAGES_BASE;
	out->host.total_bytes += HUGE_PAGES_BASE;
	out->base_bytes += HUGE_PAGES_BASE;
	out->steady_bytes += HUGE_PAGES_BASE;
	out->peak_bytes += HUGE_PAGES_PEAK;
	out->upper_bytes += HUGE_PAGES_PEAK;
}

int engine_estimate(const struct conf_model *model, int64_t context, int64_t slots,
                    struct estimate *out, struct err *err)
{
	struct estimate_params params;

	engine_estimate_params(model, context, slots, &params);
	int code = estimate_file(model->file, &params, out, err);
	if (code < 0 || model->engine != CONF_ENGINE_LLAMA_SERVER)
		return code;
	if (out->is_encoder && context > LLAMA_UBATCH) {
		take_whole_texts(model, context, &params);
		code = estimate_file(model->file, &params, out, err);
	}
	if (code == 0)
		add_huge_pages(out);
	return code;
}
