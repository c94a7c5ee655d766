#include "api/inside.h"
#include "api/memory.h"
#include "base/units.h"

/*
 * /metrics: each family with all its samples together. What concerns a model is
 * left out for a key that may not see it.
 */
struct page {
	struct api *api;
	const struct call *call;
	const struct arbiter *arbiter;
	struct buf out;
};

/* ---- the machine ---- */

/* As memory tells it: no more than a limit on all of the pool allows. */
static int64_t within(const struct page *page, uint32_t pool, int64_t capacity_bytes)
{
	const struct topology *topology = page->api->host.topology(page->api->host.ctx);
	int64_t bound = topology && pool < topology->pools ? topology_bound(topology, pool) : INT64_MAX;

	return capacity_bytes < bound ? capacity_bytes : bound;
}

static void put_pool_gauge(struct page *page, const char *name, const char *help,
                           int64_t (*value)(const struct pool_view *pool))
{
	static const struct label pools[POOLS_MAX][2] = {
		{ { "pool", "ram" } }, { { "pool", "1" } }, { { "pool", "2" } }, { { "pool", "3" } },
		{ { "pool", "4" } },   { { "pool", "5" } }, { { "pool", "6" } }, { { "pool", "7" } },
	};
	struct pool_view pool;

	metric_head(&page->out, name, METRIC_GAUGE, help);
	for (uint32_t i = 0; i < arbiter_pools(page->arbiter) && i < POOLS_MAX; i++) {
		arbiter_pool(page->arbiter, i, &pool);
		pool.capacity_bytes = within(page, i, pool.capacity_bytes);
		metric_int(&page->out, name, pools[i], value(&pool));
	}
}

static int64_t pool_size(const struct pool_view *pool)
{
	return pool->size_bytes;
}

static int64_t pool_capacity(const struct pool_view *pool)
{
	return pool->capacity_bytes;
}

static int64_t pool_free(const struct pool_view *pool)
{
	return pool->free_bytes;
}

static int64_t pool_foreign(const struct pool_view *pool)
{
	return pool->foreign_bytes;
}

static int64_t pool_held(const struct pool_view *pool)
{
	return pool->held_bytes;
}

static int64_t pool_unreclaimable(const struct pool_view *pool)
{
	return pool->unreclaimable_bytes;
}

static void put_owner(struct page *page, const char *pool, const char *kind, const char *owner, int64_t bytes)
{
	const struct label labels[] = { { "pool", pool }, { "kind", kind }, { "owner", owner }, { 0 } };
	metric_int(&page->out, "cotenant_memory_bytes", labels, bytes);
}

static void put_owners(struct page *page)
{
	struct model_view model;
	struct pool_view pool = { 0 };
	struct api_now now;

	page->api->host.now(page->api->host.ctx, &now);
	if (arbiter_pools(page->arbiter) > 0)
		arbiter_pool(page->arbiter, 0, &pool);
	int64_t baseline = memory_baseline(page->api->host.topology(page->api->host.ctx), now.baseline_bytes, pool.foreign_bytes);
	metric_head(&page->out, "cotenant_memory_bytes", METRIC_GAUGE,
	            "Memory in use as measured, by owner.");
	put_owner(page, "ram", "system", "baseline", baseline);
	put_owner(page, "ram", "foreign", "other programs", pool.foreign_bytes - baseline);
	for (uint32_t i = 1; i < arbiter_pools(page->arbiter); i++) { /* here nobody looks whose it is */
		char number[16];
		arbiter_pool(page->arbiter, i, &pool);
		snprintf(number, sizeof(number), "%u", i);
		put_owner(page, number, "unknown", "not identified", pool.foreign_bytes);
	}
	for (uint32_t i = 0; i < arbiter_models(page->arbiter); i++)
		if (arbiter_model(page->arbiter, i, &model) && !id_is_none(model.instance) &&
		    api_may_see(page->api, page->call, i))
			put_owner(page, "ram", "instance", model.spec->name, model.measured_bytes);
}

