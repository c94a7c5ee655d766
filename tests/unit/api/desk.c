#include "desk.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/url.h"

#define GIB (INT64_C(1) << 30)

/* ---- the caller ---- */

struct str call_method(const struct call *call)
{
	return str_from(call->method);
}

struct str call_path(const struct call *call)
{
	return str_from(call->path);
}

struct str call_body(const struct call *call)
{
	return str_from(call->body);
}

struct str call_header(const struct call *call, const char *name)
{
	return strcmp(name, "content-type") == 0 ? str_from(call->content_type) : STR("");
}

enum conf_role call_role(const struct call *call)
{
	return call->role;
}

const struct conf_key *call_key(const struct call *call)
{
	return call->key;
}

bool call_parameter(const struct call *call, const char *name, char *out, uint32_t out_bytes)
{
	return url_parameter(str_from(call->query), name, out, out_bytes);
}

void call_answer_header(struct call *call, const char *name, const char *value)
{
	assert_false(call->begun);
	if (strcmp(name, "Allow") == 0)
		str_copy(call->allow, sizeof(call->allow), str_from(value));
	if (strcmp(name, "Retry-After") == 0)
		str_copy(call->retry_after, sizeof(call->retry_after), str_from(value));
}

void call_begin(struct call *call, int status, const char *content_type)
{
	assert_false(call->begun);
	call->begun = true;
	call->status = status;
	str_copy(call->type, sizeof(call->type), str_from(content_type));
}

void call_write(struct call *call, struct str bytes)
{
	assert_true(call->begun && !call->ended);
	buf_append_str(&call->text, bytes);
}

void call_end(struct call *call)
{
	assert_false(call->ended);
	call->ended = true;
}

void call_reply(struct call *call, int status, const char *content_type, struct str body)
{
	call_begin(call, status, content_type);
	call_write(call, body);
	call_end(call);
}

void call_error(struct call *call, int status, const char *code, const char *message, const char *help)
{
	(void)help;
	str_copy(call->code, sizeof(call->code), str_from(code));
	call_reply(call, status, "application/json", str_from(message));
}

void call_methods(struct call *call, const char *methods)
{
	str_copy(call->allow, sizeof(call->allow), str_from(methods));
	call_reply(call, strcmp(call->method, "OPTIONS") == 0 ? 204 : 405, "", STR(""));
}

uint64_t call_pending(const struct call *call)
{
	return call->pending;
}

void call_on_gone(struct call *call, void (*on_gone)(void *ctx, struct call *call), void *ctx)
{
	call->on_gone = on_gone;
	call->on_gone_ctx = ctx;
}

/* ---- what the api asks of the layers that are not here ---- */

void supervisor_load_bytes(const struct supervisor *supervisor, struct id instance, int64_t *out_bytes,
                           int64_t *out_total)
{
	(void)supervisor;
	(void)instance;
	*out_bytes = 250 << 20;
	*out_total = 1000 << 20;
}

struct str supervisor_log(const struct supervisor *supervisor, const struct conf_model *model)
{
	(void)supervisor;
	return strcmp(model->name, "chat") == 0 ? STR("loading\n\xff bad byte\n") : STR("");
}

const char *supervisor_bound_refused(const struct supervisor *supervisor)
{
	(void)supervisor;
	return "nothing is bounded on a desk";
}

int64_t supervisor_bound_bytes(const struct supervisor *supervisor, struct id instance)
{
	(void)supervisor;
	(void)instance;
	return 0;
}

/* ---- the shell ---- */

static void step(struct desk *desk, struct event *event)
{
	struct action items[4];
	enum step more = STEP_MORE;

	event->at_us = desk->now_us += 1000;
	while (more == STEP_MORE) {
		struct actions actions = { items, 0, 4 };
		more = arbiter_step(desk->arbiter, event, &actions);
		event = NULL;
		for (uint32_t i = 0; i < actions.count; i++) {
			const struct action *action = &items[i];
			if (action->type == ACTION_RECORD)
				api_on_decision(desk->api, &action->decision);
			else if (action->type == ACTION_SPAWN)
				desk->spawned[action->model] = action->instance;
			else if (action->type == ACTION_REJECT || action->type == ACTION_DONE)
				ticket_verdict(desk->tickets, action);
		}
	}
	desk->now.now_us = desk->now.stepped_at_us = desk->now_us;
	arbiter_check(desk->arbiter);
}

static const struct arbiter *get_arbiter(void *ctx)
{
	return ((struct desk *)ctx)->arbiter;
}

