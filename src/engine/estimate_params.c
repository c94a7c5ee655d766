#include "engine/estimate_params.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* "all" and "auto" are all of them: with --fit off there is nothing to be automatic about. */
static void take_layers(const char *value, int64_t *out)
{
	if (strcmp(value, "all") == 0 || strcmp(value, "auto") == 0 || value[0] == '-')
		*out = -1;
	else
		take_number(value, out);
}

/* -1, as all negative ones: no limit. */
static void take_cache(const char *value, int64_t *out)
{
	int64_t mib = 0;

	take_number(value, &mib);
	*out = value[0] == '-' ? -1 : mib << 20;
}

/* -1: the engine's own number of slots, with one cache for all of them. */
static void take_slots(const char *value, struct estimate_params *out)
{
	if (value[0] != '-') {
		take_number(value, &out->slots);
		return;
	}
	out->slots = 0;
	out->unified_kv = true;
}

static void take_override(const char *value, struct estimate_params *out)
{
	if (out->override_count < OVERRIDE_TEXTS_MOST)
		out->overrides[out->override_count++] = value;
}

enum { DRAFTED_OWN = 3 }; /* --spec-draft-n-max of its own */

/* An argument with a value; what does not change memory is passed over. */
static void take_pair(const char *arg, const char *value, struct estimate_params *out)
{
	if (is_flag(arg, "-c", "--ctx-size"))
		take_number(value, &out->context);
	else if (is_flag(arg, "-np", "--parallel"))
		take_slots(value, out);
	else if (is_flag(arg, "-b", "--batch-size"))
		take_number(value, &out->batch);
	else if (is_flag(arg, "-ub", "--ubatch-size"))
		take_number(value, &out->ubatch);
	else if (is_flag(arg, "-ctk", "--cache-type-k"))
		kv_type(value, &out->kv_k);
	else if (is_flag(arg, "-ctv", "--cache-type-v"))
		kv_type(value, &out->kv_v);
	else if (is_flag(arg, "-ctkd", "--cache-type-k-draft") || strcmp(arg, "--spec-draft-type-k") == 0)
		kv_type(value, &out->draft_kv_k);
	else if (is_flag(arg, "-ctvd", "--cache-type-v-draft") || strcmp(arg, "--spec-draft-type-v") == 0)
		kv_type(value, &out->draft_kv_v);
	else if (strcmp(arg, "--spec-draft-n-ubatch") == 0)
		take_number(value, &out->draft_ubatch);
	else if (is_flag(arg, "-fa", "--flash-attn"))
		take_flash(value, &out->flash);
	else if (is_flag(arg, "-lm", "--load-mode"))
		take_load_mode(value, &out->load);
	else if (is_flag(arg, "-ncmoe", "--n-cpu-moe"))
		take_number(value, &out->cpu_experts);
	else if (is_flag(arg, "-ngl", "--gpu-layers") || strcmp(arg, "--n-gpu-layers") == 0)
		take_layers(value, &out->gpu_layers);
	else if (is_flag(arg, "-dev", "--device") && strcmp(value, "none") == 0)
		out->device_there = false;
	else if (is_flag(arg, "-ot", "--override-tensor"))
		take_override(value, out);
	else if (strcmp(arg, "--image-max-tokens") == 0)
		take_number(value, &out->image_tokens);
	else if (is_flag(arg, "-ctxcp", "--ctx-checkpoints") || strcmp(arg, "--swa-checkpoints") == 0)
		take_number(value, &out->checkpoints);
	else if (strcmp(arg, "--spec-draft-n-max") == 0)
		take_number(value, &out->rollbacks);
	else if (strcmp(arg, "--spec-type") == 0 && strstr(value, "draft-") && out->rollbacks == 0)
		out->rollbacks = DRAFTED_OWN;
	else if (strcmp(arg, "--pooling") == 0)
		out->pooling = strcmp(value, "none") != 0;
	else if (is_flag(arg, "-cram", "--cache-ram"))
		take_cache(value, &out->cache_ram_bytes);
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
	else if (strcmp(arg, "--no-op-offload") == 0)
		out->no_op_offload = true;
	else if (strcmp(arg, "--swa-full") == 0)
		out->swa_full = true;
	else if (is_flag(arg, "-cmoe", "--cpu-moe"))
		out->cpu_experts = -1;
	else if (is_flag(arg, "-nkvo", "--no-kv-offload"))
		out->kv_on_host = true;
	else if (strcmp(arg, "--no-mmproj-offload") == 0)
		out->projector_on_host = true;
	else if (is_flag(arg, "--embedding", "--embeddings"))
		out->embeddings = true;
	else if (is_flag(arg, "--rerank", "--reranking"))
		out->pooling = 1;
}

