#include "world.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/alloc.h"

/* ---- the shell ---- */

static void on_request(void *ctx, struct id ticket, const struct request_spec *spec)
{
	struct world *world = ctx;

	assert_true(world->waiting_count < WAITING_MAX);
	world->waiting[world->waiting_count] = ticket;
	world->specs[world->waiting_count++] = *spec;
	world->requests++;
	world->last_need_bytes = spec->need.bytes[0][USE_HOST];
}

static void on_end(void *ctx, const struct exchange_end *end)
{
	struct world *world = ctx;

	assert_true(world->end_count < ENDS_MAX);
	world->ends[world->end_count] = *end;
	world->ends[world->end_count++].path = NULL; /* was borrowed */
	for (uint32_t i = 0; i < world->waiting_count; i++)
		if (id_equal(world->waiting[i], end->ticket))
			world->waiting[i] = world->waiting[--world->waiting_count];
}

static void on_return(void *ctx, struct id ticket, struct id instance)
{
	struct world *world = ctx;

	(void)ticket;
	assert_false(id_is_none(instance));
	world->returns++;
	if (world->engine_back_after == world->returns)
		world->engine_away = false;
}

static void on_refused(void *ctx, struct id ticket)
{
	(void)ctx;
	(void)ticket;
}

static bool endpoint(void *ctx, struct id instance, struct endpoint *out)
{
	const struct world *world = ctx;

	*out = (struct endpoint){ .key = "engine-key" };
	str_copy(out->path, sizeof(out->path),
	         str_from(world->engine_away ? "/nonexistent/engine.sock" : world->engine_path));
	return instance.generation != 666;
}

static bool loaded(void *ctx, uint32_t model, struct id *out)
{
	const struct world *world = ctx;

	*out = (struct id){ model, 1 };
	return world->loaded[model];
}

static void progress(void *ctx, struct id ticket, uint32_t model, char *out, uint32_t out_bytes)
{
	(void)ctx;
	(void)ticket;
	snprintf(out, out_bytes, "loading model %u, 40 %%", model);
}

static void explain(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes)
{
	(void)ctx;
	(void)model;
	snprintf(out, out_bytes, "%s", fail == FAIL_LOAD_FAILED ? "no such file" : "");
}

static int64_t load_us(void *ctx, struct id instance, int64_t since_us)
{
	(void)ctx;
	(void)instance;
	(void)since_us;
	return 7000;
}

static uint64_t decision(void *ctx, uint64_t request)
{
	(void)ctx;
	return request + 1000;
}

static void picture(void *ctx, uint32_t model, int64_t pixels, struct picture_need *out)
{
	const struct world *world = ctx;

	(void)model;
	*out = (struct picture_need){ .bytes = pixels * world->picture_pixel_bytes,
		                      .model_bytes = INT64_C(2) << 30,
		                      .room_bytes = world->picture_room_bytes };
}

static bool elastic(void *ctx, uint32_t model)
{
	(void)model;
	return ((struct world *)ctx)->elastic;
}

static bool may_exceed(void *ctx, uint32_t model, const struct prompt_size *prompt)
{
	(void)ctx;
	(void)model;
	(void)prompt;
	return true;
}

static bool counts_first(void *ctx, uint32_t model, const struct prompt_size *prompt)
{
	(void)model;
	(void)prompt;
	return ((struct world *)ctx)->counts_first;
}

static void need(void *ctx, uint32_t model, const struct prompt_size *prompt, struct request_spec *out)
{
	(void)model;
	(void)out;
	((struct world *)ctx)->last_prompt_tokens = prompt->tokens;
	((struct world *)ctx)->last_claim = *prompt;
}

static void allow(void *ctx, uint32_t model, const struct prompt_size *prompt, struct allowance *out)
{
	(void)model;
	out->most_tokens = ((struct world *)ctx)->most_tokens;
	out->prompt_tokens = prompt->tokens >= 0 ? prompt->tokens : prompt->bytes;
}

static bool outgrown(void *ctx, const struct outgrown *request)
{
	(void)ctx;
	(void)request;
	return false;
}

static void on_call(void *ctx, struct call *call)
{
	struct world *world = ctx;

	world->calls++;
	if (world->on_call)
		world->on_call(world, call);
	else
		call_reply(call, 200, "text/plain", STR("ours\n"));
}

static uint64_t next_sequence(void *ctx)
{
	return ++((struct world *)ctx)->sequence;
}

void world_verdict(struct world *world, const struct action *action)
{
	ticket_verdict(world->tickets, action);
}

void world_dispatch(struct world *world, struct id ticket)
{
	struct action action = { .type = ACTION_DISPATCH, .request = ticket, .instance = { 0, 1 } };

	for (uint32_t i = 0; i < world->waiting_count; i++) {
		if (!id_equal(world->waiting[i], ticket))
			continue;
		action.instance.index = world->specs[i].model;
		world->waiting[i] = world->waiting[world->waiting_count - 1];
		world->specs[i] = world->specs[--world->waiting_count];
		break;
	}
	world_verdict(world, &action);
}

