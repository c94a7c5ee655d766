#include "../cmocka_all.h"

#include "desk.h"

#define GIB (INT64_C(1) << 30)

static json_int_t int_of(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_integer(value))
		print_error("'%s' is no integer\n", key);
	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	if (!text)
		print_error("'%s' is no text\n", key);
	assert_non_null(text);
	return text;
}

static void assert_has(const json_t *object, const char *const *keys)
{
	for (; *keys; keys++) {
		if (!json_object_get(object, *keys))
			print_error("'%s' is missing\n", *keys);
		assert_non_null(json_object_get(object, *keys));
	}
}

static void load(struct desk *desk, uint32_t model, const char *path)
{
	assert_int_equal(desk_ask(desk, "POST", path, NULL), 0);
	desk_ready(desk, model);
	assert_int_equal(desk->call.status, 200);
}

static void ps_has_every_field_that_programs_rely_on(void **state)
{
	static const char *const keys[] = { "name", "state", "reason", "engine", "device", "pid", "context",
		                            "context_max", "slots", "slots_used", "cached_tokens",
		                            "tokens_per_s", "estimate_bytes", "measured_bytes", "running",
		                            "queued", "growths", "last_used_at_ms", "pinned", "warm_bytes",
		                            NULL };
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models?loaded=1", NULL), 200);
	json_t *none = desk_json(desk);
	assert_int_equal(json_array_size(json_object_get(none, "models")), 0);
	json_decref(none);

	load(desk, CHAT, "/api/v1/models/chat/load");
	desk_measure(desk, CHAT, 4 * GIB);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models?loaded=1", NULL), 200);
	json_t *root = desk_json(desk), *models = json_object_get(root, "models");
	assert_int_equal(json_array_size(models), 1);
	json_t *chat = json_array_get(models, 0);
	assert_has(chat, keys);
	assert_string_equal(text_of(chat, "name"), "chat");
	assert_string_equal(text_of(chat, "state"), "idle");
	assert_string_equal(text_of(chat, "engine"), "llama-server");
	assert_int_equal(int_of(chat, "measured_bytes"), 4 * GIB);
	assert_int_equal(int_of(chat, "estimate_bytes"), 4 * GIB);
	assert_int_equal(int_of(chat, "pid"), 100);
	assert_int_equal(int_of(chat, "context"), 4096);
	assert_int_equal(int_of(chat, "context_max"), 32768);
	json_decref(root);
}

/* Where the daemon reckons with another number than the formulas', both are told, and why. */
static void what_a_number_stands_on_is_told(void **state)
{
	struct desk *desk = *state;

	desk->estimate.base_bytes = 5 * GIB;
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json_t *json = desk_json(desk);
	assert_string_equal(text_of(json, "estimate_source"), "formula");
	assert_int_equal(int_of(json, "formula_base_bytes"), 5 * GIB);
	assert_null(strstr(text_of(json, "text"), "reckoned"));
	json_decref(json);

	desk->estimate.source = ESTIMATE_MEMO;
	desk->estimate.formula_bytes = 5 * GIB;
	desk->estimate.base_bytes = 4 * GIB;
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json = desk_json(desk);
	assert_int_equal(int_of(json, "formula_base_bytes"), 5 * GIB);
	assert_non_null(strstr(text_of(json, "text"), "; idle it is reckoned with 4.00 GiB, as the same launch took before, "
	                                              "where its file alone says 5.00 GiB"));
	json_decref(json);
}

