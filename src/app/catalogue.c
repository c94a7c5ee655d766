#include "app/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/dirs.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "core/arbiter.h"
#include "engine/adapter.h"
#include "engine/estimate_params.h"
#include "engine/own_word.h"
#include "engine/program.h"

/*
 * Two files are the same model where device, inode, size and time of change
 * agree: what was learned of one is not believed of its successor.
 */
uint64_t catalogue_file_key(const struct conf_model *model)
{
	struct stat st;
	const char *path = model->file ? model->file : model->name;

	if (!model->file || stat(model->file, &st) < 0)
		return str_hash(str_from(path));
	uint64_t parts[] = { (uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
		             (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
	return str_hash((struct str){ (const char *)parts, sizeof(parts) });
}

int64_t catalogue_file_changed_ns(const struct conf_model *model)
{
	struct stat st;

	if (!model->file || stat(model->file, &st) < 0)
		return 0;
	return (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
}

static int64_t file_bytes(const struct conf_model *model)
{
	struct stat st;

	return model->file && stat(model->file, &st) == 0 ? st.st_size : 0;
}

static const char *program_of(const struct conf_model *model)
{
	return model->engine_path ? model->engine_path : model->engine_name;
}

uint64_t catalogue_engine_build(const struct conf_model *model, const struct catalogue_ground *ground)
{
	return program_of(model) ? program_build(program_of(model), ground->lazy.folder) : 0;
}

bool catalogue_same_engine(const struct conf_model *model, const struct conf_model *other)
{
	const char *program = program_of(model), *its = program_of(other);

	return program == its || (program && its && strcmp(program, its) == 0);
}

uint64_t catalogue_build_key(const struct conf_model *model, uint64_t build)
{
	struct buf text = BUF_INIT;

	buf_printf(&text, "%s %llx %lld %lld %s %d", program_of(model), (unsigned long long)build,
	           (long long)model->slots, (long long)model->context_max, model->kv_type, (int)model->kv);
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
static uint64_t engine_key(const struct conf_model *model, uint64_t build)
{
	struct buf text = BUF_INIT;

	buf_printf(&text, "%s %llx %s", program_of(model), (unsigned long long)build, model->device);
	uint64_t key = str_hash(buf_str(&text));
	buf_release(&text);
	return key;
}

/* The device's share stands as the GPU's use of pool 0: which pool that is, shell_place() knows. */
static void set_bytes(struct amount *amount, int64_t all_bytes, int64_t device_bytes)
{
	*amount = (struct amount){ 0 };
	amount->bytes[0][USE_HOST] = all_bytes - device_bytes;
	amount->bytes[0][USE_GPU] = device_bytes;
}

static void fill_from_conf(const struct conf_model *model, struct model_spec *spec)
{
	str_copy(spec->name, sizeof(spec->name), str_from(model->name));
	spec->file_key = catalogue_file_key(model);
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
	spec->start_timeout_us = model->start_timeout_us == CONF_NEVER ? 0 : model->start_timeout_us;
}

/*
 * `auto`: the model's own context, halved until the model fits alone; the
 * engine would take the trained context whole and reserve KV for all of it.
 */
enum { CONTEXT_LEAST = 2048, CONTEXT_SPLIT = 8192, CONTEXT_UNKNOWN = 4096 };

/* A model's estimate by what is chosen for its start. */
struct sizing {
	const struct conf_model *model;
	const struct catalogue_ground *ground;
	struct launch_choice choice;
};

static bool has_own_memory(const struct sizing *sizing, const struct estimate *e)
{
	return sizing->ground->host_room_bytes > 0 && e->device.total_bytes > 0;
}

/* `bytes` in all, where nobody else is. */
static bool has_room(const struct sizing *sizing, const struct estimate *e, int64_t bytes)
{
	if (!has_own_memory(sizing, e))
		return bytes <= sizing->ground->room_bytes;
	return e->device.total_bytes <= sizing->ground->room_bytes &&
	       bytes - e->device.total_bytes <= sizing->ground->host_room_bytes;
}

static int estimate_fitting(struct sizing *sizing, struct estimate *out, struct err *err)
{
	const struct conf_model *model = sizing->model;
	int64_t *tokens = &sizing->choice.context;

	*tokens = model->context_max > 0 ? model->context_max : CONTEXT_UNKNOWN;
	int code = engine_estimate(model, &sizing->choice, out, err);
	if (code < 0 || model->context_max != CONF_AUTO)
		return code;
	if (out->trained_context > 0)
		*tokens = out->trained_context;
	/* Rather fewer layers on a card than hardly any context. */
	bool splits = engine_layers_are_free(model);
	for (code = engine_estimate(model, &sizing->choice, out, err); code == 0;
	     code = engine_estimate(model, &sizing->choice, out, err)) {
		int64_t least = splits && has_own_memory(sizing, out) ? CONTEXT_SPLIT : CONTEXT_LEAST;
		if (has_room(sizing, out, out->steady_bytes) || *tokens / 2 < least)
			break;
		*tokens /= 2;
	}
	return code;
}

/*
 * Where the peak is over all the room there is: a smaller physical batch makes the compute
 * buffers smaller and prompts slower. Kept where it makes the model fit.
 */
static void try_smaller_batches(struct sizing *sizing, struct estimate *out)
{
	static const int64_t batches[] = { 256, 128, 64, 32 };
	struct launch_choice smaller = sizing->choice;
	struct estimate small;
	struct err err;

	if (has_room(sizing, out, out->peak_bytes) || out->is_encoder || !engine_batch_is_free(sizing->model))
		return;
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		smaller.ubatch = batches[i];
		if (engine_estimate(sizing->model, &smaller, &small, &err) < 0)
			return;
		if (has_room(sizing, &small, small.peak_bytes)) {
			*out = small;
			sizing->choice = smaller;
			return;
		}
	}
}

static int64_t device_bytes_without(void *ctx, int64_t host_layers)
{
	struct sizing *sizing = ctx;
	struct estimate e;
	struct err err;

	sizing->choice.host_layers = host_layers;
	return engine_estimate(sizing->model, &sizing->choice, &e, &err) < 0 ? -1 : e.device.total_bytes;
}

/* A card that is too small for the model: as many of its layers as fit, the others on the CPU. */
static void try_fewer_layers(struct sizing *sizing, struct estimate *out)
{
	struct sizing split = *sizing;
	struct estimate e;
	struct err err;

	if (!has_own_memory(sizing, out) || has_room(sizing, out, out->peak_bytes) ||
	    !engine_layers_are_free(sizing->model))
		return;
	split.choice.host_layers = engine_layers_to_spare(out->layers, sizing->ground->room_bytes,
	                                                  device_bytes_without, &split);
	if (split.choice.host_layers == 0 || engine_estimate(sizing->model, &split.choice, &e, &err) < 0)
		return;
	*out = e;
	sizing->choice = split.choice;
}

/* Its bytes go to a device: all of them where no estimate tells the device's share. */
static bool goes_to_device(const struct conf_model *model, const struct catalogue_ground *ground)
{
	return ground->has_devices && !(model->device && strcmp(model->device, "cpu") == 0);
}

static void use_estimate(struct catalogue_row *row, int64_t context)
{
	const struct estimate *e = &row->estimate;
	struct model_spec *spec = &row->spec;
	struct device_share device;

	/* Speech and pictures have no context that anybody could choose. */
	spec->context_tokens =
	        spec->engine_kind == CONF_ENGINE_LLAMA_SERVER ? (uint32_t)context : 0;
	int64_t peak = e->peak_bytes > e->base_bytes ? e->peak_bytes : e->base_bytes;
	estimate_on_device(e, &device);
	if (row->whole_on_device)
		device = (struct device_share){ e->base_bytes, peak, e->sigma_bytes, e->lower_bytes };
	set_bytes(&spec->base, e->base_bytes, device.base_bytes);
	set_bytes(&spec->per_request, e->per_request_bytes, row->whole_on_device ? e->per_request_bytes : 0);
	set_bytes(&spec->peak, peak, device.peak_bytes);
	set_bytes(&spec->sigma, e->sigma_bytes, device.sigma_bytes);
	set_bytes(&spec->lower, e->lower_bytes, device.lower_bytes);
	/* A device's buffers, and those of the host that it copies from, are there from the start. */
	bool on_host = device.base_bytes == 0 && spec->engine_kind == CONF_ENGINE_LLAMA_SERVER;
	spec->compute_bytes = on_host ? e->host.compute_bytes : 0;
	spec->compute_context_bytes = e->compute_context_bytes < spec->compute_bytes ? e->compute_context_bytes
	                                                                             : spec->compute_bytes;
	spec->batch_tokens = e->batch_tokens;
	spec->cache_bytes = spec->engine_kind == CONF_ENGINE_LLAMA_SERVER ? e->cache_limit_bytes : 0;
}

/* What was measured with some layers off the device holds for as many, and for weights of the same form. */
static uint64_t form_key(const struct catalogue_row *row)
{
	return (uint64_t)row->estimate.host_layers << 40 ^ (uint64_t)row->estimate.plain_weights << 39;
}

/* What was measured holds for an engine started this way. */
static void set_build_key(struct catalogue_row *row)
{
	const struct elastic *elastic = &row->elastic;

	row->spec.build_key = row->launch_key ^ (row->lazy ? MODEL_LAZY : 0) ^ form_key(row);
	if (elastic->count)
		row->spec.build_key ^= (uint64_t)elastic->step[elastic->now].context * UINT64_C(0x9e3779b97f4a7c15);
}

static void note_formula(struct catalogue_row *row)
{
	const struct estimate *e = &row->estimate;
	int64_t compute = e->device.compute_bytes + e->host.compute_bytes;

	row->keys.model = row->spec.file_key;
	row->keys.params = row->spec.build_key ^ (uint64_t)row->spec.context_tokens << 32;
	row->formula = (struct formula_parts){
		/* A prompt cache grows after the load, which is what is learned from. */
		.fixed_bytes = e->base_bytes - compute - e->cache_limit_bytes,
		.compute_bytes = compute,
		.on_device = e->device.total_bytes > 0,
	};
}

static void add_corrected(struct catalogue_row *row)
{
	struct estimate *e = &row->estimate;
	int64_t added = row->corrected_bytes;

	e->base_bytes += added;
	e->steady_bytes += added;
	e->peak_bytes += added > 0 ? added : 0;
	struct footprint *pool = row->formula.on_device ? &e->device : &e->host;
	pool->compute_bytes += row->corrected_compute_bytes;
	pool->overhead_bytes += added - row->corrected_compute_bytes;
	pool->total_bytes += added;
}

void catalogue_correct(struct catalogue_row *row, const struct correction *correction)
{
	struct estimate *e = &row->estimate;
	int64_t added = correction->best_bytes - row->formula.fixed_bytes - row->formula.compute_bytes;

	if (correction->source == CORRECTION_NONE || e->source == ESTIMATE_DECLARED)
		return;
	e->source = correction->source == CORRECTION_MEMO ? ESTIMATE_MEMO : ESTIMATE_LEARNED;
	e->formula_bytes = e->base_bytes;
	row->corrected_bytes = added;
	row->corrected_compute_bytes = (int64_t)((correction->factor - 1) * (double)row->formula.compute_bytes);
	add_corrected(row);
	if (e->upper_bytes < correction->upper99_bytes)
		e->upper_bytes = correction->upper99_bytes;
	if (correction->is_conformal)
		e->sigma_bytes = (correction->upper_bytes - correction->best_bytes) * 100 / 165;
	use_estimate(row, row->spec.context_tokens);
}

void catalogue_take_word(struct catalogue_row *row, const struct own_word *word)
{
	row->estimate.formula_bytes = row->estimate.base_bytes;
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
	struct estimate_params params;

	/* Who declares a footprint has counted the cache in. */
	if (model->engine != CONF_ENGINE_LLAMA_SERVER || model->footprint_bytes > 0)
		return;
	if (row->no_effect) {
		verdict = (struct lazy_verdict){ .reason = LAZY_NO_EFFECT };
	} else if (lazy_applies(model, &verdict)) {
		engine_estimate_params(model, &(struct launch_choice){ .context = CONTEXT_UNKNOWN, .slots = model->slots,
		                                                       .has_devices = ground->has_devices }, &params);
		if (params.gpu_layers != 0)
			str_copy(verdict.reason, sizeof(verdict.reason), STR("its cache lies in a GPU's memory"));
		else
			lazy_check_engine(&ground->lazy, model, &verdict);
	}
	row->lazy = verdict.works;
	row->untried = verdict.pending;
	/* What would be loaded by itself waits for that, and is not loaded as what it is not. */
	if (row->untried)
		row->spec.flags &= ~(uint32_t)MODEL_PRELOAD;
	str_copy(row->not_lazy, sizeof(row->not_lazy), str_from(verdict.reason));
}

/* Which build of its engine it is, whose rules its estimate follows; 0 until it has told. */
static int64_t ask_of_release(const struct conf_model *model, const struct catalogue_ground *ground,
                              struct catalogue_row *row)
{
	if (model->engine != CONF_ENGINE_LLAMA_SERVER || ground->files_alone || !ground->lazy.folder)
		return 0;
	int64_t release = program_release(program_of(model), ground->lazy.folder, ground->lazy.known_only);
	row->untried |= release < 0 && ground->lazy.known_only;
	return release > 0 ? release : 0;
}

/* Whether a draft model needs a word of its own in this build, which only the build can tell. */
static void ask_of_drafts(const struct conf_model *model, const struct catalogue_ground *ground,
                          struct catalogue_row *row)
{
	if (!model->draft || model->engine != CONF_ENGINE_LLAMA_SERVER || ground->files_alone || !ground->lazy.folder)
		return;
	enum help help = program_help_names(program_of(model), ground->lazy.folder, LLAMA_DRAFTS, ground->lazy.known_only);
	row->drafts_when_told = help == HELP_NAMES;
	row->untried |= help == HELP_UNKNOWN && ground->lazy.known_only;
	if (row->untried)
		row->spec.flags &= ~(uint32_t)MODEL_PRELOAD;
}

void catalogue_tuning(const struct catalogue_row *row, struct launch_tuning *out)
{
	engine_tuning(&row->estimate, out);
	out->drafts_when_told = row->drafts_when_told;
}

static void use_kv(const struct conf_model *model, int64_t context, struct catalogue_row *row)
{
	if (row->estimate.per_request_bytes <= 0)
		row->lazy = false; /* it keeps nothing of its conversations: an encoder, a recurrent model */
	if (!row->lazy)
		return;
	kv_shape_of(model, &row->estimate, context, &row->kv);
	row->spec.flags |= MODEL_LAZY;
}

/* As large a context as that, and what else is then chosen for its start. */
static int estimate_with(const struct sizing *sizing, int64_t context, struct estimate *out, struct err *err)
{
	struct sizing with = *sizing;

	with.choice.context = context;
	with.choice.ubatch = with.choice.host_layers = 0;
	int code = engine_estimate(with.model, &with.choice, out, err);
	if (code < 0)
		return code;
	try_smaller_batches(&with, out);
	try_fewer_layers(&with, out);
	return 0;
}

/* Each context that it may be started with, from the largest that was found to fit down to the floor. */
static void use_elastic(const struct sizing *sizing, struct catalogue_row *row)
{
	struct elastic *elastic = &row->elastic;
	int64_t most = sizing->choice.context, contexts[ELASTIC_MOST];
	struct estimate e = row->estimate;
	struct err err;

	if (row->lazy || row->untried || !elastic_applies(sizing->model) || e.is_encoder || e.device.kv_bytes + e.host.kv_bytes == 0)
		return;
	uint32_t count = elastic_contexts(sizing->model, most, contexts);
	for (uint32_t i = 0; i < count; i++) {
		if (estimate_with(sizing, contexts[i], &e, &err) < 0)
			return;
		elastic_keep(&elastic->step[i], contexts[i], &e);
	}
	elastic->count = count;
	if (count == 0)
		return;
	kv_shape_of(sizing->model, &row->estimate, most, &row->kv);
	row->kv.full_bytes = row->kv.token_bytes * most;
	elastic_use(&elastic->step[0], &row->estimate);
}

void catalogue_choose(struct catalogue_row *row, uint32_t step)
{
	struct elastic *elastic = &row->elastic;

	elastic->chosen = true;
	if (step >= elastic->count || step == elastic->now)
		return;
	elastic->now = step;
	elastic_use(&elastic->step[step], &row->estimate);
	use_estimate(row, elastic->step[step].context);
	set_build_key(row);
	note_formula(row);
	row->estimate.formula_bytes = row->corrected_bytes ? row->estimate.base_bytes : 0;
	add_corrected(row);
	use_estimate(row, elastic->step[step].context);
	/* What its engine said was said of another context. */
	row->asked = false;
	if (row->estimate.source == ESTIMATE_ENGINE)
		row->estimate.source = ESTIMATE_FORMULA;
}

static void use_declared(struct catalogue_row *row, int64_t bytes)
{
	struct model_spec *spec = &row->spec;
	int64_t lower = bytes / 10 * 7;

	spec->flags |= MODEL_DECLARED;
	set_bytes(&spec->base, bytes, row->whole_on_device ? bytes : 0);
	set_bytes(&spec->peak, bytes, row->whole_on_device ? bytes : 0);
	set_bytes(&spec->lower, lower, row->whole_on_device ? lower : 0);
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
int catalogue_check_program(const struct conf_model *model, struct err *err)
{
	const char *program =
	        model->engine_path ? model->engine_path : conf_engine_name(model->engine);
	char path[DIR_PATH_MAX];

	if (model->engine == CONF_ENGINE_COMMAND)
		program = model->cmd_argv.count ? model->cmd_argv.items[0] : "";
	bool is_relative = strchr(program, '/') && program[0] != '/';
	if (!*program || is_relative || strstr(program, "${") || program_find(program, path, sizeof(path)))
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
	struct sizing sizing = {
		.model = model,
		.ground = ground,
		.choice = { .slots = model->slots, .has_devices = ground->has_devices, .runs_cuda = ground->runs_cuda },
	};

	uint64_t build = catalogue_engine_build(model, ground), launch_key = catalogue_build_key(model, build);
	bool no_effect = row->no_effect && row->launch_key == launch_key;

	memset(row, 0, sizeof(*row));
	fill_from_conf(model, &row->spec);
	row->no_effect = no_effect;
	row->launch_key = row->spec.build_key = launch_key;
	if (conf_is_outside(model)) {
		be_outside(model, &row->spec);
		return;
	}
	row->file_bytes = file_bytes(model);
	row->keys.build = engine_key(model, build);
	row->spec.context_tokens = model->context_max > 0 ? (uint32_t)model->context_max : 0;
	int code = ground->files_alone ? 0 : catalogue_check_program(model, &err);
	bool is_known = model->engine == CONF_ENGINE_LLAMA_SERVER ||
	                model->engine == CONF_ENGINE_WHISPER_SERVER ||
	                model->engine == CONF_ENGINE_SD_SERVER;
	if (code == 0 && model->file && is_known) {
		choose_kv(model, ground, row);
		ask_of_drafts(model, ground, row);
		sizing.choice.release = ask_of_release(model, ground, row);
		sizing.choice.lazy = row->lazy;
		code = estimate_fitting(&sizing, &row->estimate, &err);
	}
	if (code == 0 && model->file && is_known) {
		try_smaller_batches(&sizing, &row->estimate);
		try_fewer_layers(&sizing, &row->estimate);
	}
	if (row->estimate.experts.mapped_bytes > 0)
		row->spec.flags |= MODEL_EXPERTS;
	row->whole_on_device = goes_to_device(model, ground) && (model->engine != CONF_ENGINE_LLAMA_SERVER ||
	                                                         model->footprint_bytes > 0);
	if (code == 0 && row->estimate.missing_bytes > 0)
		code = err_set(&err, -ENODATA,
		               "model file %s is cut short: %lld bytes are missing; fetch it again",
		               model->file, (long long)row->estimate.missing_bytes);
	if (code < 0) {
		str_copy(row->error, sizeof(row->error), str_from(err.text));
		row->spec.flags &= ~(uint32_t)MODEL_PRELOAD;
	} else if (row->estimate.base_bytes > 0) {
		use_kv(model, sizing.choice.context, row);
		use_elastic(&sizing, row);
		use_estimate(row, row->elastic.count ? row->elastic.step[0].context : sizing.choice.context);
	}
	set_build_key(row);
	if (code == 0 && row->estimate.base_bytes > 0)
		note_formula(row);
	if (model->footprint_bytes > 0)
		use_declared(row, model->footprint_bytes);
	else if (row->estimate.base_bytes == 0)
		row->spec.flags |= MODEL_MEASURE_FIRST;
}

/* What was to be lazy still can be: else a load would take what it did not claim. */
static bool is_lazy_still(const struct catalogue_ground *ground, const struct catalogue_row *row)
{
	return !row->lazy || (!row->no_effect && ground->lazy.library && access(ground->lazy.library, R_OK) == 0);
}

bool catalogue_is_current(const struct conf_model *model, const struct catalogue_ground *ground,
                          const struct catalogue_row *row)
{
	return !row->untried && is_lazy_still(ground, row) && row->spec.file_key == catalogue_file_key(model) &&
	       row->launch_key == catalogue_build_key(model, catalogue_engine_build(model, ground));
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