static void on_pulse(uv_timer_t *timer)
{
	(void)timer;
}

void world_turn(struct world *world)
{
	uv_timer_t pulse;

	uv_timer_init(&world->loop, &pulse);
	uv_timer_start(&pulse, on_pulse, 5, 0);
	uv_run(&world->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&pulse, NULL);
	uv_run(&world->loop, UV_RUN_NOWAIT);
	while (!world->hold && world->waiting_count)
		world_dispatch(world, world->waiting[0]);
}

/* ---- the engine ---- */

static size_t request_length(struct str in)
{
	const char *end = memmem(in.data, in.length, "\r\n\r\n", 4);
	const char *length = memmem(in.data, in.length, "Content-Length: ", 16);

	if (!end)
		return 0;
	size_t head = (size_t)(end - in.data) + 4;
	size_t body = length && length < end ? strtoul(length + 16, NULL, 10) : 0;
	return in.length >= head + body ? head + body : 0;
}

static void engine_read(void *ctx, struct str bytes)
{
	struct engine_side *side = ctx;
	struct world *world = side->world;
	size_t length;

	buf_append_str(&side->in, bytes);
	while ((length = request_length(buf_str(&side->in)))) {
		struct str request = { buf_str(&side->in).data, length };
		world->engine_requests++;
		buf_release(&world->last_request);
		buf_append_str(&world->last_request, request);
		world->engine(side, request);
		buf_consume(&side->in, length);
	}
}

static void engine_left(void *ctx)
{
	((struct engine_side *)ctx)->left = true;
}

static void engine_broken(void *ctx, int error)
{
	(void)error;
	((struct engine_side *)ctx)->left = true;
}

static const struct stream_events engine_events = {
	.on_read = engine_read,
	.on_eof = engine_left,
	.on_broken = engine_broken,
};

static void engine_accept(void *ctx, struct stream *stream, const struct peer *peer)
{
	struct world *world = ctx;
	struct engine_side *side = xcalloc(1, sizeof(*side));

	(void)peer;
	side->world = world;
	side->stream = stream;
	assert_true(world->engine_count < ENGINES_MAX);
	world->engines[world->engine_count++] = side;
	stream_attend(stream, &engine_events, side);
}

void engine_say(struct engine_side *side, const char *text)
{
	struct str part = str_from(text);
	stream_write(side->stream, &part, 1);
}

void engine_answer(struct engine_side *side, const char *body)
{
	struct buf out = BUF_INIT;

	buf_printf(&out,
	           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: fake\r\n"
	           "Access-Control-Allow-Origin: *\r\nContent-Length: %zu\r\n\r\n%s",
	           strlen(body), body);
	engine_say(side, buf_cstr(&out));
	buf_release(&out);
}

void engine_chunk(struct engine_side *side, const char *text)
{
	struct buf out = BUF_INIT;

	buf_printf(&out, "%zx\r\n%s\r\n", strlen(text), text);
	engine_say(side, buf_cstr(&out));
	buf_release(&out);
}

void engine_cut(struct engine_side *side)
{
	stream_close(side->stream);
	side->stream = NULL;
}

void engine_counts(struct engine_side *side, struct str request)
{
	char body[32];

	(void)request;
	snprintf(body, sizeof(body), "{\"n\":%u}", side->world->engine_requests);
	engine_answer(side, body);
}

void engine_silent(struct engine_side *side, struct str request)
{
	(void)side;
	(void)request;
}

void engine_streams(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	                 "Transfer-Encoding: chunked\r\n\r\n");
}

/* ---- callers ---- */

static void caller_read(void *ctx, struct str bytes)
{
	buf_append_str(&((struct caller *)ctx)->got, bytes);
}

static void caller_left(void *ctx)
{
	((struct caller *)ctx)->left = true;
}

static void caller_broken(void *ctx, int error)
{
	((struct caller *)ctx)->error = error;
}

static const struct stream_events caller_events = {
	.on_read = caller_read,
	.on_eof = caller_left,
	.on_broken = caller_broken,
};

static struct caller *caller_new(struct stream *stream)
{
	struct caller *caller = xcalloc(1, sizeof(*caller));

	caller->stream = stream;
	stream_attend(stream, &caller_events, caller);
	return caller;
}

struct caller *call_up(struct world *world)
{
	struct sockaddr_in address;

	uv_ip4_addr("127.0.0.1", gateway_port(world->gateway), &address);
	return caller_new(stream_dial_tcp(world->reactor, (const struct sockaddr *)&address));
}

struct caller *call_up_unix(struct world *world)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/control.sock", world->folder);
	return caller_new(stream_dial_unix(world->reactor, path));
}