/* What lies in memory of the file whose experts are mapped, as measured, beside what was declared. */
static void mapped_experts_are_measured(void **state)
{
	struct desk *desk = *state;

	desk->estimate.experts.total_bytes = 3 * GIB;
	desk->estimate.experts.resident_bytes = GIB;
	desk->estimate.experts.mapped_bytes = GIB + GIB / 2;
	load(desk, CHAT, "/api/v1/models/chat/load");
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json_t *json = desk_json(desk), *experts = json_object_get(json, "experts");
	assert_true(json_is_null(json_object_get(experts, "measured_bytes")));
	assert_null(strstr(text_of(json, "text"), "mapped file"));
	json_decref(json);

	desk->sample.owners = 1;
	desk->sample.owner[0] = (struct sample_owner){ .pgid = 100, .processes = 1, .mapped_bytes = 2 * GIB };
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json = desk_json(desk);
	experts = json_object_get(json, "experts");
	assert_int_equal(int_of(experts, "measured_bytes"), 2 * GIB);
	assert_int_equal(int_of(experts, "resident_bytes"), GIB);
	assert_int_equal(int_of(experts, "counted_bytes"), GIB + GIB / 2);
	assert_non_null(strstr(text_of(json, "text"), "; 2.00 GiB of its mapped file lie in memory, and 1.50 GiB are counted "
	                                              "(1.00 GiB of experts); no control group bounds it: nothing is bounded"));
	json_decref(json);
}

static void memory_adds_up(void **state)
{
	static const char *const pool_keys[] = { "name", "size_bytes", "capacity_bytes", "usable_bytes",
		                                 "unreclaimable_bytes", "free_bytes", "foreign_bytes",
		                                 "claimed_bytes", "views", NULL };
	struct desk *desk = *state;
	json_t *owner;
	size_t i;
	int64_t measured = 0, claimed = 0;

	load(desk, CHAT, "/api/v1/models/chat/load");
	desk_measure(desk, CHAT, 3 * GIB);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/memory", NULL), 200);
	json_t *memory = desk_json(desk), *pool = json_array_get(json_object_get(memory, "pools"), 0);
	assert_true(json_is_true(json_object_get(memory, "daemon")));
	assert_string_equal(text_of(memory, "topology"), "cpu");
	assert_has(pool, pool_keys);
	json_array_foreach(json_object_get(memory, "owners"), i, owner) {
		measured += int_of(owner, "measured_bytes");
		claimed += int_of(owner, "claim_bytes");
		assert_non_null(text_of(owner, "kind"));
	}
	assert_int_equal(measured, int_of(pool, "unreclaimable_bytes"));
	assert_int_equal(measured, 4 * GIB);
	assert_int_equal(claimed, int_of(pool, "claimed_bytes"));
	assert_int_equal(int_of(pool, "foreign_bytes"), GIB);
	assert_int_equal(int_of(json_object_get(json_object_get(memory, "runtimes"), "cpu"), "allocatable_bytes"),
	                 int_of(pool, "capacity_bytes") - 4 * GIB);
	json_decref(memory);
}

/* Of a card's own memory nobody's use is the system's baseline: not in the account, and not in what is scraped. */
static void what_nobody_was_found_for_is_no_baseline(void **state)
{
	struct desk *desk = *state;
	struct event machine = { .type = EVENT_MACHINE, .machine = { .pools = 2, .pool = { { 8 * GIB, 0 }, { 16 * GIB, 0 } },
	                                                             .limit_bytes = INT64_MAX, .policy = POLICY_LRU } };
	struct event sample = { .type = EVENT_SAMPLE };
	struct event *events[] = { &machine, &sample };
	struct action items[8];
	const json_t *owner;
	int64_t unknown = 0, baseline = 0;
	size_t i;

	sample.sample.unreclaimable_bytes[0] = GIB;
	sample.sample.unreclaimable_bytes[1] = 5 * GIB;
	for (i = 0; i < 2; i++) {
		struct actions actions = { items, 0, 8 };
		events[i]->at_us = desk->now_us += 1000;
		while (arbiter_step(desk->arbiter, events[i], &actions) == STEP_MORE) {
			events[i] = NULL;
			actions.count = 0;
		}
	}
	desk->topology.pools = 2;
	desk->topology.pool[1] = (struct pool){ .name = "vram-x", .kind = POOL_VRAM, .size_bytes = 16 * GIB, .unreclaimable_bytes = 5 * GIB };
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/memory", NULL), 200);
	json_t *memory = desk_json(desk);
	json_array_foreach(json_object_get(memory, "owners"), i, owner) {
		unknown += strcmp(text_of(owner, "kind"), "unknown") == 0 ? int_of(owner, "measured_bytes") : 0;
		baseline += strcmp(text_of(owner, "kind"), "system") == 0 ? int_of(owner, "measured_bytes") : 0;
	}
	assert_int_equal(unknown, 5 * GIB);
	assert_int_equal(baseline, GIB / 2);
	json_decref(memory);
	assert_int_equal(desk_ask(desk, "GET", "/metrics", NULL), 200);
	const char *page = buf_cstr(&desk->call.text);
	assert_non_null(strstr(page, "cotenant_memory_bytes{pool=\"1\",kind=\"unknown\",owner=\"not identified\"} 5368709120\n"));
	assert_non_null(strstr(page, "cotenant_memory_bytes{pool=\"ram\",kind=\"system\",owner=\"baseline\"} 536870912\n"));
}

