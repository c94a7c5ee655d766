#include "app/cli_estimate_args.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/estimate_params.h"
#include "engine/own_word.h"
#include "engine/words.h"

static const char *const kv_types[KV_TYPE_COUNT] = {
	[KV_F32] = "f32",   [KV_F16] = "f16",   [KV_BF16] = "bf16", [KV_Q8_0] = "q8_0",
	[KV_Q5_1] = "q5_1", [KV_Q5_0] = "q5_0", [KV_Q4_1] = "q4_1", [KV_Q4_0] = "q4_0",
	[KV_IQ4_NL] = "iq4_nl",
};

/* What an engine's int and its LLAMA_MAX_SEQ hold. */
static const struct {
	const char *option;
	size_t offset;
	int64_t least, most;
} numbers[] = {
	{ "context", offsetof(struct estimate_params, context), 1, INT32_MAX },
	{ "slots", offsetof(struct estimate_params, slots), 1, 256 },
	{ "batch", offsetof(struct estimate_params, batch), 1, 1 << 24 },
	{ "ubatch", offsetof(struct estimate_params, ubatch), 1, 1 << 24 },
	{ "outputs", offsetof(struct estimate_params, outputs), 0, 1 << 24 },
	{ "rollbacks", offsetof(struct estimate_params, rollbacks), 0, 1024 },
	{ "engine-build", offsetof(struct estimate_params, build), 1, INT32_MAX },
};

static int wrong(const char *option, const char *given, const char *wanted)
{
	return cli_fail(CLI_USAGE, "cotenant estimate --help", "estimate: --%s is %s, not '%.40s'", option,
	                wanted, given);
}

bool estimate_kv_type(const char *name, enum kv_cache_type *out)
{
	for (int i = 0; i < KV_TYPE_COUNT; i++)
		if (strcmp(kv_types[i], name) == 0) {
			*out = (enum kv_cache_type)i;
			return true;
		}
	return false;
}

const char *estimate_kv_type_name(enum kv_cache_type type)
{
	return kv_types[type];
}

/* "all" or a number. */
static bool find_layers(const char *text, int64_t *out)
{
	uint64_t number;

	if (strcmp(text, "all") == 0) {
		*out = -1;
		return true;
	}
	if (!str_to_u64(str_from(text), &number) || number > INT32_MAX)
		return false;
	*out = (int64_t)number;
	return true;
}

static int read_numbers(const struct cli_args *args, struct estimate_params *params)
{
	char wanted[64], given[32];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const struct cli_value *value = cli_value(args, numbers[i].option);
		if (!value->given)
			continue;
		if (value->number < numbers[i].least || value->number > numbers[i].most) {
			snprintf(wanted, sizeof(wanted), "a number from %" PRId64 " to %" PRId64, numbers[i].least,
			         numbers[i].most);
			snprintf(given, sizeof(given), "%" PRId64, value->number);
			return wrong(numbers[i].option, given, wanted);
		}
		memcpy((char *)params + numbers[i].offset, &value->number, sizeof(value->number));
	}
	return CLI_DONE;
}

static int read_switch(const struct cli_args *args, const char *name, bool *out)
{
	const struct cli_value *value = cli_value(args, name);

	if (!value->given)
		return CLI_DONE;
	if (strcmp(value->text, "on") != 0 && strcmp(value->text, "off") != 0)
		return wrong(name, value->text, "on or off");
	*out = value->text[1] == 'n';
	return CLI_DONE;
}

static int read_cache(const struct cli_args *args, struct estimate_params *params)
{
	static const char types[] = "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl";
	const struct cli_value *k = cli_value(args, "kv-type-k"), *v = cli_value(args, "kv-type-v"),
	                       *kv = cli_value(args, "kv");

	if (k->given && !estimate_kv_type(k->text, &params->kv_k))
		return wrong("kv-type-k", k->text, types);
	if (v->given && !estimate_kv_type(v->text, &params->kv_v))
		return wrong("kv-type-v", v->text, types);
	if (kv->given && strcmp(kv->text, "lazy") != 0 && strcmp(kv->text, "plain") != 0)
		return wrong("kv", kv->text, "plain or lazy");
	params->lazy_kv = kv->given && kv->text[0] == 'l';
	params->unified_given = cli_value(args, "unified-kv")->given;
	bool repack = true;
	int code = read_switch(args, "unified-kv", &params->unified_kv);
	if (code == CLI_DONE)
		code = read_switch(args, "repack", &repack);
	if (!repack)
		params->repack = REPACK_OFF;
	return code == CLI_DONE ? read_switch(args, "swa-full", &params->swa_full) : code;
}

static int read_flash(const struct cli_args *args, enum flash_attn *out)
{
	const struct cli_value *flash = cli_value(args, "flash-attn");

	if (!flash->given)
		return CLI_DONE;
	if (strcmp(flash->text, "on") == 0)
		*out = FLASH_ON;
	else if (strcmp(flash->text, "off") == 0)
		*out = FLASH_OFF;
	else if (strcmp(flash->text, "auto") != 0)
		return wrong("flash-attn", flash->text, "on, off or auto");
	return CLI_DONE;
}

int estimate_args(const struct cli_args *args, struct estimate_params *params)
{
	const struct cli_value *gpu = cli_value(args, "gpu-layers"),
	                       *experts = cli_value(args, "cpu-experts");

	estimate_defaults(params);
	params->amx = !cli_value(args, "root")->given && engine_cpu_has_amx();
	int code = read_numbers(args, params);
	if (code != CLI_DONE)
		return code;
	if (gpu->given && !find_layers(gpu->text, &params->gpu_layers))
		return wrong("gpu-layers", gpu->text, "all or a number");
	if (experts->given && !find_layers(experts->text, &params->cpu_experts))
		return wrong("cpu-experts", experts->text, "all or a number");
	code = read_flash(args, &params->flash);
	return code == CLI_DONE ? read_cache(args, params) : code;
}

