#include "app/doctor_quants.h"

#include <stdlib.h>
#include <string.h>

#include "api/value.h"
#include "app/catalogue.h"
#include "base/alloc.h"
#include "base/units.h"
#include "estimate/quants.h"

struct advice {
	const struct conf *conf;
	struct catalogue catalogue;
	struct quant_model *models; /* those that have an estimate */
	size_t *index;              /* of each, in the configuration */
	size_t count;
	const struct catalogue_row *left_out; /* the first that cannot be judged; NULL = all can */
	size_t left_out_count;
	const char *assumed;        /* an engine that is not here, whose usual build is assumed; NULL = all are */
	int64_t room_bytes;
	int64_t now_bytes;          /* all of them, as they are; elastic contexts as they start */
	int64_t grown_bytes;        /* the same with those contexts at their largest */
	int64_t chosen_bytes;
	bool fits;                  /* as chosen */
};

/* What models may use together: of the pool that they go to, less what is there without them, by the configuration. */
static int64_t room(const struct topology *topology, const struct conf *conf)
{
	uint32_t pool = topology_default_pool(topology);
	int64_t baseline = pool == 0 ? topology->mem.total - topology->mem.available : 0;
	int64_t usable = topology_usable(topology, pool, baseline), limit = conf->memory_limit_bytes;

	return limit != CONF_AUTO && limit < usable ? limit : usable;
}

/* With its context at the largest. */
static int64_t steady_grown(const struct catalogue_row *row)
{
	const struct elastic *elastic = &row->elastic;

	return elastic->count ? elastic->step[elastic->count - 1].steady_bytes : row->estimate.steady_bytes;
}

static int64_t at_least_zero(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

static void collect(struct advice *advice)
{
	for (size_t i = 0; i < advice->catalogue.count; i++) {
		const struct catalogue_row *row = &advice->catalogue.rows[i];
		const struct estimate *e = &row->estimate;
		int64_t weights = e->device.weights_bytes + e->host.weights_bytes;

		if (row->error[0] && !advice->left_out)
			advice->left_out = row;
		advice->left_out_count += row->error[0] != '\0';
		if (row->error[0] || e->base_bytes <= 0 || weights <= 0)
			continue;
		struct quant_model *model = &advice->models[advice->count];
		*model = (struct quant_model){ .quantisation = e->quantisation, .weights_bytes = weights };
		model->rest_bytes = at_least_zero(e->steady_bytes - weights);
		advice->now_bytes += weights + model->rest_bytes;
		advice->grown_bytes += weights + at_least_zero(steady_grown(row) - weights);
		advice->index[advice->count++] = i;
		struct err err;
		if (!advice->assumed && catalogue_check_program(&advice->conf->models[i], &err) < 0)
			advice->assumed = conf_engine_name(advice->conf->models[i].engine);
	}
}

static const char *advised(const struct quant_model *model)
{
	const struct quant *quant = quant_at(model->chosen);
	int now = quant_index(model->quantisation);

	return !quant || model->chosen == now ? model->quantisation : quant->name;
}

static json_t *rows(const struct advice *advice)
{
	json_t *array = json_array();

	for (size_t i = 0; i < advice->count; i++) {
		const struct quant_model *model = &advice->models[i];
		const struct quant *quant = quant_at(model->chosen);
		const struct catalogue_row *row = &advice->catalogue.rows[advice->index[i]];
		json_array_append_new(
		        array,
		        json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:o}", "model",
		                  advice->conf->models[advice->index[i]].name, "now", model->quantisation,
		                  "now_bytes", (json_int_t)model->weights_bytes, "advised", advised(model),
		                  "advised_bytes", (json_int_t)model->chosen_bytes, "rest_bytes",
		                  (json_int_t)model->rest_bytes, "grown_rest_bytes",
		                  (json_int_t)at_least_zero(steady_grown(row) - model->weights_bytes), "perplexity_percent",
		                  quant ? json_real(quant->perplexity_percent) : json_null()));
	}
	return array;
}