bool engine_cpu_has_amx(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	/* CPUID.7.0:EDX, bits 24 and 25: tiles, and their products of 8-bit numbers. */
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3;
#else
	return false;
#endif
}

/* --device none, unless its arguments choose: as the adapter says it. */
static bool is_kept_off(const struct conf_model *model)
{
	return model->device && strcmp(model->device, "cpu") == 0 &&
	       !args_have(&model->args, "-dev --device -ngl --gpu-layers --n-gpu-layers");
}

/* Layers on the device, before what `args` say of it: -1 all, 0 none. */
static int64_t device_layers(const struct conf_model *model, const struct launch_choice *choice)
{
	return choice->has_devices && !(model->device && strcmp(model->device, "cpu") == 0) ? -1 : 0;
}

/*
 * What an engine's environment says in a flag's place (arg.cpp of llama.cpp), of those that the adapter does not
 * always give: a flag goes before it.
 */
static const struct {
	const char *name, *flag;
	const char *off; /* of a switch: its other; both take "1" and "0" */
} environment[] = {
	{ "LLAMA_ARG_BATCH", "-b", NULL },
	{ "LLAMA_ARG_UBATCH", "-ub", NULL },
	{ "LLAMA_ARG_FLASH_ATTN", "-fa", NULL },
	{ "LLAMA_ARG_CACHE_TYPE_K", "-ctk", NULL },
	{ "LLAMA_ARG_CACHE_TYPE_V", "-ctv", NULL },
	{ "LLAMA_ARG_N_CPU_MOE", "-ncmoe", NULL },
	{ "LLAMA_ARG_OVERRIDE_TENSOR", "-ot", NULL },
	{ "LLAMA_ARG_POOLING", "--pooling", NULL },
	{ "LLAMA_ARG_IMAGE_MAX_TOKENS", "--image-max-tokens", NULL },
	{ "LLAMA_ARG_SPEC_DRAFT_N_MAX", "--spec-draft-n-max", NULL },
	{ "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K", "-ctkd", NULL },
	{ "LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V", "-ctvd", NULL },
	{ "LLAMA_ARG_SPEC_DRAFT_N_UBATCH", "--spec-draft-n-ubatch", NULL },
	{ "LLAMA_ARG_SPEC_TYPE", "--spec-type", NULL },
	{ "LLAMA_ARG_CPU_MOE", "-cmoe", "" },
	{ "LLAMA_ARG_SWA_FULL", "--swa-full", "" },
	{ "LLAMA_ARG_EMBEDDINGS", "--embeddings", "" },
	{ "LLAMA_ARG_RERANKING", "--reranking", "" },
	{ "LLAMA_ARG_REPACK", "--repack", "-nr" },
	{ "LLAMA_ARG_KV_UNIFIED", "-kvu", "-no-kvu" },
	{ "LLAMA_ARG_KV_OFFLOAD", "--kv-offload", "-nkvo" },
	{ "LLAMA_ARG_MMPROJ_OFFLOAD", "--mmproj-offload", "--no-mmproj-offload" },
};

static bool is_one_of(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(value, *words) == 0)
			return true;
	return false;
}

static void take_environment(const struct conf_model *model, struct estimate_params *out)
{
	static const char *const yes[] = { "on", "enabled", "true", "1", NULL };
	static const char *const no[] = { "off", "disabled", "false", "0", NULL };

	for (size_t i = 0; i < model->env.count; i++) {
		for (size_t e = 0; e < sizeof(environment) / sizeof(*environment); e++) {
			const char *value = model->env.items[i].value;
			if (strcmp(model->env.items[i].name, environment[e].name) != 0)
				continue;
			if (!environment[e].off)
				take_pair(environment[e].flag, value, out);
			else if (is_one_of(value, yes))
				take_switch(environment[e].flag, out);
			else if (is_one_of(value, no))
				take_switch(environment[e].off, out);
		}
	}
}

/* whisper-server's own. */
static void take_hearing(const struct conf_model *model, struct estimate_params *out)
{
	int64_t best = 0, beam = 0;

	for (size_t i = 0; i + 1 < model->args.count; i++) {
		const char *arg = model->args.items[i], *value = model->args.items[i + 1];
		if (is_flag(arg, "-bo", "--best-of"))
			take_number(value, &best);
		else if (is_flag(arg, "-bs", "--beam-size"))
			take_number(value, &beam);
		else if (is_flag(arg, "-p", "--processors"))
			take_number(value, &out->processors);
	}
	out->decoders = best > beam ? best : beam;
}