void say_bytes(struct caller *caller, struct str bytes)
{
	stream_write(caller->stream, &bytes, 1);
}

void say(struct caller *caller, const char *text)
{
	say_bytes(caller, str_from(text));
}

void hang_up(struct caller *caller)
{
	stream_close(caller->stream);
	buf_release(&caller->got);
	free(caller);
}

const char *heard(struct caller *caller)
{
	return buf_cstr(&caller->got);
}

bool has_heard(struct caller *caller, const char *text)
{
	return strstr(heard(caller), text) != NULL;
}

void forget(struct caller *caller)
{
	buf_release(&caller->got);
}

void post(struct caller *caller, const char *path, const char *body)
{
	struct buf out = BUF_INIT;

	buf_printf(&out,
	           "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	           "Authorization: Bearer of-the-client\r\nContent-Length: %zu\r\n\r\n%s",
	           path, strlen(body), body);
	say(caller, buf_cstr(&out));
	buf_release(&out);
}

/* ---- the world ---- */

static uint32_t lacks(void *ctx, uint32_t model)
{
	const struct world *world = ctx;
	return world->lacks[model];
}

static void set_models(struct world *world)
{
	static char names[3][8] = { "chat", "small", "other" };

	for (int i = 0; i < 3; i++) {
		world->models[i] = (struct conf_model){
			.name = names[i],
			.engine = CONF_ENGINE_LLAMA_SERVER,
			.priority = PRIORITY_NORMAL,
			.weight_milli = 1000,
			.early_headers_after_us = CONF_NEVER,
			.stall_timeout_us = CONF_NEVER,
		};
		world->loaded[i] = true;
	}
}

void world_init(struct world *world)
{
	signal(SIGPIPE, SIG_IGN);
	*world = (struct world){ 0 };
	uv_loop_init(&world->loop);
	world->reactor = reactor_new(&world->loop);
	world->tickets = tickets_new(1500);
	world->engine = engine_counts;
	snprintf(world->folder, sizeof(world->folder), "/tmp/cotenant-world-%d", (int)getpid());
	mkdir(world->folder, 0700);
	set_models(world);
	world->listen = (struct conf_listen){ .host = xstrdup("127.0.0.1"), .loopback = true };
	world->conf = (struct conf){
		.listen = &world->listen,
		.listens = 1,
		.body_each_bytes = 8 << 20,
		.body_memory_bytes = 16 << 20,
		.body_spill_bytes = 64 << 20,
		.state_dir = world->folder,
		.models = world->models,
		.model_count = 3,
		.keys = world->keys,
	};
}

void world_open(struct world *world)
{
	const struct gateway_host host = {
		.ctx = world,
		.on_request = on_request,
		.on_end = on_end,
		.on_return = on_return,
		.endpoint = endpoint,
		.loaded = loaded,
		.progress = progress,
		.explain = explain,
		.load_us = load_us,
		.decision = decision,
		.lacks = lacks,
		.picture = picture,
		.elastic = elastic,
		.may_exceed = may_exceed,
		.on_refused = on_refused,
		.allow = allow,
		.counts_first = counts_first,
		.need = need,
		.outgrown = outgrown,
		.on_call = on_call,
		.sequence = next_sequence,
	};
	struct listener_events events = { world, engine_accept };
	char control[96];
	struct err err = { 0 };

	snprintf(control, sizeof(control), "%s/control.sock", world->folder);
	struct gateway_options options = {
		.loop = &world->loop,
		.conf = &world->conf,
		.tickets = world->tickets,
		.boot_id = "0badcafe",
		.socket_path = control,
	};
	world->gateway = gateway_new(&options, &host, &err);
	if (!world->gateway)
		fail_msg("gateway: %s", err.text);
	snprintf(world->engine_path, sizeof(world->engine_path), "%s/engine.sock", world->folder);
	world->engine_listener = listener_unix(world->reactor, world->engine_path, 0600,
	                                       (gid_t)-1, &events, &err);
	assert_non_null(world->engine_listener);
}

void world_begin(struct world *world)
{
	world_init(world);
	world_open(world);
}

void world_end(struct world *world)
{
	static const char *const left[] = { "control.sock.lock", "engine.sock.lock" };

	gateway_free(world->gateway);
	listener_close(world->engine_listener);
	for (uint32_t i = 0; i < world->engine_count; i++) {
		if (world->engines[i]->stream)
			stream_close(world->engines[i]->stream);
		buf_release(&world->engines[i]->in);
		free(world->engines[i]);
	}
	uv_run(&world->loop, UV_RUN_DEFAULT);
	reactor_free(world->reactor);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	assert_int_equal(tickets_open(world->tickets), 0);
	tickets_free(world->tickets);
	buf_release(&world->last_request);
	free(world->listen.host);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		char path[160];
		snprintf(path, sizeof(path), "%s/%s", world->folder, left[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(world->folder), 0); /* nothing is left behind */
}
