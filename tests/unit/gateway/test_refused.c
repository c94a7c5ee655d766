#include "world.h"

#include <dirent.h>

#include "base/alloc.h"
#include "engine/routes.h"

/* Says it on a new connection and returns the caller when a whole error (or the end) came. */
static struct caller *ask(struct world *world, const char *request)
{
	struct caller *caller = call_up(world);

	say(caller, request);
	TURN_UNTIL(world, has_heard(caller, "\r\n\r\n") && (has_heard(caller, "}}") || caller->left));
	return caller;
}

static bool is_status(struct caller *caller, int status)
{
	char line[16];
	snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
	return str_starts(str_from(heard(caller)), line);
}

#define POST_HEAD(path) "POST " path " HTTP/1.1\r\nHost: localhost\r\n"
#define BODY(length, text) "Content-Length: " length "\r\n\r\n" text

/* A request, and what must be answered, before any ticket is taken. */
static const struct {
	const char *what, *request;
	int status;
	const char *texts[3]; /* in the answer */
} refusals[] = {
	{ "bad JSON", POST_HEAD("/v1/chat/completions") BODY("13", "{\"model\":\n x}"), 400,
	  { "invalid_json", "line 2", "byte" } },
	{ "cut JSON", POST_HEAD("/v1/chat/completions") BODY("9", "{\"model\":"), 400,
	  { "invalid_json" } },
	{ "no model", POST_HEAD("/v1/chat/completions") BODY("15", "{\"messages\":[]}"), 400,
	  { "model_missing", "chat, small, other" } },
	{ "empty model", POST_HEAD("/v1/chat/completions") BODY("12", "{\"model\":\"\"}"), 400,
	  { "model_missing" } },
	{ "a model that is no name", POST_HEAD("/v1/chat/completions") BODY("11", "{\"model\":5}"), 400,
	  { "invalid_field", "\\\"model\\\" must be a string", "\"param\":\"model\"" } },
	{ "two models", POST_HEAD("/v1/chat/completions") BODY("25", "{\"model\":\"a\",\"model\":\"b\"}"), 400,
	  { "invalid_field", "twice", "\"param\":\"model\"" } },
	{ "no object", POST_HEAD("/v1/chat/completions") BODY("3", "[1]"), 400,
	  { "invalid_json", "not a JSON object" } },
	{ "GET of a POST's path", "GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405,
	  { "method_not_allowed", "Allow: POST, OPTIONS\r\n", "/v1/chat/completions takes POST, not GET" } },
	{ "another method, and a model", "PUT /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	  BODY("16", "{\"model\":\"chat\"}"), 405, { "method_not_allowed", "Allow: POST, OPTIONS\r\n" } },
	{ "another method, and no model", "PUT /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	  BODY("2", "{}"), 405, { "method_not_allowed", "takes POST, not PUT" } },
	{ "a question about a path that nobody has", "OPTIONS /v1/modles HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
	  { "did you mean /v1/models?" } },
	{ "a question about a model that there is not", "OPTIONS /upstream/nobody/props HTTP/1.1\r\n"
	  "Host: localhost\r\n\r\n", 404, { "model_not_found" } },
	{ "a misspelt path", "GET /v1/modles HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
	  { "not_found", "did you mean /v1/models?" } },
	{ "another manager's path", "GET /running HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
	  { "not_found", "did you mean /api/v1/models?loaded=1?" } },
	{ "another manager's logs", "GET /logs HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
	  { "not_found", "did you mean /api/v1/models/MODEL/logs?" } },
	{ "a misspelt path, and a model", POST_HEAD("/v1/chat/completion") BODY("16", "{\"model\":\"chat\"}"), 404,
	  { "not_found", "did you mean /v1/chat/completions?" } },
	{ "a prefix too many", POST_HEAD("/openai/v1/embeddings") BODY("16", "{\"model\":\"chat\"}"), 404,
	  { "did you mean /v1/embeddings?" } },
	{ "a path like no other", "GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
	  { "not_found", "GET / tells what there is" } },
	{ "what no engine has", POST_HEAD("/upstream/chat/zzzz") BODY("2", "{}"), 404,
	  { "not_found", "`routes`" } },
	{ "the path of another kind", POST_HEAD("/v1/images/generations") BODY("16", "{\"model\":\"chat\"}"), 400,
	  { "wrong_endpoint", "llama-server, which takes POST /v1/chat/completions", "answer it: small" } },
	{ "a path that nobody here has", POST_HEAD("/v1/audio/speech") BODY("16", "{\"model\":\"chat\"}"),
	  400, { "wrong_endpoint", "no model here is known to answer it" } },
	{ "words of an encoder", POST_HEAD("/v1/chat/completions") BODY("17", "{\"model\":\"other\"}"), 400,
	  { "wrong_endpoint", "it makes embeddings, and takes POST /v1/embeddings", "answer it: chat\"" } },
	{ "vectors of one that was not started for it", POST_HEAD("/v1/embeddings") BODY("16", "{\"model\":\"chat\"}"), 400,
	  { "wrong_endpoint", "without --embeddings in its `args`", "answer it: other\"" } },
	{ "speech for one without a projector", POST_HEAD("/v1/audio/transcriptions")
	  "Content-Type: multipart/form-data; boundary=x\r\n"
	  BODY("66", "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--x--\r\n"), 400,
	  { "wrong_endpoint", "no `mmproj` to hear with", "answer it: other\"" } },
	{ "no body", POST_HEAD("/v1/chat/completions") "\r\n", 400, { "model_missing" } },
	{ "one byte short", POST_HEAD("/v1/chat/completions") BODY("15", "{\"model\":\"chta\"}"), 400,
	  { "invalid_json" } },
	{ "unknown model", POST_HEAD("/v1/chat/completions") BODY("16", "{\"model\":\"chta\"}"), 404,
	  { "model_not_found", "chat", "x-should-retry: false" } },
	{ "a set's name", POST_HEAD("/v1/chat/completions") BODY("17", "{\"model\":\"voice\"}"), 404,
	  { "model_not_found", "did you mean: chat, other (of the set 'voice')" } },
	{ "Anthropic's form", POST_HEAD("/v1/messages") BODY("16", "{\"model\":\"nope\"}"), 404,
	  { "{\"type\":\"error\",\"error\":", "not_found_error" } },
	{ "compressed", POST_HEAD("/v1/chat/completions") "Content-Encoding: gzip\r\n" BODY("2", "{}"), 415,
	  { "unsupported_media_type", "Content-Encoding", "send it as it is" } },
	{ "not compressed", POST_HEAD("/v1/chat/completions") "Content-Encoding: identity\r\n" BODY("2", "{}"), 400,
	  { "model_missing" } },
	{ "too large by its head", POST_HEAD("/v1/completions") "Content-Length: 99999999\r\n\r\n",
	  413, { "body_too_large", "8.00 MiB" } },
	{ "bad deadline", POST_HEAD("/v1/completions") "X-Cotenant-Deadline: 5\r\n" BODY("2", "{}"),
	  400, { "bad_deadline" } },
	{ "bad priority", POST_HEAD("/v1/completions") "X-Cotenant-Priority: high\r\n" BODY("2", "{}"),
	  400, { "bad_priority", "interactive, normal, background or batch" } },
	{ "weight of none", POST_HEAD("/v1/completions") "X-Cotenant-Weight: 0.000\r\n" BODY("2", "{}"),
	  400, { "bad_weight", "from 0.001 to 1000" } },
	{ "weight of much", POST_HEAD("/v1/completions") "X-Cotenant-Weight: 1000.001\r\n" BODY("2", "{}"),
	  400, { "bad_weight" } },
	{ "weight of nothing", POST_HEAD("/v1/completions") "X-Cotenant-Weight: -1\r\n" BODY("2", "{}"),
	  400, { "bad_weight" } },
	{ "an engine's own change", POST_HEAD("/slots/0?action=erase&model=chat") "\r\n", 403,
	  { "admin_needed" } },
	{ "path tricks", "GET /v1/../x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, { "bad_path" } },
	{ "another host", "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403,
	  { "host_not_allowed" } },
	{ "a foreign page", POST_HEAD("/v1/chat/completions") "Origin: http://evil.example\r\n"
	  "Content-Type: text/plain\r\n" BODY("30", CHAT("chat")), 403, { "origin_not_allowed" } },
	{ "a foreign page that comes by GET",
	  "GET /work?model=chat HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
	  403, { "origin_not_allowed" } },
	{ "what came through here before", POST_HEAD("/v1/chat/completions") "Via: 1.1 proxy, 1.1 cotenant-0badcafe\r\n"
	  BODY("30", CHAT("chat")), 508, { "\"loop\"", "`url`" } },
	{ "bare LF", "GET /healthz HTTP/1.1\nHost: localhost\n\n", 400, { "bad_request" } },
	{ "two lengths", POST_HEAD("/v1/completions") "Content-Length: 2\r\nTransfer-Encoding: "
	  "chunked\r\n\r\n{}", 400, { "bad_request" } },
	{ "bad chunk", POST_HEAD("/v1/completions") "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
	  { "invalid_body" } },
};

static void test_what_makes_no_sense_is_refused_before_it_costs_anything(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.models[0].routes_work = (struct conf_strings){ (char *[]){ OWN("GET /work") }, 1 };
	world.models[1].engine = CONF_ENGINE_SD_SERVER;
	world.lacks[0] = MAKES_VECTORS | MAKES_SPEECH_TEXT;
	world.lacks[2] = MAKES_TEXT;
	world.conf.sets = &(struct conf_set){ OWN("voice"), { (char *[]){ OWN("chat"), OWN("other") }, 2 }, 0 };
	world.conf.set_count = 1;
	world_open(&world);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct caller *caller = ask(&world, refusals[i].request);
		if (!is_status(caller, refusals[i].status))
			fail_msg("%s: %s", refusals[i].what, heard(caller));
		for (int j = 0; j < 3 && refusals[i].texts[j]; j++)
			if (!has_heard(caller, refusals[i].texts[j]))
				fail_msg("%s: no %s in: %s", refusals[i].what,
				         refusals[i].texts[j], heard(caller));
		hang_up(caller);
	}
	assert_int_equal(world.requests, 0);
	assert_int_equal(world.engine_requests, 0);
	assert_int_equal(gateway_exchanges(world.gateway), 0);
	assert_int_equal(gateway_counters(world.gateway)->bad_heads, 2);
	world_end(&world);
}

/* Where one model is all there is, a path that we do not know is its engine's to answer, if it runs. */
static void test_what_only_an_engine_can_tell_is_asked_of_the_only_one(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.conf.model_count = 1;
	world_open(&world);
	struct caller *caller = call_up(&world);
	say(caller, "GET /zzzz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	hang_up(caller);
	world.loaded[0] = false;
	caller = ask(&world, "GET /zzzz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_true(is_status(caller, 404));
	hang_up(caller);
	caller = ask(&world, "GET /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_true(is_status(caller, 405));
	hang_up(caller);
	assert_int_equal(world.engine_requests, 1);
	world_end(&world);
}

static void test_a_refused_request_leaves_its_connection_usable(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("nope"));
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(is_status(caller, 404));
	hang_up(caller);
	world_end(&world);
}

static void test_a_body_over_the_bound_is_refused_as_it_comes(void **state)
{
	struct world world;
	static char piece[65536];
	struct str filling = { piece, sizeof(piece) };

	(void)state;
	memset(piece, ' ', sizeof(piece));
	world_begin(&world);
	struct caller *caller = call_up(&world);
	say(caller, POST_HEAD("/v1/completions") "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 129 && !has_heard(caller, "}}"); i++) { /* 8 MiB and a bit */
		say(caller, "10000\r\n");
		say_bytes(caller, filling);
		say(caller, "\r\n");
		world_turn(&world);
	}
	TURN_UNTIL(&world, has_heard(caller, "}}") && caller->left);
	assert_true(is_status(caller, 413));
	assert_int_equal(world.requests, 0);
	hang_up(caller);
	world_end(&world);
}

static void test_an_expecting_client_is_told_to_go_on_only_where_it_may(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	say(caller, POST_HEAD("/v1/chat/completions") "Expect: 100-continue\r\n"
	            "Content-Length: 30\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "HTTP/1.1 100 Continue\r\n\r\n"));
	say(caller, CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	hang_up(caller);
	caller = ask(&world, POST_HEAD("/v1/chat/completions") "Expect: 100-continue\r\n"
	                     "Content-Length: 99999999\r\n\r\n");
	assert_true(is_status(caller, 413));
	assert_false(has_heard(caller, "100 Continue"));
	hang_up(caller);
	world_end(&world);
}

/* ---- bodies ---- */

static void post_big(struct caller *caller, size_t bytes)
{
	char *filling = xmalloc(bytes);
	char head[128];

	memset(filling, ' ', bytes);
	snprintf(head, sizeof(head), POST_HEAD("/v1/chat/completions") "Content-Length: %zu\r\n\r\n",
	         bytes + strlen(CHAT("chat")));
	say(caller, head);
	say(caller, CHAT("chat"));
	say_bytes(caller, (struct str){ filling, bytes });
	free(filling);
}

static bool is_empty_but_for_sockets(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	bool empty = true;

	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && !strstr(entry->d_name, ".sock"))
			empty = false;
	closedir(dir);
	return empty;
}

static void test_bodies_past_the_memory_go_to_a_file_and_past_that_are_refused(void **state)
{
	struct world world;
	enum { MIB = 1024 * 1024 };
	struct caller *callers[4];

	(void)state;
	world_init(&world);
	world.conf.body_memory_bytes = 3 * MIB;
	world.conf.body_spill_bytes = 5 * MIB;
	world_open(&world);
	world.hold = true;
	for (int i = 0; i < 3; i++) { /* one in memory, two in files */
		callers[i] = call_up(&world);
		post_big(callers[i], 2 * MIB);
		TURN_UNTIL(&world, world.waiting_count == (uint32_t)i + 1);
	}
	assert_true(is_empty_but_for_sockets(world.folder)); /* the files have no names */
	callers[3] = call_up(&world);
	post_big(callers[3], 2 * MIB);
	TURN_UNTIL(&world, has_heard(callers[3], "}}"));
	assert_true(is_status(callers[3], 503));
	assert_true(has_heard(callers[3], "bodies_full"));
	assert_true(has_heard(callers[3], "Retry-After: "));

	world.hold = false;
	for (int i = 0; i < 3; i++)
		TURN_UNTIL(&world, has_heard(callers[i], "{\"n\":"));
	struct str sent = buf_str(&world.last_request);
	assert_true(sent.length > 2 * MIB);
	assert_non_null(memmem(sent.data, sent.length, CHAT("chat"), strlen(CHAT("chat"))));

	/* All was given back: the same fits again. */
	for (int i = 0; i < 3; i++) {
		forget(callers[i]);
		post_big(callers[i], 2 * MIB);
		TURN_UNTIL(&world, has_heard(callers[i], "{\"n\":"));
	}
	for (int i = 0; i < 4; i++)
		hang_up(callers[i]);
	world_end(&world);
}

/* The engine goes while a piece of the body is on its way from the disk, and the body is sent to the next. */
static void test_a_body_in_a_file_goes_to_the_next_engine_whole(void **state)
{
	struct world world;

	(void)state;
	for (int i = 0; i < 5; i++) {
		world_init(&world);
		world.conf.body_memory_bytes = 1024;
		world.engine_away = true;
		world.engine_back_after = 1;
		world_open(&world);
		struct caller *caller = call_up(&world);
		post_big(caller, 1024 * 1024);
		TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
		assert_int_equal(world.returns, 1);
		struct str sent = buf_str(&world.last_request);
		assert_true(sent.length > 1024 * 1024);
		assert_non_null(memmem(sent.data, sent.length, CHAT("chat"), strlen(CHAT("chat"))));
		hang_up(caller);
		world_end(&world);
	}
}

static void test_leaving_while_a_file_is_written_harms_nobody(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.conf.body_memory_bytes = 1024;
	world_open(&world);
	for (int i = 0; i < 20; i++) {
		struct caller *caller = call_up(&world);
		post_big(caller, 1024 * 1024);
		for (int turn = 0; turn < i % 5; turn++)
			world_turn(&world);
		hang_up(caller);
	}
	TURN_UNTIL(&world, gateway_exchanges(world.gateway) == 0);
	world_end(&world);
}

/* ---- looks, changes and calls ---- */

static void test_a_look_never_loads(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.loaded[1] = false;
	struct caller *caller = ask(&world, "GET /props?model=small HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_true(is_status(caller, 409));
	assert_true(has_heard(caller, "\"code\":\"not_loaded\""));
	hang_up(caller);

	caller = call_up(&world);
	say(caller, "GET /props?model=chat HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(str_starts(buf_str(&world.last_request), "GET /props?model=chat HTTP/1.1\r\n"));
	assert_null(strstr(buf_cstr(&world.last_request), "Content-Length"));
	assert_int_equal(world.requests, 0); /* the arbiter is not asked, and history not written */
	assert_int_equal(world.end_count, 0);
	hang_up(caller);
	world_end(&world);
}

static void test_a_change_is_ours_even_for_an_admin(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up_unix(&world);
	say(caller, "POST /slots/0?action=erase&model=chat HTTP/1.1\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(is_status(caller, 400));
	assert_true(has_heard(caller, "cotenant unload chat"));
	assert_int_equal(world.engine_requests, 0);
	hang_up(caller);
	world_end(&world);
}

static void test_a_key_may_use_its_models_alone_and_caps_their_priority(void **state)
{
	struct world world;
	(void)state;
	world_init(&world);
	world.keys[0] = (struct conf_key){ .key = OWN("k"), .name = OWN("n"),
		                           .models = { (char *[]){ OWN("chat") }, 1 },
		                           .priority_max = PRIORITY_BACKGROUND,
		                           .weight_max_milli = 500 };
	world.conf.key_count = 1;
	world_open(&world);
	world.hold = true;
	struct caller *caller = ask(&world, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\n"
	                                    BODY("31", CHAT("small")));
	assert_true(is_status(caller, 403));
	assert_true(has_heard(caller, "model_not_allowed"));
	hang_up(caller);
	caller = ask(&world, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\n"
	                     BODY("30", CHAT("smal")));
	assert_true(is_status(caller, 404));
	assert_false(has_heard(caller, "did you mean"));
	hang_up(caller);

	caller = call_up(&world);
	say(caller, POST_HEAD("/v1/chat/completions") "Authorization: Bearer k\r\n"
	            BODY("30", CHAT("chat")));
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_int_equal(world.specs[0].priority, PRIORITY_BACKGROUND);
	assert_int_equal(world.specs[0].weight_milli, 500);
	assert_int_equal(world.specs[0].key, 1);
	hang_up(caller);

	/* What it asks for itself is bounded alike; less may be asked for. */
	caller = call_up(&world);
	say(caller, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\nX-Cotenant-Priority: interactive\r\n"
	            "X-Cotenant-Weight: 3\r\n" BODY("30", CHAT("chat")));
	TURN_UNTIL(&world, world.requests == 2);
	assert_int_equal(world.specs[world.waiting_count - 1].priority, PRIORITY_BACKGROUND);
	assert_int_equal(world.specs[world.waiting_count - 1].weight_milli, 500);
	hang_up(caller);
	caller = call_up(&world);
	say(caller, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\nX-Cotenant-Priority: batch\r\n"
	            "X-Cotenant-Weight: 0.001\r\n" BODY("30", CHAT("chat")));
	TURN_UNTIL(&world, world.requests == 3);
	assert_int_equal(world.specs[world.waiting_count - 1].priority, PRIORITY_BATCH);
	assert_int_equal(world.specs[world.waiting_count - 1].weight_milli, 1);
	hang_up(caller);

	caller = ask(&world, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_true(is_status(caller, 401));
	assert_true(has_heard(caller, "WWW-Authenticate: "));
	hang_up(caller);
	world_end(&world);
}

/* An engine that streams tokens, and tells how many at the end alone. */
static void stream_much(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 300; i++)
		engine_chunk(side, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
		                   "\"delta\":{\"content\":\" token\"}}]}\n\n");
	engine_chunk(side, "data: almost\n\n");
}

static void test_who_leaves_before_the_end_has_used_tokens_too(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.keys[0] = (struct conf_key){ .key = OWN("k"), .name = OWN("n"), .tokens_per_day = 50 };
	world.conf.key_count = 1;
	world.engine = stream_much;
	world_open(&world);
	struct caller *caller = call_up(&world);
	say(caller, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\n" BODY("44", CHAT_STREAM("chat")));
	TURN_UNTIL(&world, has_heard(caller, "almost"));
	hang_up(caller);
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	caller = ask(&world, POST_HEAD("/v1/chat/completions") "X-Api-Key: k\r\n" BODY("30", CHAT("chat")));
	assert_true(is_status(caller, 429));
	assert_true(has_heard(caller, "key_tokens"));
	hang_up(caller);
	world_end(&world);
}

static void test_counting_tokens_stands_back(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/tokenize", "{\"model\":\"chat\",\"content\":\"x\"}");
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_int_equal(world.specs[0].priority, PRIORITY_BACKGROUND);
	hang_up(caller);
	world_end(&world);
}

static void test_pages_are_answered_by_their_origin(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.conf.cors = (struct conf_strings){ (char *[]){ OWN("https://app.example") }, 1 };
	world_open(&world);
	struct caller *caller = call_up(&world);
	say(caller, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	            "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
	            "Access-Control-Request-Headers: authorization\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
	assert_true(is_status(caller, 204));
	assert_true(has_heard(caller, "Access-Control-Allow-Origin: https://app.example\r\n"));
	assert_true(has_heard(caller, "Access-Control-Allow-Headers: authorization\r\n"));
	forget(caller);
	say(caller, POST_HEAD("/v1/chat/completions") "Origin: https://app.example\r\n"
	            BODY("30", CHAT("chat")));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(has_heard(caller, "Access-Control-Allow-Origin: https://app.example\r\n"));
	assert_true(has_heard(caller, "Vary: Origin\r\n"));
	assert_null(strstr(buf_cstr(&world.last_request), "app.example"));
	hang_up(caller);

	caller = ask(&world, "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	                     "Origin: https://evil.example\r\n"
	                     "Access-Control-Request-Method: POST\r\n\r\n");
	assert_true(is_status(caller, 403));
	assert_false(has_heard(caller, "Access-Control-Allow"));
	hang_up(caller);
	world_end(&world);
}

/* What a path takes is told to whoever asks, without a model; who may read the answer is another question. */
static void test_options_tell_the_methods(void **state)
{
	static const char *const cases[][2] = {
		{ "/v1/chat/completions", "\r\nAllow: POST, OPTIONS\r\n" },
		{ "/upstream/chat/v1/chat/completions", "\r\nAllow: POST, OPTIONS\r\n" },
		{ "/slots", "\r\nAllow: GET, HEAD, OPTIONS\r\n" },
		{ "/props", "\r\nAllow: GET, POST, HEAD, OPTIONS\r\n" },
		{ "*", "\r\nAllow: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS\r\n" },
	};
	struct world world;

	(void)state;
	world_begin(&world);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct caller *caller = call_up(&world);
		char request[160];
		snprintf(request, sizeof(request), "OPTIONS %s HTTP/1.1\r\nHost: localhost\r\n"
		         "Origin: https://evil.example\r\n\r\n", cases[i][0]);
		say(caller, request);
		TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
		assert_true(is_status(caller, 204));
		assert_true(has_heard(caller, cases[i][1]));
		assert_false(has_heard(caller, "Access-Control"));
		hang_up(caller);
	}
	world_end(&world);
}

static void on_echo(struct world *world, struct call *call)
{
	char name[32] = "";
	struct buf body = BUF_INIT;

	(void)world;
	call_parameter(call, "name", name, sizeof(name));
	buf_printf(&body, "%.*s %.*s ?%.*s name=%s agent=%.*s body=%.*s id=%s",
	           STR_ARG(call_method(call)), STR_ARG(call_path(call)), STR_ARG(call_query(call)),
	           name, STR_ARG(call_header(call, "user-agent")), STR_ARG(call_body(call)),
	           call_id(call));
	call_answer_header(call, "Allow", "POST");
	call_reply(call, 200, "text/plain", buf_str(&body));
	buf_release(&body);
}

static void test_a_call_is_whole_when_it_is_heard(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.on_call = on_echo;
	struct caller *caller = call_up_unix(&world);
	say(caller, "POST /api/v1/plan?name=a%20b HTTP/1.1\r\nUser-Agent: me\r\n"
	            "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\"");
	for (int i = 0; i < 5; i++)
		world_turn(&world);
	assert_int_equal(world.calls, 0);
	say(caller, ":1}");
	TURN_UNTIL(&world, has_heard(caller, "id=0badcafe-1"));
	assert_true(has_heard(caller, "POST /api/v1/plan ?name=a%20b name=a b agent=me body={\"a\":1}"));
	assert_true(has_heard(caller, "Allow: POST\r\n"));
	hang_up(caller);
	world_end(&world);
}

static struct call *kept_call;
static int gone;

static void on_gone(void *ctx, struct call *call)
{
	(void)ctx;
	assert_ptr_equal(call, kept_call);
	gone++;
}

static void on_follow(struct world *world, struct call *call)
{
	kept_call = call;
	call_on_gone(call, on_gone, world);
	call_begin(call, 200, "text/event-stream");
	call_write(call, STR(": hello\n\n"));
}

static void test_a_call_may_stream_until_its_client_leaves(void **state)
{
	struct world world;

	(void)state;
	gone = 0;
	world_begin(&world);
	world.on_call = on_follow;
	struct caller *caller = call_up(&world);
	say(caller, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, ": hello\n\n"));
	call_write(kept_call, STR("data: 1\n\n"));
	TURN_UNTIL(&world, has_heard(caller, "data: 1\n\n"));
	assert_int_equal(call_pending(kept_call), 0);
	assert_int_equal(gateway_calls(world.gateway), 1);
	hang_up(caller);
	TURN_UNTIL(&world, gone == 1);
	assert_int_equal(gateway_calls(world.gateway), 0);

	caller = call_up(&world);
	say(caller, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, ": hello\n\n"));
	call_end(kept_call);
	TURN_UNTIL(&world, has_heard(caller, "0\r\n\r\n"));
	assert_int_equal(gone, 1);
	hang_up(caller);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_makes_no_sense_is_refused_before_it_costs_anything),
		cmocka_unit_test(test_what_only_an_engine_can_tell_is_asked_of_the_only_one),
		cmocka_unit_test(test_a_refused_request_leaves_its_connection_usable),
		cmocka_unit_test(test_a_body_over_the_bound_is_refused_as_it_comes),
		cmocka_unit_test(test_an_expecting_client_is_told_to_go_on_only_where_it_may),
		cmocka_unit_test(test_bodies_past_the_memory_go_to_a_file_and_past_that_are_refused),
		cmocka_unit_test(test_a_body_in_a_file_goes_to_the_next_engine_whole),
		cmocka_unit_test(test_leaving_while_a_file_is_written_harms_nobody),
		cmocka_unit_test(test_a_look_never_loads),
		cmocka_unit_test(test_a_change_is_ours_even_for_an_admin),
		cmocka_unit_test(test_a_key_may_use_its_models_alone_and_caps_their_priority),
		cmocka_unit_test(test_who_leaves_before_the_end_has_used_tokens_too),
		cmocka_unit_test(test_counting_tokens_stands_back),
		cmocka_unit_test(test_pages_are_answered_by_their_origin),
		cmocka_unit_test(test_options_tell_the_methods),
		cmocka_unit_test(test_a_call_is_whole_when_it_is_heard),
		cmocka_unit_test(test_a_call_may_stream_until_its_client_leaves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