static int add_beside(const struct cli_args *args, const struct estimate_params *params,
                      struct estimate *out, struct err *err)
{
	static const struct {
		const char *option;
		enum companion kind;
	} beside[] = { { "mmproj", COMPANION_PROJECTOR }, { "lora", COMPANION_LORA }, { "draft", COMPANION_DRAFT } };
	int code = 0;

	for (size_t i = 0; i < 3 && code == 0; i++) {
		const struct cli_value *value = cli_value(args, beside[i].option);
		if (value->given)
			code = estimate_companion(value->text, beside[i].kind, params, out, err);
	}
	return code;
}

int estimate_plain(const struct cli_args *args, const char *path, const struct estimate_params *params,
                   struct estimate *out, struct err *err)
{
	int code = estimate_file(path, params, out, err);
	return code == 0 ? add_beside(args, params, out, err) : code;
}

struct launching {
	const struct cli_args *args;
	const char *path;
	struct estimate_params params;
	struct launch_batches given;
};

static int launch(struct launching *launching, struct estimate *out, struct err *err)
{
	int code = engine_estimate_launch(launching->path, &launching->params, &launching->given, out, err);

	out->host_layers = launching->params.host_layers;
	return code == 0 ? add_beside(launching->args, &launching->params, out, err) : code;
}

static int64_t device_bytes_without(void *ctx, int64_t host_layers)
{
	struct launching *launching = ctx;
	struct estimate e;
	struct err err;

	launching->params.host_layers = host_layers;
	return launch(launching, &e, &err) < 0 ? -1 : e.device.total_bytes;
}

int estimate_launched(const struct cli_args *args, const char *path, const struct estimate_params *params,
                      const struct machine_room *room, struct estimate *out, struct err *err)
{
	bool free = !cli_value(args, "gpu-layers")->given;
	struct launching launching = {
		.args = args,
		.path = path,
		.params = *params,
		.given = { cli_value(args, "batch")->given, cli_value(args, "ubatch")->given },
	};

	if (free && room->has_devices)
		launching.params.gpu_layers = -1;
	launching.params.device_there = room->has_devices;
	launching.params.kv_copies = room->runs_cuda;
	estimate_as_launched(&launching.params);
	/* On the CPU the cache is lazy, unless the model's configuration says otherwise. */
	if (!cli_value(args, "kv")->given)
		launching.params.lazy_kv = launching.params.gpu_layers == 0;
	int code = launch(&launching, out, err);
	if (code < 0 || !free || !room->own_memory || out->device.total_bytes <= room->capacity_bytes)
		return code;
	launching.params.host_layers =
	        engine_layers_to_spare(out->layers, room->capacity_bytes, device_bytes_without, &launching);
	return launch(&launching, out, err);
}

/* What asking may take for its time: a device's context, and state that is allocated all the same. */
enum { ASKING_BYTES = 1 << 30 };

static void add_pair(struct words *words, const char *flag, int64_t value)
{
	words_add(words, flag);
	words_addf(words, "%" PRId64, value);
}

int estimate_ask_engine(const struct cli_args *args, const char *path, const struct estimate_params *params,
                        const struct machine_room *room, struct estimate *out, struct err *err)
{
	int64_t slots = params->slots > 0 ? params->slots : 1;
	int64_t context = params->context > 0 ? params->context / slots : out->trained_context;
	struct words flags = WORDS_INIT;
	struct launch_tuning tuning;
	struct own_word word;

	if (room->known && room->free_bytes < ASKING_BYTES)
		return err_set(err, -EBUSY, "too little memory is free to ask the engine");
	if (cli_value(args, "batch")->given)
		add_pair(&flags, "-b", params->batch);
	if (cli_value(args, "ubatch")->given)
		add_pair(&flags, "-ub", params->ubatch);
	if (params->gpu_layers > 0)
		add_pair(&flags, "-ngl", params->gpu_layers);
	if (params->repack == REPACK_OFF)
		words_add(&flags, "--no-repack");
	if (params->flash != FLASH_AUTO) {
		words_add(&flags, "-fa");
		words_add(&flags, params->flash == FLASH_ON ? "on" : "off");
	}
	words_add(&flags, "-ctk");
	words_add(&flags, kv_types[params->kv_k]);
	words_add(&flags, "-ctv");
	words_add(&flags, kv_types[params->kv_v]);
	struct conf_model model = {
		.name = (char *)"estimate",
		.engine = CONF_ENGINE_LLAMA_SERVER,
		.engine_name = (char *)"llama-server",
		.engine_path = (char *)cli_value(args, "engine")->text,
		.file = (char *)path,
		.mmproj = (char *)cli_value(args, "mmproj")->text,
		.draft = (char *)cli_value(args, "draft")->text,
		.kv_type = (char *)"f16",
		.device = (char *)(params->gpu_layers == 0 ? "cpu" : params->gpu_layers < 0 ? "gpu" : "auto"),
		.args = { flags.items, flags.count },
	};
	engine_tuning(out, &tuning);
	int code = own_word_ask(&model, context, slots, &tuning, OWN_WORD_DEADLINE_MS, NULL,
	                        &word, err);
	words_release(&flags);
	if (code == 0)
		own_word_use(&word, out);
	return code;
}