static const struct conf *get_conf(void *ctx)
{
	return &((struct desk *)ctx)->conf;
}

static void get_calibration(void *ctx, struct calibration *out)
{
	(void)ctx;
	calibrate(NULL, NULL, 0, out);
}

static const struct topology *get_topology(void *ctx)
{
	return &((struct desk *)ctx)->topology;
}

static const struct sample *get_sample(void *ctx)
{
	struct desk *desk = ctx;
	return desk->sample.total_bytes ? &desk->sample : NULL;
}

static const struct estimate *get_estimate(void *ctx, uint32_t model)
{
	return model == CHAT ? &((struct desk *)ctx)->estimate : NULL;
}

static const struct gateway_counters *get_gateway(void *ctx)
{
	return &((struct desk *)ctx)->gateway;
}

static void get_now(void *ctx, struct api_now *out)
{
	*out = ((struct desk *)ctx)->now;
}

static uint64_t next_sequence(void *ctx)
{
	return ++((struct desk *)ctx)->sequence;
}

static void explain(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes)
{
	(void)ctx;
	(void)fail;
	str_copy(out, out_bytes, model == SMALL ? STR("the file is cut short") : STR(""));
}

static void submit(void *ctx, struct id ticket, const struct request_spec *spec)
{
	struct desk *desk = ctx;
	struct event event = { .type = EVENT_REQUEST_ARRIVED, .arrived = { ticket, *spec } };

	desk->submitted++;
	step(desk, &event);
}

static void gone(void *ctx, struct id ticket)
{
	struct desk *desk = ctx;
	struct event event = { .type = EVENT_REQUEST_GONE,
		               .request = { .request = ticket, .fail = FAIL_CLIENT_GONE } };

	desk->gone++;
	step(desk, &event);
}

static void pin(void *ctx, uint32_t model, bool on)
{
	struct event event = { .type = EVENT_PIN, .command = { model, on } };
	step(ctx, &event);
}

static void reload(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg)
{
	struct desk *desk = ctx;

	desk->reloaded = done;
	desk->reload = arg;
	if (!desk->reload_waits)
		desk_reloaded(desk);
}

void desk_reloaded(struct desk *desk)
{
	if (desk->reload_fails)
		desk->reloaded(desk->reload, -22, STR("c.yaml:3:1: error: no\n"));
	else
		desk->reloaded(desk->reload, 0, STR("models.chat: slots 2 -> 4\n"));
}

static void programs(void *ctx, void (*done)(void *arg, const struct programs *programs), void *arg)
{
	static const struct programs there = { .count = 1,
		                               .list = { { .name = "firefox", .processes = 3, .anon_bytes = GIB / 4 } } };
	(void)ctx;
	done(arg, &there);
}

static int64_t no_leak(void *ctx, uint32_t model, uint32_t *out_cycles)
{
	(void)ctx;
	(void)model;
	*out_cycles = 0;
	return 0;
}

static bool plan(void *ctx, uint32_t model, struct plan *out)
{
	struct desk *desk = ctx;
	void *scratch = xcalloc(1, desk->arbiter_bytes);
	bool known = arbiter_plan(desk->arbiter, model, scratch, out);

	free(scratch);
	return known;
}

static void requests(void *ctx, void (*each)(void *each_ctx, const struct exchange_view *view),
                     void *each_ctx)
{
	struct desk *desk = ctx;
	if (desk->has_live)
		each(each_ctx, &desk->live);
}

static bool cancel(void *ctx, uint64_t sequence)
{
	struct desk *desk = ctx;
	desk->cancelled = sequence;
	return desk->has_live && desk->live.sequence == sequence;
}

static bool post(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct desk *desk = ctx;

	pthread_mutex_lock(&desk->posted_lock);
	desk->posted = fn;
	desk->posted_arg = arg;
	pthread_mutex_unlock(&desk->posted_lock);
	return true;
}

void desk_run_posted(struct desk *desk)
{
	void (*fn)(void *arg) = NULL;

	for (int i = 0; i < 5000 && !fn; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		pthread_mutex_lock(&desk->posted_lock);
		fn = desk->posted;
		desk->posted = NULL;
		pthread_mutex_unlock(&desk->posted_lock);
	}
	assert_non_null(fn);
	fn(desk->posted_arg);
}

/* ---- setting up ---- */

