/*
 * Warm files: what the arbiter wants cached, and what is. The arbiter decides by value at each sample; a
 * load's own read-ahead begins here as soon as others are told to go for it.
 */
#include "app/shell.h"

#include <string.h>

#include "base/alloc.h"
#include "base/units.h"

enum { WATCH_EVERY_US = 5 * US_PER_S, WATCH_MAPPED_EVERY_US = 30 * US_PER_S };

/* A file that a live engine maps is nobody's to warm or to drop. */
bool shell_is_mapped(const struct shell *shell, uint32_t model)
{
	const struct catalogue_row *known = &shell->catalogue.rows[model];
	const char *file = shell->conf->models[model].file;

	for (uint32_t i = 0; i < shell->instances_used && file; i++) {
		const struct instance_row *row = &shell->instances[i];
		if (!row->live || row->gone)
			continue;
		if (strcmp(row->file, file) == 0 ||
		    (row->model < shell->catalogue.count &&
		     shell->catalogue.rows[row->model].spec.file_key == known->spec.file_key))
			return true;
	}
	return false;
}

/* False: it has no file to be warmed. */
static bool fill_order(const struct shell *shell, uint32_t model, int64_t bytes, struct warm_order *out)
{
	if (model >= shell->catalogue.count || shell_warm_bytes(shell, model) == 0)
		return false;
	out->model = model;
	out->bytes = bytes;
	return str_copy(out->path, sizeof(out->path), str_from(shell->conf->models[model].file));
}

int64_t shell_warm_bytes(const struct shell *shell, uint32_t model)
{
	const struct conf_model *conf = &shell->conf->models[model];

	if (!shell->warmer || conf->absent || !conf->file || conf->url || conf->experts_resident_bytes)
		return 0;
	return shell->catalogue.rows[model].file_bytes;
}

void shell_warm_order(struct shell *shell, const struct action *action)
{
	struct warm_orders *orders = shell->warm;
	bool cools = action->type == ACTION_COOL;
	struct warm_order *list = cools ? orders->cool : orders->warm;
	uint32_t *count = cools ? &orders->cools : &orders->warms;

	if (!shell->warmer || *count == WARM_ORDERS_MAX || action->model >= shell->catalogue.count ||
	    !fill_order(shell, action->model, action->decision.need_bytes, &list[*count]) ||
	    shell_is_mapped(shell, action->model))
		return;
	++*count;
}

/* What of a mapped file is cached is only shown: nothing is decided by it until its engine has gone. */
static void fill_watch(struct shell *shell)
{
	struct warm_orders *orders = shell->warm;
	int64_t now_us = shell_now_us();
	uint32_t models = (uint32_t)shell->catalogue.count;

	orders->watches = 0;
	if (now_us < shell->watched_at_us + WATCH_EVERY_US)
		return;
	bool mapped_too = now_us >= shell->watched_mapped_at_us + WATCH_MAPPED_EVERY_US;
	shell->watched_at_us = now_us;
	if (mapped_too)
		shell->watched_mapped_at_us = now_us;
	for (uint32_t n = 0; n < models && orders->watches < WARM_WATCH_MAX; n++) {
		uint32_t model = (shell->watch_from + n) % models;
		if (fill_order(shell, model, 0, &orders->watch[orders->watches]) &&
		    (mapped_too || !shell_is_mapped(shell, model)))
			orders->watches++;
	}
	shell->watch_from += WARM_WATCH_MAX;
}

static void give_orders(struct shell *shell)
{
	struct warm_orders *orders = shell->warm;

	warmer_orders(shell->warmer, orders);
	shell->warm_given = orders->warms > 0 || orders->cools > 0 || orders->ahead.bytes > 0;
}

/* Where nothing is wanted and nothing was, its thread sleeps on. */
void shell_warm_commit(struct shell *shell)
{
	struct warm_orders *orders = shell->warm;

	if (!shell->warmer)
		return;
	fill_watch(shell);
	if (shell->warm_given || orders->warms > 0 || orders->cools > 0 || orders->ahead.bytes > 0 ||
	    orders->watches > 0)
		give_orders(shell);
	orders->warms = orders->cools = 0;
}

/* Where low MemFree is itself a danger, nothing stays warm beside a load. */
static void make_free(struct shell *shell, uint32_t but)
{
	struct warm_orders *orders = shell->warm;

	for (uint32_t model = 0; model < shell->catalogue.count && orders->cools < WARM_ORDERS_MAX; model++) {
		struct model_view view;
		if (model == but || !arbiter_model(shell->arbiter, model, &view) || view.warm_bytes == 0 ||
		    !fill_order(shell, model, 0, &orders->cool[orders->cools]) || shell_is_mapped(shell, model))
			continue;
		orders->cools++;
	}
}

void shell_warm_decided(struct shell *shell, const struct decision *decision)
{
	struct warm_order *ahead = &shell->warm->ahead;
	bool makes_room = decision->kind == DECISION_EVICT || decision->kind == DECISION_DRAIN;
	bool ends = decision->kind == DECISION_READY || decision->kind == DECISION_LOAD_FAILED ||
	            decision->kind == DECISION_REFUSE;
	uint32_t model = makes_room ? decision->for_model : decision->model;

	if (!shell->warmer)
		return;
	if (ends && ahead->bytes && ahead->model == decision->model)
		ahead->bytes = 0;
	if (!makes_room && decision->kind != DECISION_LOAD)
		return;
	if (model >= shell->catalogue.count || (ahead->bytes && ahead->model == model))
		return;
	if (!fill_order(shell, model, shell_warm_bytes(shell, model), ahead)) {
		ahead->bytes = 0;
		return;
	}
	if (shell->warm_free_least_bytes)
		make_free(shell, model);
	shell->warm->watches = 0;
	give_orders(shell);
}

static void on_cached(void *ctx, uint32_t model, int64_t bytes)
{
	struct shell *shell = ctx;
	struct event event = shell_event(EVENT_FILE_RESIDENCY);

	if (model >= shell->catalogue.count || shell->phase == PHASE_CLOSING)
		return;
	event.residency.model = model;
	event.residency.cached_bytes = bytes;
	shell_push(shell, &event);
}

/*
 * What a file takes in the page cache is charged to the group of who reads it: below a limit that would
 * push others of the group out, so nothing is warmed there.
 */
void shell_warm_open(struct shell *shell)
{
	const struct warmer_events events = { .ctx = shell, .on_cached = on_cached };
	enum topology_kind kind = shell->topology.kind;
	bool tender = kind == TOPOLOGY_GB10 || kind == TOPOLOGY_JETSON || kind == TOPOLOGY_GH200;
	struct view_spec group;

	shell->warm = xcalloc(1, sizeof(*shell->warm));
	if (shell_cgroup_cap(shell, &shell->sample, &group))
		return;
	shell->warm_free_least_bytes = tender ? shell->sample.total_bytes / 10 : 0;
	shell->warmer = warmer_new(&shell->loop, shell->warm_free_least_bytes, &events);
}
