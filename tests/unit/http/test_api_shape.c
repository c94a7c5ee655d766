#include "../cmocka_all.h"

#include <string.h>

#include "http/api_shape.h"
#include "http/path_near.h"

static void a_path_says_its_api_and_where_the_model_is(void **state)
{
	static const struct {
		enum method method;
		const char *path;
		enum api api;
		enum model_place place;
		enum stream_form stream;
	} cases[] = {
		{ METHOD_POST, "/v1/chat/completions", API_OPENAI, MODEL_IN_JSON, STREAM_SSE },
		{ METHOD_POST, "/v1/embeddings", API_OPENAI, MODEL_IN_JSON, STREAM_NONE },
		{ METHOD_POST, "/v1/audio/transcriptions", API_OPENAI, MODEL_IN_FORM, STREAM_SSE },
		{ METHOD_POST, "/v1/audio/speech", API_OPENAI, MODEL_IN_JSON, STREAM_SSE },
		{ METHOD_GET, "/v1/models", API_OPENAI, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_GET, "/v1/models/chat", API_OPENAI, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_POST, "/v1/messages", API_ANTHROPIC, MODEL_IN_JSON, STREAM_ANTHROPIC },
		{ METHOD_POST, "/v1/messages/count_tokens", API_ANTHROPIC, MODEL_IN_JSON,
		  STREAM_NONE },
		{ METHOD_POST, "/api/chat", API_OLLAMA, MODEL_IN_JSON, STREAM_NDJSON_CHAT },
		{ METHOD_POST, "/api/generate", API_OLLAMA, MODEL_IN_JSON, STREAM_NDJSON_GENERATE },
		{ METHOD_DELETE, "/api/delete", API_OLLAMA, MODEL_IN_JSON, STREAM_NONE },
		{ METHOD_GET, "/api/tags", API_OLLAMA, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_GET, "/api/v1/models", API_OWN, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_GET, "/healthz", API_OWN, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_POST, "/completion", API_LLAMA, MODEL_IN_JSON, STREAM_SSE },
		{ METHOD_GET, "/slots", API_LLAMA, MODEL_IN_QUERY, STREAM_NONE },
		{ METHOD_POST, "/slots/3", API_LLAMA, MODEL_IN_QUERY, STREAM_NONE },
		{ METHOD_POST, "/v1/rerank", API_RERANK, MODEL_IN_JSON, STREAM_NONE },
		{ METHOD_POST, "/inference", API_WHISPER, MODEL_IN_FORM, STREAM_NONE },
		{ METHOD_POST, "/sdapi/v1/txt2img", API_SD, MODEL_IN_JSON, STREAM_NONE },
		{ METHOD_GET, "/upstream/chat/v1/x", API_UPSTREAM, MODEL_IN_PATH, STREAM_NONE },
		{ METHOD_GET, "/upstream/", API_OTHER, MODEL_IN_QUERY, STREAM_NONE },
		{ METHOD_GET, "/v1/chat/completions", API_OPENAI, MODEL_IN_QUERY, STREAM_NONE },
		{ METHOD_GET, "/v1/chat/completionsx", API_OTHER, MODEL_IN_QUERY, STREAM_NONE },
		{ METHOD_GET, "/", API_OWN, MODEL_NOWHERE, STREAM_NONE },
		{ METHOD_POST, "/", API_OTHER, MODEL_IN_JSON, STREAM_NONE },
		{ METHOD_POST, "/tts", API_OTHER, MODEL_IN_JSON, STREAM_NONE },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct api_shape *shape =
		        api_shape_of(cases[i].method, str_from(cases[i].path));
		if (shape->api != cases[i].api || shape->place != cases[i].place ||
		    shape->stream != cases[i].stream)
			fail_msg("%s %s: api %d, place %d, stream %d", method_text(cases[i].method),
			         cases[i].path, shape->api, shape->place, shape->stream);
	}
	/* One endpoint that takes a body says so; under a pattern an engine may have others. */
	assert_string_equal(api_shape_of(METHOD_GET, STR("/v1/messages"))->method, "POST");
	assert_null(api_shape_of(METHOD_GET, STR("/v1/audio/voices"))->method);
	assert_null(api_shape_of(METHOD_POST, STR("/v1/messages"))->method);
	assert_null(api_shape_of(METHOD_GET, STR("/tts"))->method);
	assert_true(api_shape_of(METHOD_POST, STR("/api/chat"))->streams_unless_told);
	assert_false(api_shape_of(METHOD_POST, STR("/v1/completions"))->streams_unless_told);
}