static void add_model(struct desk *desk, uint32_t model, const char *name, int64_t base, int64_t peak)
{
	struct event event = { .type = EVENT_MODEL };
	struct model_spec *spec = &event.model.spec;

	desk->model[model] = (struct conf_model){ .name = xstrdup(name), .engine = CONF_ENGINE_LLAMA_SERVER,
		                                  .device = xstrdup("auto"), .file = xstrdup("/m/x.gguf"),
		                                  .slots = 2, .unload_after_us = CONF_NEVER };
	event.model.model = model;
	*spec = (struct model_spec){ .present = 1, .flags = MODEL_AUTOLOAD, .priority = PRIORITY_NORMAL,
		                     .weight_milli = 1000, .slots = 2, .queue = 8, .context_tokens = 4096,
		                     .unload_after_us = -1, .drain_timeout_us = 600000000,
		                     .load_timeout_us = -1 };
	str_copy(spec->name, sizeof(spec->name), str_from(name));
	spec->base.bytes[0][USE_HOST] = base;
	spec->peak.bytes[0][USE_HOST] = peak;
	spec->lower.bytes[0][USE_HOST] = base;
	step(desk, &event);
}

static void start_machine(struct desk *desk)
{
	struct event machine = { .type = EVENT_MACHINE,
		                 .machine = { .pools = 1, .pool = { { 8 * GIB, 0 } },
		                              .limit_bytes = INT64_MAX, .policy = POLICY_LRU } };
	struct event sample = { .type = EVENT_SAMPLE };

	step(desk, &machine);
	add_model(desk, CHAT, "chat", 4 * GIB, 5 * GIB);
	add_model(desk, SMALL, "small", 3 * GIB, 3 * GIB);
	add_model(desk, HUGE_ONE, "huge", 40 * GIB, 40 * GIB);
	sample.sample.unreclaimable_bytes[0] = GIB;
	step(desk, &sample);
}

static int open_desk(void **state, struct store *store)
{
	const struct arbiter_limits limits = { .models = 8, .requests = 16, .leases = 1 };
	struct desk *desk = xcalloc(1, sizeof(*desk));
	char *chat = xstrdup("chat");

	desk->arbiter_bytes = arbiter_bytes(&limits);
	desk->arbiter = arbiter_init(xcalloc(1, desk->arbiter_bytes), &limits);
	desk->now_us = 1000000;
	desk->now = (struct api_now){ .wall_offset_us = INT64_C(1700000000000000), .baseline_bytes = GIB / 2 };
	desk->conf = (struct conf){ .models = desk->model, .model_count = 3, .limit_models = 8,
		                    .memory_limit_bytes = CONF_AUTO };
	desk->key = (struct conf_key){ .name = (char *)"laptop", .role = CONF_ROLE_USE,
		                       .models = { xcalloc(1, sizeof(char *)), 1 } };
	desk->key.models.items[0] = chat;
	desk->sample = (struct sample){ .total_bytes = 8 * GIB, .available_bytes = 7 * GIB,
		                        .unreclaimable_bytes = GIB, .cgroup_limit_bytes = INT64_MAX };
	desk->topology = (struct topology){ .pools = 1, .pool = { { .name = "ram", .size_bytes = 8 * GIB,
		.unreclaimable_bytes = GIB } }, .cgroup_limit_bytes = INT64_MAX,
		.mem = { .total = 8 * GIB, .available = 7 * GIB }, .allocatable_bytes = 7 * GIB,
		.allocatable_cpu_bytes = 7 * GIB };
	desk->estimate = (struct estimate){ .architecture = "llama", .file_bytes = 4 * GIB,
		                            .parameters = 7000000000, .trained_context = 32768,
		                            .flags = "one,two" };
	desk->tickets = tickets_new(16);
	desk->store = store;
	pthread_mutex_init(&desk->posted_lock, NULL);
	const struct api_host host = { desk, get_arbiter, get_conf, get_sample, get_topology, get_estimate, get_gateway,
		                       get_now, next_sequence, explain, submit, gone, pin, reload, reload, programs, no_leak, plan,
		                       requests, cancel, post, get_calibration, NULL, NULL, NULL, NULL, NULL,
		                       NULL };
	/* Names are read as soon as decisions come, so the api is there first. */
	desk->api = api_new(&(struct api_options){ .boot_id = "0badcafe", .version = "1.2.3",
	                                           .tickets = desk->tickets, .store = store,
	                                           .started_at_us = 1 },
	                    &host);
	start_machine(desk);
	*state = desk;
	return 0;
}

int desk_open(void **state)
{
	return open_desk(state, NULL);
}