static void put_machine(struct page *page)
{
	const struct sample *sample = page->api->host.sample(page->api->host.ctx);

	put_pool_gauge(page, "cotenant_memory_size_bytes", "Size of the pool.", pool_size);
	put_pool_gauge(page, "cotenant_memory_capacity_bytes", "What may be used: the size less the reserve, within every limit on all of it.",
	               pool_capacity);
	put_pool_gauge(page, "cotenant_memory_free_bytes", "The largest need that would be admitted now.",
	               pool_free);
	put_pool_gauge(page, "cotenant_memory_foreign_bytes", "In use by others than our engines.",
	               pool_foreign);
	put_pool_gauge(page, "cotenant_memory_claimed_bytes", "Held by engines: claim or measurement.",
	               pool_held);
	put_pool_gauge(page, "cotenant_memory_unreclaimable_bytes", "What the kernel could not take back.",
	               pool_unreclaimable);
	put_owners(page);
	metric_head(&page->out, "cotenant_oom_kills_total", METRIC_COUNTER,
	            "Processes that the kernel killed for memory since the machine started.");
	metric_int(&page->out, "cotenant_oom_kills_total", NULL, sample ? sample->oom_kills : 0);
}

/* ---- models ---- */

struct family {
	const char *name;
	enum metric_type type;
	const char *help;
	int64_t (*value)(const struct model_view *model);
	void (*put)(struct buf *out, const char *name, const struct label *labels, int64_t value);
};

static void put_of_models(struct page *page, const struct family *family)
{
	struct model_view model;

	metric_head(&page->out, family->name, family->type, family->help);
	for (uint32_t i = 0; i < arbiter_models(page->arbiter); i++) {
		if (!arbiter_model(page->arbiter, i, &model) || !api_may_see(page->api, page->call, i))
			continue;
		const struct label labels[] = { { "model", model.spec->name }, { 0 } };
		family->put(&page->out, family->name, labels, family->value(&model));
	}
}

static void put_model_gauge(struct page *page, const char *name, const char *help,
                            int64_t (*value)(const struct model_view *model))
{
	const struct family family = { name, METRIC_GAUGE, help, value, metric_int };

	put_of_models(page, &family);
}

static int64_t model_claim(const struct model_view *model)
{
	return model->claim_bytes;
}

static int64_t model_measured(const struct model_view *model)
{
	return model->measured_bytes;
}

static int64_t model_queue(const struct model_view *model)
{
	return model->queued;
}

static int64_t model_running(const struct model_view *model)
{
	return model->running;
}

static int64_t model_resident(const struct model_view *model)
{
	return model->state == MODEL_IDLE || model->state == MODEL_BUSY || model->state == MODEL_DRAINING;
}

static int64_t model_growths(const struct model_view *model)
{
	return (int64_t)model->growths;
}

static int64_t model_growths_us(const struct model_view *model)
{
	return model->growths_us;
}

static int64_t model_kept_growths(const struct model_view *model)
{
	return (int64_t)model->kept_growths;
}

static int64_t model_context(const struct model_view *model)
{
	return model->context_tokens ? model->context_tokens : model->spec->context_tokens;
}

static void put_model_states(struct page *page)
{
	struct model_view model;

	metric_head(&page->out, "cotenant_model_state", METRIC_GAUGE, "1 for the state a model is in.");
	for (uint32_t i = 0; i < arbiter_models(page->arbiter); i++) {
		if (!arbiter_model(page->arbiter, i, &model) || !api_may_see(page->api, page->call, i))
			continue;
		const struct label labels[] = { { "model", model.spec->name },
			                        { "state", model_state_name(model.state) },
			                        { 0 } };
		metric_int(&page->out, "cotenant_model_state", labels, 1);
	}
}

static const struct family growths = {
	"cotenant_model_growths_total", METRIC_COUNTER, "Times that it was started anew with a larger context.",
	model_growths, metric_int,
};
static const struct family growth_time = {
	"cotenant_model_growth_seconds_total", METRIC_COUNTER, "What starting it anew with a larger context took.",
	model_growths_us, metric_seconds,
};
static const struct family kv_growths = {
	"cotenant_model_kv_growths_total", METRIC_COUNTER, "Times that what its conversations hold grew, where KV follows use.",
	model_kept_growths, metric_int,
};