static void a_plan_names_who_goes_and_loads_nothing(void **state)
{
	static const char *const keys[] = { "fits", "need_bytes", "peak_bytes", "free_bytes", "evict",
		                            "wait_estimate_ms", "reason", "estimate_source", "loads_measured",
		                            NULL };
	struct desk *desk = *state;

	load(desk, CHAT, "/api/v1/models/chat/load");
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/plan?model=small", NULL), 200);
	json_t *plan = desk_json(desk);
	assert_has(plan, keys);
	assert_string_equal(text_of(plan, "fits"), "now");
	json_decref(plan);

	desk_measure(desk, CHAT, 5 * GIB);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/plan", "{\"model\": \"small\"}"), 200);
	plan = desk_json(desk);
	json_t *victim = json_array_get(json_object_get(plan, "evict"), 0);
	assert_string_equal(text_of(plan, "fits"), "after-eviction");
	assert_string_equal(text_of(victim, "model"), "chat");
	assert_int_equal(int_of(victim, "bytes"), 5 * GIB);
	assert_has(victim, (const char *const[]){ "regret", "prefill_lost_ms", NULL });
	assert_true(id_is_none(desk->spawned[SMALL]));
	json_decref(plan);

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/plan?model=huge", NULL), 200);
	plan = desk_json(desk);
	assert_string_equal(text_of(plan, "fits"), "never");
	assert_true(json_is_null(json_object_get(plan, "wait_estimate_ms"))); /* there is nothing to wait for */
	json_decref(plan);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/huge", NULL), 200);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "can never fit on this machine: needs at least 40.0 GiB"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "have it take less"));
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/plan", NULL), 400);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/plan?model=none", NULL), 404);
}

static void a_load_is_answered_when_the_model_is_ready(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "{}"), 0);
	assert_false(id_is_none(desk->spawned[CHAT]));
	desk_ready(desk, CHAT);
	json_t *json = desk_json(desk);
	assert_int_equal(desk->call.status, 200);
	assert_string_equal(text_of(json, "model"), "chat");
	assert_string_equal(text_of(json, "result"), "loaded");
	assert_true(int_of(json, "took_ms") >= 2000);
	json_decref(json);
	assert_int_equal(tickets_open(desk->tickets), 0);
	/* A second one is done at once. */
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", NULL), 200);
}

static void an_unload_is_answered_when_the_bytes_are_back(void **state)
{
	struct desk *desk = *state;

	load(desk, CHAT, "/api/v1/models/chat/load");
	desk_measure(desk, CHAT, 4 * GIB);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/unload", NULL), 0);
	desk_exit(desk, CHAT);
	assert_int_equal(desk->call.status, 200);
	assert_int_equal(tickets_open(desk->tickets), 0);
}

static void without_waiting_a_load_is_accepted_and_goes_on(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "{\"wait\": false}"), 202);
	assert_int_equal(tickets_open(desk->tickets), 1);
	desk_ready(desk, CHAT);
	assert_int_equal(tickets_open(desk->tickets), 0);
	assert_int_equal(desk->gone, 0);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "{\"wait\": 3}"), 400);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "[1]"), 400);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "{"), 400);
}

