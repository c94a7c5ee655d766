#include "engine/own_word.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/adapter.h"
#include "engine/fit_params.h"
#include "engine/hear.h"

enum { LINE_BYTES = 512, FIT_DEADLINE_MS = 10000 };

/* ---- the table ---- */

static const char table_mark[] = "memory_breakdown_print: |";

int64_t own_word_mib(const char *text, char **end)
{
	long long value = strtoll(text, end, 10);

	return *end == text || value < 0 || value > INT64_C(1) << 24 ? -1 : value;
}

/* The three numbers of "self = model + context + compute", whole MiB; false: it is no such cell. */
static bool parse_cell(const char *text, int64_t mib[3])
{
	const char *at = strchr(text, '(');

	at = strchr(at ? at : text, '=');
	for (int i = 0; i < 3; i++) {
		char *end;
		mib[i] = at ? own_word_mib(at + 1, &end) : -1;
		if (mib[i] < 0)
			return false;
		at = i < 2 ? strchr(end, '+') : NULL;
	}
	return true;
}

void own_word_add(struct own_word *out, bool host, const int64_t mib[3])
{
	*(host ? &out->host_weights_bytes : &out->device_weights_bytes) += mib[0] << 20;
	*(host ? &out->host_context_bytes : &out->device_context_bytes) += mib[1] << 20;
	*(host ? &out->host_compute_bytes : &out->device_compute_bytes) += mib[2] << 20;
	out->rows++;
}

bool own_word_line(struct own_word *out, struct str line)
{
	char text[LINE_BYTES];
	int64_t mib[3];

	str_copy(text, sizeof(text), line);
	char *row = strstr(text, table_mark);
	if (!row)
		return out->rows > 0 && strstr(text, "memory_breakdown_print") == NULL;
	char *cell = strchr(row + sizeof(table_mark) - 1, '|');
	if (!cell || !parse_cell(cell + 1, mib))
		return false; /* the heading */
	/* A device's cell is "total = free + (self = model + context + compute) + unaccounted"; CPU_REPACK has no total. */
	own_word_add(out, strchr(cell, '(') == NULL, mib);
	return false;
}

/* ---- in the formulas' place ---- */

struct told {
	int64_t weights, context, compute;
};

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* `beside` is the part of the pool that is not the model's own. */
static void use_in(struct footprint *pool, const struct footprint *beside, const struct told *told, uint32_t from)
{
	int64_t weights = told->weights, compute = told->compute;
	int64_t recurrent = pool->recurrent_bytes - beside->recurrent_bytes;

	if (from == WORD_OF_FIT_SUMS)
		weights = larger(weights, pool->weights_bytes - beside->weights_bytes);
	/* Both are bounds, then. */
	if (from != WORD_OF_SERVER && pool->compute_bytes - beside->compute_bytes < compute)
		compute = pool->compute_bytes - beside->compute_bytes;
	/* Cache and state are one number there; the state is known of the file. */
	recurrent = recurrent < told->context ? recurrent : told->context;
	pool->weights_bytes = weights + beside->weights_bytes;
	pool->recurrent_bytes = recurrent + beside->recurrent_bytes;
	pool->kv_bytes = told->context - recurrent + beside->kv_bytes;
	pool->compute_bytes = compute + beside->compute_bytes;
	pool->total_bytes = pool->weights_bytes + pool->recurrent_bytes + pool->kv_bytes + pool->compute_bytes +
	                    pool->overhead_bytes;
}

void own_word_use(const struct own_word *word, struct estimate *e)
{
	int64_t before = e->device.total_bytes + e->host.total_bytes, kv_before = e->device.kv_bytes + e->host.kv_bytes;
	bool follows = e->base_bytes < before; /* KV follows use: base has none of it */
	struct told device = { word->device_weights_bytes, word->device_context_bytes, word->device_compute_bytes };
	struct told host = { word->host_weights_bytes, word->host_context_bytes, word->host_compute_bytes };

	/* Of mapped experts it tells all. */
	if (e->experts.mapped_bytes > 0)
		host.weights = larger(host.weights - (e->experts.total_bytes - e->experts.resident_bytes), 0);
	use_in(&e->device, &e->device_beside, &device, word->from);
	use_in(&e->host, &e->host_beside, &host, word->from);
	int64_t added = e->device.total_bytes + e->host.total_bytes - before;
	e->steady_bytes += added;
	if (follows)
		added -= e->device.kv_bytes + e->host.kv_bytes - kv_before;
	e->base_bytes += added;
	e->peak_bytes = larger(e->peak_bytes + added, e->base_bytes);
	e->sigma_bytes = e->base_bytes / 100 * 2;
	e->upper_bytes = larger(e->steady_bytes, e->peak_bytes) + e->sigma_bytes / 3 * 7;
	e->lower_bytes = e->base_bytes / 100 * 70;
	e->confidence = 0.95;
	e->source = ESTIMATE_ENGINE;
}