/* The engine ignores -ngl where it has no device to put layers on. */
static void take_arguments(const struct conf_model *model, struct estimate_params *out)
{
	for (size_t i = 0; i < model->args.count; i++) {
		take_switch(model->args.items[i], out);
		if (i + 1 < model->args.count)
			take_pair(model->args.items[i], model->args.items[i + 1], out);
	}
	if (!out->device_there)
		out->gpu_layers = 0;
}

void engine_estimate_params(const struct conf_model *model, const struct launch_choice *choice,
                            struct estimate_params *out)
{
	estimate_defaults(out);
	out->context = choice->context * choice->slots;
	out->slots = choice->slots;
	out->gpu_layers = device_layers(model, choice);
	out->device_there = choice->has_devices && !is_kept_off(model);
	out->lazy_kv = choice->lazy;
	out->build = choice->release;
	out->kv_copies = choice->runs_cuda || (model->device && (strncmp(model->device, "CUDA", 4) == 0 ||
	                                                         strncmp(model->device, "ROCm", 4) == 0));
	out->amx = engine_cpu_has_amx();
	estimate_as_launched(out);
	out->launched = model->engine == CONF_ENGINE_LLAMA_SERVER;
	take_environment(model, out);
	if (model->experts_resident_bytes > 0) {
		out->experts_resident_bytes = model->experts_resident_bytes;
		out->cpu_experts = -1;
		out->load = LOAD_MMAP;
	}
	if (kv_type(model->kv_type, &out->kv_k)) {
		kv_type(model->kv_type, &out->kv_v);
		/* A quantised V cache needs flash attention; the adapter turns it on with it. */
		if (out->kv_v > KV_BF16)
			out->flash = FLASH_ON;
	}
	if (model->draft)
		out->rollbacks = DRAFTED_OWN;
	take_arguments(model, out);
	if (choice->ubatch > 0)
		out->ubatch = choice->ubatch;
	out->host_layers = choice->host_layers;
}

int engine_estimate_launch(const char *path, struct estimate_params *params,
                           const struct launch_batches *given, struct estimate *out, struct err *err)
{
	int64_t context = params->context / (params->slots > 0 ? params->slots : 1);
	int code = estimate_file(path, params, out, err);

	if (code < 0 || !out->is_encoder || context <= LLAMA_UBATCH)
		return code;
	if (!given->batch)
		params->batch = context;
	if (!given->ubatch)
		params->ubatch = context;
	params->embeddings = true;
	return estimate_file(path, params, out, err);
}

static int add_companion(const char *path, enum companion kind, const struct estimate_params *params,
                         struct estimate *out, struct err *err)
{
	return path ? estimate_companion(path, kind, params, out, err) : 0;
}

/* "FILE,FILE", or with what each is weighted by, "FILE:0.5,FILE:1". */
static int add_adapters(const char *list, const struct estimate_params *params, struct estimate *out, struct err *err)
{
	char path[4096];
	int code = 0;

	for (struct str rest = str_from(list); rest.length && code == 0;) {
		struct str one = str_cut(rest, ',', &rest);
		const char *colon = one.length ? memrchr(one.data, ':', one.length) : NULL;
		if (colon && strspn(colon + 1, "0123456789.-") >= one.length - (size_t)(colon + 1 - one.data))
			one.length = (size_t)(colon - one.data);
		if (one.length && str_copy(path, sizeof(path), one))
			code = add_companion(path, COMPANION_LORA, params, out, err);
	}
	return code;
}

/* The projector, adapters and draft that the configuration names, or its arguments in their place. */
static int add_companions(const struct conf_model *model, const struct estimate_params *params,
                          struct estimate *out, struct err *err)
{
	const char *projector = model->mmproj, *draft = model->draft;
	int code = 0;


	for (size_t i = 0; i + 1 < model->args.count && code == 0; i++) {
		const char *arg = model->args.items[i], *value = model->args.items[i + 1];
		if (is_flag(arg, "-mm", "--mmproj"))
			projector = value;
		else if (is_flag(arg, "-md", "--model-draft") || strcmp(arg, "--spec-draft-model") == 0)
			draft = value;
		else if (is_flag(arg, "--lora", "--lora-scaled"))
			code = add_adapters(value, params, out, err);
	}
	for (size_t i = 0; i < model->lora.count && code == 0; i++)
		code = add_companion(model->lora.items[i], COMPANION_LORA, params, out, err);
	if (code == 0)
		code = add_companion(projector, COMPANION_PROJECTOR, params, out, err);
	return code == 0 ? add_companion(draft, COMPANION_DRAFT, params, out, err) : code;
}