static void a_caller_that_leaves_gives_up_its_load_but_not_its_unload(void **state)
{
	struct desk *desk = *state;

	desk_ask(desk, "POST", "/api/v1/models/chat/load", NULL);
	desk_leave(desk);
	assert_int_equal(desk->gone, 1);
	assert_int_equal(tickets_open(desk->tickets), 0);
	desk_ready(desk, CHAT); /* the load itself went on */
	desk_ask(desk, "POST", "/api/v1/models/chat/unload", NULL);
	desk_leave(desk);
	assert_int_equal(desk->gone, 1);
	assert_int_equal(tickets_open(desk->tickets), 1);
	desk_exit(desk, CHAT);
	assert_int_equal(tickets_open(desk->tickets), 0);
}

static void what_never_fits_is_507_with_its_numbers(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/huge/load", NULL), 507);
	assert_string_equal(desk->call.code, "never_fits");
	assert_non_null(strstr(buf_cstr(&desk->call.text), "40.0 GiB"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "have it take less"));
}

static void a_waiting_command_can_be_cancelled_and_ends_with_the_api(void **state)
{
	struct desk *desk = *state;
	char path[64];

	desk_ask(desk, "POST", "/api/v1/models/chat/load", "{\"wait\": false}");
	snprintf(path, sizeof(path), "/api/v1/requests/0badcafe-%d", (int)desk->sequence);
	assert_int_equal(desk_ask(desk, "DELETE", path, NULL), 200);
	assert_int_equal(tickets_open(desk->tickets), 0);
	assert_int_equal(desk_ask(desk, "DELETE", path, NULL), 404);
	/* One still waits when the daemon ends: desk_close() proves that nothing is left behind. */
	desk_ask(desk, "POST", "/api/v1/models/small/load", NULL);
}

static void pins_show(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/pin", NULL), 200);
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json_t *json = desk_json(desk);
	assert_true(json_is_true(json_object_get(json, "pinned")));
	assert_string_equal(text_of(json_object_get(json, "estimate"), "architecture"), "llama");
	json_decref(json);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/unpin", NULL), 200);
	desk_ask(desk, "GET", "/api/v1/models/chat", NULL);
	json = desk_json(desk);
	assert_true(json_is_false(json_object_get(json, "pinned")));
	json_decref(json);
}

static void why_tells_state_and_decisions(void **state)
{
	struct desk *desk = *state;

	load(desk, CHAT, "/api/v1/models/chat/load");
	desk_measure(desk, CHAT, 5 * GIB);
	desk_ask(desk, "POST", "/api/v1/models/small/load", "{\"wait\": false}");
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/small", NULL), 200);
	json_t *why = desk_json(desk), *decisions = json_object_get(why, "decisions");
	assert_string_equal(text_of(why, "kind"), "model");
	assert_non_null(strstr(text_of(why, "text"), "small is not loaded yet"));
	assert_non_null(strstr(text_of(why, "text"), "the file is cut short"));
	assert_non_null(strstr(text_of(json_array_get(decisions, 0), "text"), "evicted chat"));
	assert_non_null(strstr(text_of(json_array_get(decisions, 0), "text"), "5.00 GiB"));
	assert_int_equal(strncmp(text_of(json_array_get(decisions, 0), "id"), "0badcafe-", 9), 0);
	json_decref(why);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/0badcafe-999", NULL), 404);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/nobody", NULL), 404);
}