/* ---- asking ---- */

static bool on_table(void *ctx, struct str line)
{
	return own_word_line(ctx, line);
}

static int ask_server(const struct launch *launch, int deadline_ms, const atomic_bool *given_up, struct own_word *out,
                      struct err *err)
{
	const struct hear how = { deadline_ms, given_up, on_table, out };
	int code = hear(launch, &how, err);

	if (code == 0 && out->rows == 0)
		code = err_set(err, -ENODATA, "the engine ended without telling what it takes");
	return code;
}

static int ask_fit_params(const struct launch *serving, int deadline_ms, const atomic_bool *given_up,
                          struct own_word *out, struct err *err)
{
	struct fit_params told = { 0 };
	const struct hear how = { deadline_ms < FIT_DEADLINE_MS ? deadline_ms : FIT_DEADLINE_MS, given_up,
		                  fit_params_line, &told };
	struct launch launch;
	int code = fit_params_launch(serving, &launch, err);

	if (code < 0)
		return code;
	code = hear(&launch, &how, err);
	if (code == 0 && !fit_params_word(&told, out))
		code = err_set(err, -ENODATA, "%s told nothing that hangs together", launch.argv.items[0]);
	launch_release(&launch);
	return code;
}

static int ask(const struct launch *launch, int deadline_ms, const atomic_bool *given_up, struct own_word *out,
               struct err *err)
{
	struct err other = { 0 };
	int code = ask_server(launch, deadline_ms, given_up, out, err);

	if (code == 0 || code == -ECANCELED)
		return code;
	*out = (struct own_word){ 0 };
	int second = ask_fit_params(launch, deadline_ms, given_up, out, &other);
	if (second == 0)
		return 0;
	*out = (struct own_word){ 0 };
	if (second == -ECANCELED)
		*err = other;
	return second == -ECANCELED ? second : code;
}

int own_word_ask(const struct conf_model *model, int64_t context_tokens, int64_t slots,
                 const struct launch_tuning *tuning, int deadline_ms, const atomic_bool *given_up,
                 struct own_word *out, struct err *err)
{
	/* It listens before it looks at the model: where nobody else comes. */
	char folder[] = "/tmp/cotenant-asks-XXXXXX";
	struct endpoint nowhere = { .path = "" };
	struct launch_request request = { .model = model,
		                          .slots = (uint32_t)slots,
		                          .context_tokens = (uint32_t)context_tokens,
		                          .tuning = *tuning,
		                          .endpoint = &nowhere,
		                          .environment = (const char *const *)environ };
	struct launch launch;

	*out = (struct own_word){ 0 };
	const struct adapter *adapter = adapter_of(model);
	if (!adapter || adapter->kind != CONF_ENGINE_LLAMA_SERVER)
		return err_set(err, -ENODATA, "only llama-server tells what it takes");
	if (!mkdtemp(folder))
		return err_set(err, -errno, "no folder for the engine's socket: %s", strerror(errno));
	snprintf(nowhere.path, sizeof(nowhere.path), "%s/engine.sock", folder);
	int code = adapter_launch(adapter, &request, &launch, err);
	if (code < 0) {
		rmdir(folder);
		return code;
	}
	/* The last of a flag counts. */
	words_add(&launch.argv, "--fit");
	words_add(&launch.argv, "on");
	words_add(&launch.argv, "-lv");
	words_add(&launch.argv, "4");
	code = ask(&launch, deadline_ms, given_up, out, err);
	launch_release(&launch);
	unlink(nowhere.path);
	rmdir(folder);
	return code;
}