static void put_models(struct page *page)
{
	put_model_states(page);
	put_model_gauge(page, "cotenant_model_resident", "Whether the model is loaded.", model_resident);
	put_model_gauge(page, "cotenant_model_claim_bytes", "What the ledger holds for it.", model_claim);
	put_model_gauge(page, "cotenant_model_measured_bytes", "What it was measured to use.",
	                model_measured);
	put_model_gauge(page, "cotenant_model_queue_length", "Requests that wait for it.", model_queue);
	put_model_gauge(page, "cotenant_model_running", "Requests that run on it.", model_running);
	put_model_gauge(page, "cotenant_model_context_tokens", "Its context, for each conversation.", model_context);
	put_of_models(page, &growths);
	put_of_models(page, &growth_time);
	put_of_models(page, &kv_growths);
}

/* ---- requests ---- */

static void put_outcome_row(struct page *page, uint32_t row, const char *model)
{
	for (uint32_t outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
		uint64_t count = page->api->metrics.outcome[row][outcome];
		const struct label labels[] = { { "model", model },
			                        { "outcome", outcome_name(outcome) },
			                        { 0 } };
		if (count)
			metric_int(&page->out, "cotenant_requests_total", labels, (int64_t)count);
	}
}

static void put_requests(struct page *page)
{
	const struct metrics *metrics = &page->api->metrics;

	metric_head(&page->out, "cotenant_requests_total", METRIC_COUNTER,
	            "Requests that ended, by model and outcome.");
	/* A model that left the configuration keeps its counts: a counter never goes back. */
	for (uint32_t i = 0; i < metrics->models; i++) {
		const struct conf_model *model = api_conf_model(page->api, i);
		if (model && api_may_see(page->api, page->call, i))
			put_outcome_row(page, i, model->name);
	}
	put_outcome_row(page, metrics->models, "");
	metric_histogram(&page->out, "cotenant_request_wait_seconds", "From arrival to dispatch.",
	                 &metrics->wait);
	metric_histogram(&page->out, "cotenant_request_first_byte_seconds",
	                 "From arrival to the engine's first byte.", &metrics->first_byte);
	metric_histogram(&page->out, "cotenant_request_duration_seconds", "From arrival to the end.",
	                 &metrics->duration);
	metric_histogram(&page->out, "cotenant_load_seconds", "From the decision to the ready engine.",
	                 &metrics->load);
	metric_histogram(&page->out, "cotenant_step_seconds", "One step of the arbiter.", &metrics->step);
}

/* ---- counters ---- */

static void put_counter(struct page *page, const char *name, const char *help, uint64_t value)
{
	metric_head(&page->out, name, METRIC_COUNTER, help);
	metric_int(&page->out, name, NULL, (int64_t)value);
}

static void put_arbiter(struct page *page)
{
	const struct arbiter_counters *counters = arbiter_counters(page->arbiter);

	put_counter(page, "cotenant_loads_total", "Loads that were decided.", counters->loads);
	put_counter(page, "cotenant_load_failures_total", "Loads that failed.", counters->load_failures);
	put_counter(page, "cotenant_evictions_total", "Models that went to make room.",
	            counters->evictions);
	put_counter(page, "cotenant_unloads_total", "Models that went for another reason.",
	            counters->unloads);
	put_counter(page, "cotenant_dispatches_total", "Requests sent to an engine.", counters->dispatches);
	put_counter(page, "cotenant_emergencies_total", "Engines ended to save the machine's memory.",
	            counters->emergencies);
	put_counter(page, "cotenant_decisions_total", "Decisions recorded.", counters->decisions);
	put_counter(page, "cotenant_stale_events_total", "Events about what had ended already.",
	            counters->stale_events);
	metric_head(&page->out, "cotenant_engine_endings_total", METRIC_COUNTER,
	            "Engines that ended though nobody told them to, by cause.");
	for (uint32_t cause = CAUSE_NONE + 1; cause < CAUSE_COUNT; cause++) {
		const struct label labels[] = { { "cause", cause_name(cause) }, { 0 } };
		metric_int(&page->out, "cotenant_engine_endings_total", labels,
		           (int64_t)page->api->metrics.endings[cause]);
	}
	metric_head(&page->out, "cotenant_rejects_total", METRIC_COUNTER, "Requests refused, by reason.");
	for (uint32_t fail = 1; fail < FAIL_COUNT; fail++) {
		const struct label labels[] = { { "reason", fail_name(fail) }, { 0 } };
		if (counters->rejects[fail])
			metric_int(&page->out, "cotenant_rejects_total", labels,
			           (int64_t)counters->rejects[fail]);
	}
}