/* sd-server's own. */
static void take_drawing(const struct conf_model *model, struct estimate_params *out)
{
	for (size_t i = 0; i < model->args.count; i++) {
		const char *arg = model->args.items[i];
		if (strcmp(arg, "--diffusion-fa") == 0)
			out->image_flash = true;
		else if (strcmp(arg, "--vae-tiling") == 0)
			out->image_tiles = true;
		else if (strcmp(arg, "--type") == 0 && i + 1 < model->args.count)
			out->image_type = model->args.items[i + 1];
	}
}

/* What sd-server loads beside its model's file, as the arguments name it. */
static int estimate_sd(const struct conf_model *model, struct estimate *out, struct err *err)
{
	enum { PATHS_MAX = 32 };
	static const char *const flags[] = {
		"--vae", "--audio-vae", "--taesd", "--tae", "--clip_l", "--clip_g", "--clip_vision", "--t5xxl",
		"--llm", "--llm_vision", "--qwen2vl", "--qwen2vl_vision", "--diffusion-model",
		"--high-noise-diffusion-model", "--uncond-diffusion-model", "--control-net", "--photo-maker",
		"--upscale-model", "--embeddings-connectors", "-m", "--model",
	};
	const char *paths[PATHS_MAX] = { model->file };
	struct estimate_params params;
	uint32_t count = 1;

	estimate_defaults(&params);
	take_drawing(model, &params);

	for (size_t i = 0; i + 1 < model->args.count && count < PATHS_MAX; i++)
		for (size_t f = 0; f < sizeof(flags) / sizeof(*flags); f++)
			if (strcmp(model->args.items[i], flags[f]) == 0)
				paths[count++] = model->args.items[i + 1];
	return estimate_image(paths, count, &params, out, err);
}

void engine_tuning(const struct estimate *estimate, struct launch_tuning *out)
{
	*out = (struct launch_tuning){
		.is_encoder = estimate->is_encoder,
		.plain = estimate->plain_weights,
		.ubatch = (uint32_t)estimate->ubatch,
		.split = estimate->host_layers > 0,
		.cache_ram_mib = estimate->cache_limited ? (uint32_t)(estimate->cache_limit_bytes >> 20) : 0,
	};
	if (out->split)
		out->gpu_layers = (uint32_t)(estimate->layers + 1 - estimate->host_layers);
}

bool engine_batch_is_free(const struct conf_model *model)
{
	return model->engine == CONF_ENGINE_LLAMA_SERVER && !args_have(&model->args, "-ub --ubatch-size");
}

bool engine_layers_are_free(const struct conf_model *model)
{
	return model->engine == CONF_ENGINE_LLAMA_SERVER && (!model->device || strcmp(model->device, "auto") == 0) &&
	       !args_have(&model->args, "-ngl --gpu-layers --n-gpu-layers -dev --device -ts --tensor-split "
	                                "-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe");
}

int64_t engine_layers_to_spare(int64_t layers, int64_t room_bytes,
                               int64_t (*device_bytes)(void *ctx, int64_t host_layers), void *ctx)
{
	int64_t too_few = 0, enough = layers + 1;

	while (enough - too_few > 1) {
		int64_t middle = too_few + (enough - too_few) / 2;
		int64_t bytes = device_bytes(ctx, middle);
		if (bytes < 0)
			return 0;
		if (bytes <= room_bytes)
			enough = middle;
		else
			too_few = middle;
	}
	return enough;
}

int engine_estimate(const struct conf_model *model, const struct launch_choice *choice, struct estimate *out,
                    struct err *err)
{
	struct estimate_params params;
	struct launch_batches given = {
		.batch = args_have(&model->args, "-b --batch-size"),
		.ubatch = args_have(&model->args, "-ub --ubatch-size"),
	};

	if (model->engine == CONF_ENGINE_SD_SERVER)
		return estimate_sd(model, out, err);
	engine_estimate_params(model, choice, &params);
	if (model->engine == CONF_ENGINE_WHISPER_SERVER)
		take_hearing(model, &params);
	if (model->engine != CONF_ENGINE_LLAMA_SERVER)
		return estimate_file(model->file, &params, out, err);
	int code = engine_estimate_launch(model->file, &params, &given, out, err);
	if (code == 0)
		code = add_companions(model, &params, out, err);
	out->ubatch = choice->ubatch;
	out->host_layers = choice->host_layers;
	return code;
}