static void a_request_is_found_live_and_after_its_end(void **state)
{
	struct desk *desk = *state;

	desk->live = (struct exchange_view){ .sequence = 77, .stage = STAGE_WAITING, .model = CHAT,
		                             .path = "/v1/chat/completions", .arrived_at_us = desk->now_us,
		                             .priority = PRIORITY_NORMAL };
	desk->has_live = true;
	desk_wait(desk, 3000000);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/requests/0badcafe-77", NULL), 200);
	json_t *json = desk_json(desk);
	assert_string_equal(text_of(json, "state"), "waiting");
	assert_int_equal(int_of(json, "wait_ms"), 3001);
	json_decref(json);

	desk->has_live = false;
	api_on_request_end(desk->api, &(struct exchange_end){
		.sequence = 77, .model = CHAT, .path = "/v1/chat/completions", .status = 200, .dispatched = true,
		.ticket = { 1, 1 }, .arrived_at_us = 1000000, .dispatched_at_us = 3000000,
		.first_byte_at_us = 3500000, .ended_at_us = 4000000, .tokens_out = 12 });
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/requests/0badcafe-77", NULL), 200);
	json = desk_json(desk);
	assert_string_equal(text_of(json, "outcome"), "ok");
	assert_int_equal(int_of(json, "wait_ms"), 2000);
	assert_int_equal(int_of(json, "first_byte_ms"), 2500);
	assert_int_equal(int_of(json, "total_ms"), 3000);
	assert_int_equal(int_of(json, "tokens_out"), 12);
	json_decref(json);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/0badcafe-77", NULL), 200);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/requests/ffffffff-77", NULL), 404);
}

static void a_key_sees_its_models_and_its_requests_alone(void **state)
{
	static const char *const paths[] = { "/api/v1/models", "/v1/models", "/api/tags", "/api/v1/decisions",
		                             "/metrics", NULL };
	struct desk *desk = *state;

	load(desk, SMALL, "/api/v1/models/small/load");
	api_on_request_end(desk->api, &(struct exchange_end){ .sequence = 5, .model = CHAT, .ticket = { 1, 1 },
	                                                      .path = "/v1/x", .ended_at_us = 9 });
	for (const char *const *path = paths; *path; path++) {
		assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", *path, NULL), 200);
		assert_null(strstr(buf_cstr(&desk->call.text), "small"));
		assert_int_equal(desk_ask(desk, "GET", *path, NULL), 200);
		assert_non_null(strstr(buf_cstr(&desk->call.text), "small"));
	}
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", "/api/v1/models/small", NULL), 404);
	assert_null(strstr(buf_cstr(&desk->call.text), "nearest"));
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", "/api/v1/requests/0badcafe-5", NULL),
	                 404);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/requests/0badcafe-5", NULL), 200);
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", "/api/v1/config", NULL), 403);
	/* Engines' environments stand in it: role use without a key does not see them either. */
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, NULL, "GET", "/api/v1/config", NULL), 403);
}

static void commands_need_role_admin_and_json(void **state)
{
	static const char *const commands[] = { "/api/v1/models/chat/load", "/api/v1/models/chat/unload",
		                                "/api/v1/models/chat/stop", "/api/v1/models/chat/pin",
		                                "/api/v1/models/chat/unpin", "/api/v1/config/reload", NULL };
	struct desk *desk = *state;

	for (const char *const *path = commands; *path; path++)
		assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, NULL, "POST", *path, NULL), 403);
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, NULL, "DELETE", "/api/v1/requests/0badcafe-1", NULL), 403);
	assert_int_equal(desk->submitted, 0);

	desk->content_type = "text/plain";
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/models/chat/load", "{}"), 415);
	assert_int_equal(desk->submitted, 0);
}

static void wrong_paths_and_methods_say_what_is_right(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/memroy", NULL), 404);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "/api/v1/memory"));
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/chat/completions", NULL), 404);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "did you mean /v1/chat/completions?"));
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/nonsense", NULL), 404);
	assert_null(strstr(buf_cstr(&desk->call.text), "did you mean"));
	assert_int_equal(desk_ask(desk, "GET", "/ui/", NULL), 404);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "cotenant top"));
	assert_int_equal(desk_ask(desk, "PUT", "/api/v1/memory", NULL), 405);
	assert_string_equal(desk->call.allow, "GET");
	assert_int_equal(desk_ask(desk, "OPTIONS", "/api/v1/memory", NULL), 204);
	assert_int_equal(desk_ask(desk, "OPTIONS", "/", NULL), 204);
	assert_int_equal(desk_ask(desk, "OPTIONS", "/api/v1/memroy", NULL), 404);
	assert_int_equal(desk_ask(desk, "DELETE", "/api/v1/plan", NULL), 405);
	assert_string_equal(desk->call.allow, "GET, POST");
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/%zz", NULL), 400);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/", NULL), 404);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chta", NULL), 404);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "chat"));
	assert_int_equal(desk_ask(desk, "HEAD", "/healthz", NULL), 200);
}