/* The names of those that would change, as far as there is room. */
static void list_changes(const struct advice *advice, char *out, size_t out_bytes)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < advice->count; i++) {
		const struct quant_model *model = &advice->models[i];
		const char *to = advised(model);
		if (model->chosen_bytes >= model->weights_bytes || at + 1 >= out_bytes)
			continue;
		int length = snprintf(out + at, out_bytes - at, "%s%s: %s instead of %s (perplexity +%.2g %%)",
		                      at ? ", " : "", advice->conf->models[advice->index[i]].name, to,
		                      model->quantisation, quant_at(model->chosen)->perplexity_percent);
		at += length > 0 ? (size_t)length : 0;
	}
}

static const char hopeless[] = "no quantisation is enough";

bool doctor_quants_fit(const struct findings *findings)
{
	for (uint32_t i = 0; i < findings->count; i++)
		if (strncmp(findings->list[i].fix, hopeless, sizeof hopeless - 1) == 0)
			return false;
	return true;
}

static void describe(const struct advice *advice, char *out, size_t out_bytes)
{
	char now[UNITS_TEXT], grown[UNITS_TEXT], contexts[96] = "full context", room_text[UNITS_TEXT];
	bool limited = advice->room_bytes == advice->conf->memory_limit_bytes, one = advice->count == 1;
	int at = 0;

	units_size(now, advice->now_bytes);
	units_size(room_text, advice->room_bytes);
	if (advice->grown_bytes > advice->now_bytes)
		snprintf(contexts, sizeof contexts, "the contexts they start with, %s at their largest",
		         units_size(grown, advice->grown_bytes));
	if (advice->count > 0)
		at = snprintf(out, out_bytes, "%zu model%s need%s %s at %s; %s may be used%s", advice->count,
		              one ? "" : "s", one ? "s" : "", now, contexts, room_text, limited ? " (memory.limit)" : "");
	if (advice->assumed && at >= 0 && (size_t)at < out_bytes)
		at += snprintf(out + at, out_bytes - (size_t)at,
		               "; assumed, as %s is not here: its usual build, caches reserved whole", advice->assumed);
	if (advice->left_out && at >= 0 && (size_t)at < out_bytes)
		snprintf(out + at, out_bytes - (size_t)at, "%s%zu cannot be judged: %.160s", at ? "; " : "",
		         advice->left_out_count, advice->left_out->error);
}

static void find(const struct advice *advice, struct findings *findings)
{
	char chosen[UNITS_TEXT];
	struct finding *f = &findings->list[findings->count++];
	bool all_stay = advice->now_bytes <= advice->room_bytes;

	*f = (struct finding){ .id = "quantisation", .weight = 55,
		               .why = "models that do not fit together are loaded in turn, and each change costs "
		                      "a load" };
	describe(advice, f->found, sizeof f->found);
	snprintf(f->wanted, sizeof f->wanted, "all resident at once");
	f->status = advice->count == 0 ? FINDING_UNKNOWN : all_stay ? FINDING_OK : FINDING_ADVICE;
	if (all_stay)
		return;
	units_size(chosen, advice->chosen_bytes);
	if (advice->fits)
		list_changes(advice, f->fix, sizeof f->fix);
	else
		snprintf(f->fix, sizeof f->fix,
		         "%s (%s with 2 bits): shorter contexts, fewer slots, or fewer models at a time", hopeless,
		         chosen);
}

json_t *doctor_quants(const struct conf *conf, const struct topology *topology, struct findings *findings)
{
	struct advice advice = { .conf = conf, .room_bytes = room(topology, conf) };
	json_t *array = NULL;

	if (findings->count >= FINDINGS_MAX)
		return NULL;
	/* Sizes follow from the files: an engine that is not here would say no more. */
	const struct catalogue_ground ground = { .room_bytes = advice.room_bytes,
		                                 .files_alone = true,
		                                 .has_devices = topology->devices > 0,
		                                 .runs_cuda = topology_runs_cuda(topology) };
	catalogue_build(conf, &ground, &advice.catalogue);
	advice.models = xcalloc(advice.catalogue.count + 1, sizeof(*advice.models));
	advice.index = xcalloc(advice.catalogue.count + 1, sizeof(*advice.index));
	collect(&advice);
	if (advice.count > 0) {
		advice.fits = quants_choose(advice.models, advice.count, advice.room_bytes, &advice.chosen_bytes);
		array = rows(&advice);
	}
	if (advice.count > 0 || advice.left_out)
		find(&advice, findings);
	free(advice.models);
	free(advice.index);
	catalogue_release(&advice.catalogue);
	return array;
}