static void a_path_that_leads_nowhere_is_like_another(void **state)
{
	static const struct {
		const char *path, *meant;
	} cases[] = {
		{ "/v1/chat/completion", "/v1/chat/completions" }, { "/v1/chat", "/v1/chat/completions" },
		{ "/v1/embedding", "/v1/embeddings" },             { "/api/v1/messages", "/v1/messages" },
		{ "/v1/Messages", "/v1/messages" },                { "/healtz", "/healthz" },
		{ "/v1/completions/", "/v1/completions" },         { "/v2", NULL },
		{ "/", NULL },                                     { "", NULL },
		{ "/favicon.ico", NULL },                          { "/wp-login.php", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *meant = path_near(str_from(cases[i].path), NULL);
		if (!meant != !cases[i].meant || (meant && strcmp(meant, cases[i].meant) != 0))
			fail_msg("%s: %s", cases[i].path, meant ? meant : "none");
	}
	assert_string_equal(path_nearer(STR("/api/v1/memroy"), "/api/v1/models", "/api/v1/memory"), "/api/v1/memory");
	assert_string_equal(path_near(STR("/api/v1/memroy"), "/api/v1/memory"), "/api/v1/memory");
}

static void expect_body(enum api api, const struct api_error *error, const char *expected)
{
	struct buf out = BUF_INIT;

	api_error_body(&out, api, error);
	assert_string_equal(buf_cstr(&out), expected);
	buf_release(&out);
}

static void errors_have_the_shape_of_their_api(void **state)
{
	struct api_error error = { .status = 404, .code = "model_not_found", .message = STR("no \"x\"\n"), .param = "model" };
	(void)state;

	expect_body(
	        API_OPENAI, &error,
	        "{\"error\":{\"message\":\"no \\\"x\\\"\\n\",\"type\":\"invalid_request_error\","
	        "\"code\":\"model_not_found\",\"param\":\"model\"}}");
	expect_body(API_ANTHROPIC, &error,
	            "{\"type\":\"error\",\"error\":{\"message\":\"no "
	            "\\\"x\\\"\\n\",\"type\":\"not_found_error\","
	            "\"code\":\"model_not_found\"}}");
	expect_body(API_OLLAMA, &error, "{\"error\":\"no \\\"x\\\"\\n\"}");
	error = (struct api_error){ .status = 503, .message = STR("full") };
	expect_body(API_LLAMA, &error,
	            "{\"error\":{\"message\":\"full\",\"type\":\"server_error\",\"code\":null,"
	            "\"param\":null}}");
	/* A prompt that is too long is the engine's error wherever it came from. */
	error = (struct api_error){ .status = 400, .message = STR("too long"), .prompt_tokens = 1507, .context_tokens = 512 };
	const char *own = "\"error\":{\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\","
	                  "\"n_prompt_tokens\":1507,\"n_ctx\":512}}";
	char expected[256];
	snprintf(expected, sizeof(expected), "{%s", own);
	expect_body(API_OPENAI, &error, expected);
	expect_body(API_LLAMA, &error, expected);
	snprintf(expected, sizeof(expected), "{\"type\":\"error\",%s", own);
	expect_body(API_ANTHROPIC, &error, expected);
	expect_body(API_OLLAMA, &error, "{\"error\":\"too long\"}");
}

static void expect_event(enum api api, enum stream_form form, bool between, const char *expected)
{
	struct api_error error = { .status = 502, .code = "engine_died", .message = STR("gone") };
	struct buf out = BUF_INIT;

	api_error_event(&out, api, form, between, &error);
	assert_string_equal(buf_cstr(&out), expected);
	buf_release(&out);
}

static void an_error_in_a_stream_is_one_event(void **state)
{
	(void)state;

	expect_event(API_OPENAI, STREAM_SSE, true,
	             "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\","
	             "\"code\":\"engine_died\",\"param\":null}}\n\n");
	expect_event(API_ANTHROPIC, STREAM_ANTHROPIC, false,
	             "\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"gone\","
	             "\"type\":\"api_error\",\"code\":\"engine_died\"}}\n\n");
	expect_event(API_OLLAMA, STREAM_NDJSON_CHAT, false, "\n{\"error\":\"gone\"}\n");
	expect_event(API_OPENAI, STREAM_NONE, true, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_says_its_api_and_where_the_model_is),
		cmocka_unit_test(a_path_that_leads_nowhere_is_like_another),
		cmocka_unit_test(errors_have_the_shape_of_their_api),
		cmocka_unit_test(an_error_in_a_stream_is_one_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