static void a_set_is_no_model_but_has_some(void **state)
{
	struct desk *desk = *state;
	char *models[] = { desk->model[0].name, desk->model[1].name };
	struct conf_set set = { .name = (char[]){ "voice" }, .models = { models, 2 } };

	desk->conf.sets = &set;
	desk->conf.set_count = 1;
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/why/voice", NULL), 404);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "a set; its models are chat, small"));
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", "/api/v1/why/voice", NULL), 404);
	assert_null(strstr(buf_cstr(&desk->call.text), "small"));
	desk->conf.sets = NULL;
	desk->conf.set_count = 0;
}

static void the_front_door_says_where_to_go(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/", NULL), 200);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "chat, small, huge"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "/v1/chat/completions"));
	assert_int_equal(desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "HEAD", "/", NULL), 200);
	assert_null(strstr(buf_cstr(&desk->call.text), "small"));
	assert_int_equal(desk_ask(desk, "POST", "/", NULL), 405);
}

static void followers_get_decisions_and_slow_ones_are_dropped(void **state)
{
	struct desk *desk = *state;
	const struct decision decision = { .sequence = 9, .kind = DECISION_READY, .model = SMALL,
		                           .for_model = MODEL_NONE };

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/events?model=chat", NULL), 200);
	assert_string_equal(desk->call.type, "text/event-stream");
	api_on_decision(desk->api, &decision);
	assert_null(strstr(buf_cstr(&desk->call.text), "small"));
	desk_leave(desk);

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/events", NULL), 200);
	api_on_decision(desk->api, &decision);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "id: 9\nevent: decision\ndata: {"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "small is ready"));
	desk->call.pending = 1 << 20;
	api_on_decision(desk->api, &decision);
	assert_true(desk->call.ended);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "event: dropped"));
	api_on_decision(desk->api, &decision); /* nobody is written to any more */
}

static void log_followers_get_what_comes_and_slow_ones_hear_what_they_missed(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chat/logs?follow=1&lines=1", NULL), 200);
	assert_string_equal(desk->call.type, "text/plain; charset=utf-8");
	assert_string_equal(buf_cstr(&desk->call.text), "\xff bad byte\n");
	api_on_log(desk->api, "small", STR("of another\n"));
	api_on_log(desk->api, "chat", STR("one\n"));
	desk->call.pending = 1 << 20;
	api_on_log(desk->api, "chat", STR("lost\n"));
	api_on_log(desk->api, "chat", STR("lost too\n"));
	desk->call.pending = 0;
	api_on_log(desk->api, "chat", STR("two\n"));
	assert_string_equal(buf_cstr(&desk->call.text),
	                    "\xff bad byte\none\n\n[14 bytes left out: the reader is too slow]\ntwo\n");
	desk_leave(desk);
	api_on_log(desk->api, "chat", STR("nobody is written to any more\n"));
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chat/logs?lines=x", NULL), 400);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chat/logs?lines=0", NULL), 200);
	assert_string_equal(buf_cstr(&desk->call.text), "");
}

static void health_fails_where_the_arbiter_is_stuck(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/healthz", NULL), 200);
	desk->now.now_us += 60000000;
	assert_int_equal(desk_ask(desk, "GET", "/healthz", NULL), 503);
	desk->now.stepped_at_us = desk->now.sampled_at_us = desk->now.now_us;
	assert_int_equal(desk_ask(desk, "GET", "/healthz", NULL), 200);
}