/* A file: history asks after its own, and is not kept in SQLite's memory. */
int desk_open_with_history(void **state)
{
	char folder[] = "/tmp/test-api-XXXXXX";
	struct err err;

	assert_non_null(mkdtemp(folder));
	char *path = xasprintf("%s/history.db", folder);
	struct store *store = store_open(path, &err);
	free(path);
	assert_non_null(store);
	int code = open_desk(state, store);
	memcpy(((struct desk *)*state)->folder, folder, sizeof(folder));
	return code;
}

static void remove_history(const char *folder)
{
	static const char *const names[] = { "history.db", "history.db-wal", "history.db-shm" };

	for (size_t i = 0; i < 3; i++) {
		char *path = xasprintf("%s/%s", folder, names[i]);
		unlink(path);
		free(path);
	}
	rmdir(folder);
}

int desk_close(void **state)
{
	struct desk *desk = *state;

	if (desk->store)
		store_close(desk->store, 1000);
	if (desk->folder[0])
		remove_history(desk->folder);
	api_free(desk->api);
	tickets_free(desk->tickets);
	for (size_t i = 0; i < desk->conf.model_count; i++) {
		free(desk->model[i].name);
		free(desk->model[i].device);
		free(desk->model[i].file);
	}
	free(desk->key.models.items[0]);
	free(desk->key.models.items);
	free((char *)desk->call.path);
	buf_release(&desk->call.text);
	free(desk->arbiter);
	free(desk);
	return 0;
}

/* ---- acting ---- */

int desk_ask_as(struct desk *desk, enum conf_role role, const struct conf_key *key, const char *method,
                const char *path_and_query, const char *body)
{
	struct call *call = &desk->call;

	buf_release(&call->text);
	free((char *)call->path);
	*call = (struct call){ .method = method, .body = body ? body : "", .role = role, .key = key,
		               .content_type = desk->content_type ? desk->content_type : "application/json",
		               .query = "" };
	char *path = xstrdup(path_and_query);
	char *mark = strchr(path, '?');
	if (mark) {
		*mark = '\0';
		call->query = mark + 1;
	}
	call->path = path;
	api_handle(desk->api, call);
	return call->status;
}

int desk_ask(struct desk *desk, const char *method, const char *path_and_query, const char *body)
{
	return desk_ask_as(desk, CONF_ROLE_ADMIN, NULL, method, path_and_query, body);
}

json_t *desk_json(struct desk *desk)
{
	struct str text = buf_str(&desk->call.text);
	json_t *json = json_loadb(text.data, text.length, 0, NULL);

	assert_non_null(json);
	assert_string_equal(desk->call.type, "application/json");
	return json;
}

void desk_leave(struct desk *desk)
{
	struct call *call = &desk->call;

	assert_non_null(call->on_gone);
	call->on_gone(call->on_gone_ctx, call);
	call->on_gone = NULL;
}

void desk_ready(struct desk *desk, uint32_t model)
{
	struct event spawned = { .type = EVENT_INSTANCE_SPAWNED,
		                 .instance = { .instance = desk->spawned[model], .pid = 100 + (int)model } };
	struct event ready = { .type = EVENT_INSTANCE_READY,
		               .instance = { .instance = desk->spawned[model], .slots = 2 } };

	step(desk, &spawned);
	desk_wait(desk, 2000000);
	step(desk, &ready);
}

static void sample(struct desk *desk, int64_t bytes)
{
	struct event event = { .type = EVENT_SAMPLE };

	event.sample.unreclaimable_bytes[0] = bytes;
	desk->sample.unreclaimable_bytes = bytes;
	desk->now.sampled_at_us = desk->now_us;
	step(desk, &event);
}

void desk_measure(struct desk *desk, uint32_t model, int64_t bytes)
{
	struct event event = { .type = EVENT_MEASURED,
		               .measured = { .instance = desk->spawned[model], .complete = 1 } };

	event.measured.own.bytes[0][USE_HOST] = bytes;
	step(desk, &event);
	sample(desk, GIB + bytes);
}

void desk_exit(struct desk *desk, uint32_t model)
{
	struct event exited = { .type = EVENT_INSTANCE_EXITED, .instance = { .instance = desk->spawned[model] } };
	struct event measured = { .type = EVENT_MEASURED,
		                  .measured = { .instance = desk->spawned[model], .complete = 1, .gone = 1 } };

	step(desk, &exited);
	step(desk, &measured);
	sample(desk, GIB);
}

void desk_wait(struct desk *desk, int64_t us)
{
	struct event tick = { .type = EVENT_TICK };

	desk->now_us += us;
	step(desk, &tick);
}
