#include "app/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/dirs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "core/arbiter.h"
#include "engine/estimate_params.h"
#include "engine/own_word.h"

/*
 * Two files are the same model where device, inode, size and time of change
 * agree: what was learned of one is not believed of its successor.
 */
static uint64_t file_key(const struct conf_model *model)
{
	struct stat st;
	const char *path = model->file ? model->file : model->name;

	if (!model->file || stat(model->file, &st) < 0)
		return str_hash(str_from(path));
	uint64_t parts[] = { (uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
		             (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
	return str_hash((struct str){ (const char *)parts, sizeof(parts) });
}

static int64_t file_bytes(const struct conf_model *model)
{
	struct stat st;

	return model->file && stat(model->file, &st) == 0 ? st.st_size : 0;
}

/* stat(2) of a program as exec would find it: a name without a slash is sought in PATH. */
static bool stat_program(const char *program, struct stat *out)
{
	char path[DIR_PATH_MAX];
	struct str rest = str_from(getenv("PATH"));

	if (strchr(program, '/') || !rest.data)
		return stat(program, out) == 0;
	while (rest.data) {
		struct str folder = str_cut(rest, ':', &rest);
		int length = snprintf(path, sizeof(path), "%.*s/%s", STR_ARG(folder), program);
		if (length > 0 && (size_t)length < sizeof(path) && stat(path, out) == 0)
			return true;
	}
	return false;
}

/*
 * What was measured holds for this engine started this way. The program stands
 * for its build by path, size and time of change, as a file does.
 */
static uint64_t build_key(const struct conf_model *model)
{
	struct buf text = BUF_INIT;
	struct stat st;
	const char *program = model->engine_path ? model->engine_path : model->engine_name;

	buf_printf(&text, "%s %lld %lld %s %d", program, (long long)model->slots,
	           (long long)model->context_max, model->kv_type, (int)model->kv);
	if (stat_program(program, &st))
		buf_printf(&text, " %lld %lld", (long long)st.st_size,
		           (long long)st.st_mtim.tv_sec);
	for (size_t i = 0; i < model->args.count; i++)
		buf_printf(&text, " %s", model->args.items[i]);
	if (model->cmd)
		buf_printf(&text, " %s", model->cmd);
	if (model->url)
		buf_printf(&text, " %s", model->url);
	uint64_t key = str_hash(buf_str(&text));
	buf_release(&text);
	return key;
}

/* The engine alone, whatever it is started with. */
static uint64_t engine_key(const struct conf_model *model)
{
	const char *program = model->engine_path ? model->engine_path : model->engine_name;
	struct buf text = BUF_INIT;
	struct stat st = { 0 };

	stat_program(program, &st);
	buf_printf(&text, "%s %lld %lld %s", program, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
	           model->device);
	uint64_t key = str_hash(buf_str(&text));
	buf_release(&text);
	return key;
}

static void set_host_bytes(struct amount *amount, int64_t bytes)
{
	*amount = (struct amount){ 0 };
	amount->bytes[0][USE_HOST] = bytes;
}

static void fill_from_conf(const struct conf_model *model, struct model_spec *spec)
{
	str_copy(spec->name, sizeof(spec->name), str_from(model->name));
	spec->file_key = file_key(model);
	spec->build_key = build_key(model);
	spec->present = 1;
	spec->flags = (model->pin ? MODEL_PINNED : 0) | (model->preload ? MODEL_PRELOAD : 0) |
	              (model->autoload ? MODEL_AUTOLOAD : 0);
	spec->priority = model->priority;
	spec->weight_milli = model->weight_milli;
	spec->slots = (uint32_t)model->slots;
	spec->queue = (uint32_t)model->queue;
	spec->engine_kind = (uint32_t)model->engine;
	/* By power: the shell fills it in. */
	spec->unload_after_us = model->unload_after_us == CONF_BY_POWER ? -1 : model->unload_after_us;
	spec->drain_timeout_us = model->drain_timeout_us;
	spec->load_timeout_us = model->stall_timeout_us;
}

/*
 * `auto`: the model's own context, halved until the model fits alone; the
 * engine would take the trained context whole and reserve KV for all of it.
 */
enum { CONTEXT_LEAST = 2048, CONTEXT_UNKNOWN = 4096 };

static int estimate_fitting(const struct conf_model *model, int64_t room_bytes, bool lazy, int64_t *context,
                            struct estimate *out, struct err *err)
{
	int64_t tokens = model->context_max > 0 ? model->context_max : CONTEXT_UNKNOWN;
	int code = engine_estimate(model, tokens, model->slots, lazy, out, err);

	if (code < 0 || model->context_max != CONF_AUTO) {
		*context = tokens;
		return code;
	}
	if (out->trained_context > 0)
		tokens = out->trained_context;
	for (code = engine_estimate(model, tokens, model->slots, lazy, out, err);
	     code == 0 && out->steady_bytes > room_bytes && tokens / 2 >= CONTEXT_LEAST;
	     code = engine_estimate(model, tokens, model->slots, lazy, out, err))
		tokens /= 2;
	*context = tokens;
	return code;
}

/*
 * Where the peak is over all the room there is: a smaller physical batch makes the compute
 * buffers smaller and prompts slower. Kept where it makes the model fit.
 */
static void try_smaller_batches(const struct conf_model *model, int64_t room_bytes, bool lazy, int64_t context,
                                struct estimate *out)
{
	static const int64_t batches[] = { 256, 128, 64, 32 };
	struct estimate small;
	struct err err;

	if (out->peak_bytes <= room_bytes || out->is_encoder || !engine_batch_is_free(model))
		return;
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		if (engine_estimate_small(model, context, model->slots, lazy, batches[i], &small, &err) < 0)
			return;
		if (small.peak_bytes <= room_bytes) {
			*out = small;
			return;
		}
	}
}

static void use_estimate(struct catalogue_row *row, int64_t context)
{
	const struct estimate *estimate = &row->estimate;
	struct model_spec *spec = &row->spec;

	/* Speech and pictures have no context that anybody could choose. */
	spec->context_tokens =
	        spec->engine_kind == CONF_ENGINE_LLAMA_SERVER ? (uint32_t)context : 0;
	set_host_bytes(&spec->base, estimate->base_bytes);
	set_host_bytes(&spec->per_request, estimate->per_request_bytes);
	set_host_bytes(&spec->peak, estimate->peak_bytes > estimate->base_bytes
	                                    ? estimate->peak_bytes
	                                    : estimate->base_bytes);
	set_host_bytes(&spec->sigma, estimate->sigma_bytes);
	set_host_bytes(&spec->lower, estimate->lower_bytes);
}

static void note_formula(const struct conf_model *model, struct catalogue_row *row)
{
	const struct estimate *e = &row->estimate;
	int64_t compute = e->device.compute_bytes + e->host.compute_bytes;

	row->keys = (struct correction_keys){
		.build = engine_key(model),
		.model = row->spec.file_key,
		.params = row->spec.build_key ^ (uint64_t)row->spec.context_tokens << 32,
	};
	row->formula = (struct formula_parts){
		.fixed_bytes = e->base_bytes - compute,
		.compute_bytes = compute,
		.on_device = e->device.total_bytes > 0,
	};
}

void catalogue_correct(struct catalogue_row *row, const struct correction *correction)
{
	struct estimate *e = &row->estimate;
	int64_t added = correction->best_bytes - row->formula.fixed_bytes - row->formula.compute_bytes;

	if (correction->source == CORRECTION_NONE || e->source == ESTIMATE_DECLARED)
		return;
	e->source = correction->source == CORRECTION_MEMO ? ESTIMATE_MEMO : ESTIMATE_LEARNED;
	e->base_bytes += added;
	e->steady_bytes += added;
	e->peak_bytes += added > 0 ? added : 0;
	e->host.overhead_bytes += added;
	e->host.total_bytes += added;
	if (e->upper_bytes < correction->upper99_bytes)
		e->upper_bytes = correction->upper99_bytes;
	if (correction->is_conformal)
		e->sigma_bytes = (correction->upper_bytes - correction->best_bytes) * 100 / 165;
	use_estimate(row, row->spec.context_tokens);
}

void catalogue_take_word(struct catalogue_row *row, const struct own_word *word)
{
	own_word_use(word, &row->estimate);
	use_estimate(row, row->spec.context_tokens);
}

void catalogue_raise(struct catalogue_row *row, int64_t peak_bytes)
{
	if (row->estimate.peak_bytes < peak_bytes)
		row->estimate.peak_bytes = peak_bytes;
	if (row->estimate.upper_bytes < peak_bytes)
		row->estimate.upper_bytes = peak_bytes;
	use_estimate(row, row->spec.context_tokens);
}

/* Whether its KV may follow use, before its footprint is reckoned: it decides what base holds. */
static void choose_kv(const struct conf_model *model, const struct catalogue_ground *ground,
                      struct catalogue_row *row)
{
	struct lazy_verdict verdict;
	bool on_gpu = ground->has_devices && strcmp(model->device ? model->device : "auto", "cpu") != 0;

	/* Who declares a footprint has counted the cache in. */
	if (model->engine != CONF_ENGINE_LLAMA_SERVER || model->footprint_bytes > 0)
		return;
	if (lazy_applies(model, &verdict)) {
		if (on_gpu)
			str_copy(verdict.reason, sizeof(verdict.reason), STR("its cache lies in a GPU's memory"));
		else
			lazy_check_engine(&ground->lazy, model, &verdict);
	}
	row->lazy = verdict.works;
	str_copy(row->not_lazy, sizeof(row->not_lazy), str_from(verdict.reason));
}

static void use_kv(const struct conf_model *model, int64_t context, struct catalogue_row *row)
{
	if (row->estimate.per_request_bytes <= 0)
		row->lazy = false; /* it keeps nothing of its conversations: an encoder, a recurrent model */
	if (!row->lazy)
		return;
	kv_shape_of(model, &row->estimate, context, &row->kv);
	row->spec.flags |= MODEL_LAZY;
	row->spec.build_key ^= MODEL_LAZY; /* what was measured holds for an engine started this way */
}

static void use_declared(struct model_spec *spec, int64_t bytes)
{
	spec->flags |= MODEL_DECLARED;
	set_host_bytes(&spec->base, bytes);
	set_host_bytes(&spec->peak, bytes);
	set_host_bytes(&spec->lower, bytes / 10 * 7);
}

/* It takes no room of ours to give, and another machine's computing slows nobody here. */
static void be_outside(const struct conf_model *model, struct model_spec *spec)
{
	bool here = strcmp(model->url_host, "localhost") == 0 || strcmp(model->url_host, "::1") == 0 ||
	            str_starts(str_from(model->url_host), "127.");

	spec->flags = (spec->flags & ~(uint32_t)(MODEL_PRELOAD | MODEL_PINNED)) | MODEL_OUTSIDE;
	spec->bandwidth_permille = here ? 0 : 1;
	spec->context_tokens = 0;
}

/* An engine that is not there is no reason to stop another for it. */
static int check_program(const struct conf_model *model, struct err *err)
{
	const char *program =
	        model->engine_path ? model->engine_path : conf_engine_name(model->engine);
	struct stat st;

	if (model->engine == CONF_ENGINE_COMMAND)
		program = model->cmd_argv.count ? model->cmd_argv.items[0] : "";
	bool is_relative = strchr(program, '/') && program[0] != '/';
	if (!*program || is_relative || strstr(program, "${") || stat_program(program, &st))
		return 0;
	return err_set(err, -ENOENT,
	               "the engine's program %s was not found%s; try: its full path under %s",
	               program, program[0] == '/' ? "" : " in PATH",
	               model->engine == CONF_ENGINE_COMMAND ? "cmd" : "engines");
}

void catalogue_refresh(const struct conf_model *model, const struct catalogue_ground *ground,
                       struct catalogue_row *row)
{
	struct err err = { 0 };
	int64_t context = model->context_max > 0 ? model->context_max : 0;

	memset(row, 0, sizeof(*row));
	fill_from_conf(model, &row->spec);
	if (conf_is_outside(model)) {
		be_outside(model, &row->spec);
		return;
	}
	row->file_bytes = file_bytes(model);
	row->spec.context_tokens = (uint32_t)context;
	int code = check_program(model, &err);
	bool is_known = model->engine == CONF_ENGINE_LLAMA_SERVER ||
	                model->engine == CONF_ENGINE_WHISPER_SERVER ||
	                model->engine == CONF_ENGINE_SD_SERVER;
	if (code == 0 && model->file && is_known)
		choose_kv(model, ground, row);
	if (code == 0 && model->file && is_known)
		code = estimate_fitting(model, ground->room_bytes, row->lazy, &context, &row->estimate, &err);
	if (code == 0 && model->file && is_known)
		try_smaller_batches(model, ground->room_bytes, row->lazy, context, &row->estimate);
	if (code == 0 && row->estimate.missing_bytes > 0)
		code = err_set(&err, -ENODATA,
		               "model file %s is cut short: %lld bytes are missing; fetch it again",
		               model->file, (long long)row->estimate.missing_bytes);
	if (code < 0) {
		str_copy(row->error, sizeof(row->error), str_from(err.text));
		row->spec.flags &= ~(uint32_t)MODEL_PRELOAD;
	} else if (row->estimate.base_bytes > 0) {
		use_estimate(row, context);
		use_kv(model, context, row);
		note_formula(model, row);
	}
	if (model->footprint_bytes > 0)
		use_declared(&row->spec, model->footprint_bytes);
	else if (row->estimate.base_bytes == 0)
		row->spec.flags |= MODEL_MEASURE_FIRST;
}

bool catalogue_is_current(const struct conf_model *model, const struct catalogue_row *row)
{
	uint64_t build = row->spec.build_key ^ (row->lazy ? MODEL_LAZY : 0);

	return row->spec.file_key == file_key(model) && build == build_key(model);
}

void catalogue_build(const struct conf *conf, const struct catalogue_ground *ground, struct catalogue *out)
{
	out->count = conf->model_count;
	out->rows = xcalloc(conf->model_count, sizeof(*out->rows));
	for (size_t i = 0; i < conf->model_count; i++)
		catalogue_refresh(&conf->models[i], ground, &out->rows[i]);
}

void catalogue_release(struct catalogue *catalogue)
{
	free(catalogue->rows);
	*catalogue = (struct catalogue){ 0 };
}