static void lists_have_the_form_their_clients_know(void **state)
{
	struct desk *desk = *state;

	desk_ask(desk, "GET", "/v1/models", NULL);
	json_t *json = desk_json(desk), *first = json_array_get(json_object_get(json, "data"), 0);
	assert_string_equal(text_of(json, "object"), "list");
	assert_string_equal(text_of(first, "id"), "chat");
	assert_string_equal(text_of(first, "object"), "model");
	assert_int_equal(int_of(first, "created"), 1700000000);
	assert_string_equal(text_of(json_object_get(first, "meta"), "state"), "unloaded");
	json_decref(json);

	assert_int_equal(desk_ask(desk, "GET", "/v1/models/small", NULL), 200);
	json = desk_json(desk);
	assert_string_equal(text_of(json, "id"), "small");
	json_decref(json);
	assert_int_equal(desk_ask(desk, "GET", "/v1/models/smal", NULL), 404);

	desk_ask(desk, "GET", "/api/tags", NULL);
	json = desk_json(desk);
	first = json_array_get(json_object_get(json, "models"), 0);
	assert_string_equal(text_of(first, "model"), "chat");
	assert_int_equal(int_of(first, "size"), 4 * GIB);
	assert_int_equal(strlen(text_of(first, "digest")), 64);
	assert_string_equal(text_of(json_object_get(first, "details"), "parameter_size"), "7.0B");
	json_decref(json);

	desk_ask(desk, "GET", "/api/ps", NULL);
	json = desk_json(desk);
	assert_int_equal(json_array_size(json_object_get(json, "models")), 0);
	json_decref(json);
}

static void logs_are_text_or_json_whatever_the_engine_printed(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chat/logs", NULL), 200);
	assert_int_equal(strncmp(desk->call.type, "text/plain", 10), 0);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/models/chat/logs?json=1", NULL), 200);
	json_t *json = desk_json(desk);
	assert_non_null(strstr(text_of(json, "text"), "\xef\xbf\xbd bad byte"));
	json_decref(json);
}

static void a_reload_reports_or_refuses(void **state)
{
	struct desk *desk = *state;

	assert_int_equal(desk_ask(desk, "POST", "/api/v1/config/reload", "{}"), 200);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "slots 2 -> 4"));
	desk->reload_fails = true;
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/config/reload", NULL), 400);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "c.yaml:3:1"));
}

static void a_reload_takes_its_time_and_its_caller_may_leave(void **state)
{
	struct desk *desk = *state;

	desk->reload_waits = true;
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/config/reload", "{}"), 0);
	desk_reloaded(desk);
	assert_int_equal(desk->call.status, 200);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/config/reload", "{}"), 0);
	desk_leave(desk);
	desk_reloaded(desk);
	assert_int_equal(desk_ask(desk, "POST", "/api/v1/config/reload", "{}"), 0);
	/* The desk closes before that one comes to its end. */
}