static void put_http(struct page *page)
{
	static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };
	const struct gateway_counters *counters = page->api->host.gateway(page->api->host.ctx);

	put_counter(page, "cotenant_connections_total", "Connections taken.", counters->connections);
	put_counter(page, "cotenant_bad_heads_total", "Requests refused for a malformed head.",
	            counters->bad_heads);
	put_counter(page, "cotenant_received_bytes_total", "Bytes received from clients.", counters->bytes_in);
	put_counter(page, "cotenant_sent_bytes_total", "Bytes sent to clients.", counters->bytes_out);
	metric_head(&page->out, "cotenant_http_answers_total", METRIC_COUNTER, "Answers by class of status.");
	for (size_t i = 0; i < 6; i++) {
		const struct label labels[] = { { "class", classes[i] }, { 0 } };
		metric_int(&page->out, "cotenant_http_answers_total", labels, (int64_t)counters->by_status[i]);
	}
	metric_head(&page->out, "cotenant_requests_live", METRIC_GAUGE, "Requests the arbiter knows.");
	metric_int(&page->out, "cotenant_requests_live", NULL, arbiter_requests_live(page->arbiter));
	metric_head(&page->out, "cotenant_event_followers", METRIC_GAUGE, "Open event streams.");
	metric_int(&page->out, "cotenant_event_followers", NULL, page->api->follower_count);
}

static void put_store(struct page *page)
{
	struct store_counters counters = { 0 };
	const struct label written[] = { { "outcome", "written" }, { 0 } };
	const struct label dropped[] = { { "outcome", "dropped" }, { 0 } };
	const struct label failed[] = { { "outcome", "failed" }, { 0 } };

	if (page->api->options.store)
		store_counters(page->api->options.store, &counters);
	metric_head(&page->out, "cotenant_store_rows_total", METRIC_COUNTER, "Rows for the history.");
	metric_int(&page->out, "cotenant_store_rows_total", written, (int64_t)counters.written);
	metric_int(&page->out, "cotenant_store_rows_total", dropped, (int64_t)counters.dropped);
	metric_int(&page->out, "cotenant_store_rows_total", failed, (int64_t)counters.failed);
}

void handle_metrics(struct api *api, struct call *call, const char *name)
{
	struct page page = { api, call, api->host.arbiter(api->host.ctx), BUF_INIT };
	const struct label build[] = { { "version", api->options.version }, { 0 } };

	(void)name;
	metric_head(&page.out, "cotenant_build_info", METRIC_GAUGE, "1, with the version.");
	metric_int(&page.out, "cotenant_build_info", build, 1);
	metric_head(&page.out, "cotenant_start_time_seconds", METRIC_GAUGE, "Unix time of the start.");
	metric_seconds(&page.out, "cotenant_start_time_seconds", NULL,
	               api_epoch_ms(api, api->options.started_at_us) * US_PER_MS);
	put_machine(&page);
	put_models(&page);
	put_arbiter(&page);
	put_requests(&page);
	put_http(&page);
	put_store(&page);
	put_sets(api, call, &page.out);
	put_pace(page.arbiter, &page.out);
	call_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&page.out));
	buf_release(&page.out);
}