/* Each family once, declared before its samples; each series once; at least twenty families. */
static void metrics_are_well_formed(void **state)
{
	struct desk *desk = *state;
	char family[128] = "", line[512];
	int families = 0;

	load(desk, CHAT, "/api/v1/models/chat/load");
	assert_int_equal(desk_ask(desk, "GET", "/metrics", NULL), 200);
	struct str rest = buf_str(&desk->call.text);
	while (rest.length) {
		assert_true(str_copy(line, sizeof(line), str_cut(rest, '\n', &rest)));
		if (sscanf(line, "# TYPE %127s", family) == 1) {
			families++;
		} else if (line[0] && line[0] != '#') {
			size_t length = strlen(family);
			assert_int_equal(strncmp(line, family, length), 0);
			assert_non_null(strchr("{ _", line[length]));
			assert_non_null(strrchr(line, ' '));
		}
	}
	assert_true(families >= 20);
	assert_non_null(strstr(buf_cstr(&desk->call.text), "cotenant_model_state{model=\"chat\",state=\"idle\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "cotenant_loads_total 1\n"));
	assert_non_null(strstr(buf_cstr(&desk->call.text), "cotenant_load_seconds_count 1\n"));
}

static void without_a_history_it_says_so(void **state)
{
	struct desk *desk = *state;
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/history", NULL), 503);
	assert_string_equal(desk->call.code, "no_history");
}

static void the_history_answers_from_its_thread(void **state)
{
	struct desk *desk = *state;

	store_add_request(desk->store, &(struct store_request){ .arrived_at_ms = 5, .id = "0badcafe-1",
	                                                        .model = "chat", .key_name = "laptop",
	                                                        .path = "/v1/x", .priority = "normal",
	                                                        .outcome = "ok", .status = 200 });
	store_add_request(desk->store, &(struct store_request){ .arrived_at_ms = 6, .id = "0badcafe-2",
	                                                        .model = "small", .key_name = "",
	                                                        .path = "/v1/x", .priority = "normal",
	                                                        .outcome = "ok", .status = 200 });
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/history?kind=requests&limit=10", NULL), 0);
	desk_run_posted(desk);
	assert_int_equal(desk->call.status, 200);
	json_t *json = desk_json(desk);
	assert_int_equal(json_array_size(json_object_get(json, "requests")), 2);
	json_decref(json);

	/* A key sees its own. */
	desk_ask_as(desk, CONF_ROLE_USE, &desk->key, "GET", "/api/v1/history?kind=requests", NULL);
	desk_run_posted(desk);
	json = desk_json(desk);
	assert_int_equal(json_array_size(json_object_get(json, "requests")), 1);
	json_decref(json);

	/* A caller that leaves in between costs nothing; wrong questions are refused. */
	desk_ask(desk, "GET", "/api/v1/history", NULL);
	desk_leave(desk);
	desk_run_posted(desk);
	assert_int_equal(desk->call.status, 0);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/history?kind=dreams", NULL), 400);
	assert_int_equal(desk_ask(desk, "GET", "/api/v1/history?since=yesterday", NULL), 400);
}

#define ON_A_DESK(test) cmocka_unit_test_setup_teardown(test, desk_open, desk_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_DESK(ps_has_every_field_that_programs_rely_on),
		ON_A_DESK(what_a_number_stands_on_is_told),
		ON_A_DESK(mapped_experts_are_measured),
		ON_A_DESK(memory_adds_up),
		ON_A_DESK(a_plan_names_who_goes_and_loads_nothing),
		ON_A_DESK(a_load_is_answered_when_the_model_is_ready),
		ON_A_DESK(an_unload_is_answered_when_the_bytes_are_back),
		ON_A_DESK(without_waiting_a_load_is_accepted_and_goes_on),
		ON_A_DESK(a_caller_that_leaves_gives_up_its_load_but_not_its_unload),
		ON_A_DESK(what_never_fits_is_507_with_its_numbers),
		ON_A_DESK(a_waiting_command_can_be_cancelled_and_ends_with_the_api),
		ON_A_DESK(pins_show),
		ON_A_DESK(why_tells_state_and_decisions),
		ON_A_DESK(a_request_is_found_live_and_after_its_end),
		ON_A_DESK(a_key_sees_its_models_and_its_requests_alone),
		ON_A_DESK(commands_need_role_admin_and_json),
		ON_A_DESK(wrong_paths_and_methods_say_what_is_right),
		ON_A_DESK(a_set_is_no_model_but_has_some),
		ON_A_DESK(the_front_door_says_where_to_go),
		ON_A_DESK(followers_get_decisions_and_slow_ones_are_dropped),
		ON_A_DESK(log_followers_get_what_comes_and_slow_ones_hear_what_they_missed),
		ON_A_DESK(health_fails_where_the_arbiter_is_stuck),
		ON_A_DESK(lists_have_the_form_their_clients_know),
		ON_A_DESK(logs_are_text_or_json_whatever_the_engine_printed),
		ON_A_DESK(a_reload_reports_or_refuses),
		ON_A_DESK(a_reload_takes_its_time_and_its_caller_may_leave),
		ON_A_DESK(metrics_are_well_formed),
		ON_A_DESK(what_nobody_was_found_for_is_no_baseline),
		ON_A_DESK(without_a_history_it_says_so),
		cmocka_unit_test_setup_teardown(the_history_answers_from_its_thread, desk_open_with_history,
		                                desk_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
