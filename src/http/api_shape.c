#include "http/api_shape.h"

#include "http/json_text.h"
#include "http/url.h"

/*
 * A pattern is compared segment by segment: "*" is any one segment, "**" at the
 * end any number of them, none included. The first that matches counts.
 */
static const struct {
	const char *pattern;
	struct api_shape shape;
} shapes[] = {
	{ "/api/v1/**", { .api = API_OWN } },
	{ "/healthz", { .api = API_OWN } },
	{ "/metrics", { .api = API_OWN } },
	{ "/ui/**", { .api = API_OWN } },
	{ "/upstream/*/**", { .api = API_UPSTREAM, .place = MODEL_IN_PATH, .segment = 1 } },

	{ "/v1/messages",
	  { .api = API_ANTHROPIC, .place = MODEL_IN_JSON, .stream = STREAM_ANTHROPIC } },
	{ "/v1/messages/count_tokens", { .api = API_ANTHROPIC, .place = MODEL_IN_JSON } },

	{ "/v1/chat/completions",
	  { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/v1/completions", { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/v1/responses", { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/v1/embeddings", { .api = API_OPENAI, .place = MODEL_IN_JSON } },
	{ "/v1/moderations", { .api = API_OPENAI, .place = MODEL_IN_JSON } },
	{ "/v1/audio/speech", { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/v1/audio/*", { .api = API_OPENAI, .place = MODEL_IN_FORM, .stream = STREAM_SSE } },
	{ "/v1/images/generations",
	  { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/v1/images/*", { .api = API_OPENAI, .place = MODEL_IN_FORM, .stream = STREAM_SSE } },
	{ "/v1/models", { .api = API_OPENAI } },
	{ "/v1/models/**", { .api = API_OPENAI } },
	{ "/models", { .api = API_OPENAI } },
	{ "/models/load", { .api = API_OPENAI } },
	{ "/models/unload", { .api = API_OPENAI } },
	{ "/unload", { .api = API_OPENAI } },
	{ "/api/models/unload/**", { .api = API_OPENAI } },
	{ "/chat/completions",
	  { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/completions", { .api = API_OPENAI, .place = MODEL_IN_JSON, .stream = STREAM_SSE } },
	{ "/embeddings", { .api = API_OPENAI, .place = MODEL_IN_JSON } },

	{ "/v1/rerank", { .api = API_RERANK, .place = MODEL_IN_JSON } },
	{ "/v1/reranking", { .api = API_RERANK, .place = MODEL_IN_JSON } },
	{ "/v2/rerank", { .api = API_RERANK, .place = MODEL_IN_JSON } },
	{ "/rerank", { .api = API_RERANK, .place = MODEL_IN_JSON } },
	{ "/reranking", { .api = API_RERANK, .place = MODEL_IN_JSON } },

	{ "/api/chat",
	  { .api = API_OLLAMA,
	    .place = MODEL_IN_JSON,
	    .stream = STREAM_NDJSON_CHAT,
	    .streams_unless_told = true } },
	{ "/api/generate",
	  { .api = API_OLLAMA,
	    .place = MODEL_IN_JSON,
	    .stream = STREAM_NDJSON_GENERATE,
	    .streams_unless_told = true } },
	{ "/api/embed", { .api = API_OLLAMA, .place = MODEL_IN_JSON } },
	{ "/api/embeddings", { .api = API_OLLAMA, .place = MODEL_IN_JSON } },
	{ "/api/show", { .api = API_OLLAMA } },
	{ "/api/delete", { .api = API_OLLAMA, .place = MODEL_IN_JSON } },
	{ "/api/pull",
	  { .api = API_OLLAMA,
	    .place = MODEL_IN_JSON,
	    .stream = STREAM_NDJSON,
	    .streams_unless_told = true } },
	{ "/api/tags", { .api = API_OLLAMA } },
	{ "/api/ps", { .api = API_OLLAMA } },
	{ "/api/version", { .api = API_OLLAMA } },

	{ "/completion",
	  { .api = API_LLAMA,
	    .place = MODEL_IN_JSON,
	    .stream = STREAM_SSE,
	    .model_optional = true } },
	{ "/infill",
	  { .api = API_LLAMA,
	    .place = MODEL_IN_JSON,
	    .stream = STREAM_SSE,
	    .model_optional = true } },
	{ "/embedding", { .api = API_LLAMA, .place = MODEL_IN_JSON, .model_optional = true } },
	{ "/tokenize", { .api = API_LLAMA, .place = MODEL_IN_JSON, .model_optional = true } },
	{ "/detokenize", { .api = API_LLAMA, .place = MODEL_IN_JSON, .model_optional = true } },
	{ "/apply-template", { .api = API_LLAMA, .place = MODEL_IN_JSON, .model_optional = true } },
	{ "/props", { .api = API_LLAMA, .place = MODEL_IN_QUERY, .model_optional = true } },
	{ "/slots/**", { .api = API_LLAMA, .place = MODEL_IN_QUERY, .model_optional = true } },
	{ "/lora-adapters", { .api = API_LLAMA, .place = MODEL_IN_QUERY, .model_optional = true } },
	{ "/health", { .api = API_LLAMA, .place = MODEL_IN_QUERY, .model_optional = true } },

	{ "/inference", { .api = API_WHISPER, .place = MODEL_IN_FORM, .model_optional = true } },
	{ "/load", { .api = API_WHISPER, .place = MODEL_IN_QUERY, .model_optional = true } },

	{ "/sdapi/**", { .api = API_SD, .place = MODEL_IN_JSON, .model_optional = true } },
	{ "/sdcpp/**", { .api = API_SD, .place = MODEL_IN_JSON, .model_optional = true } },
};

/* Most patterns are told apart before their first "*", without looking for segments. */
static bool begins_otherwise(struct str path, const char *pattern)
{
	size_t same = 0;

	while (same < path.length && path.data[same] == pattern[same] && pattern[same] != '*')
		same++;
	return same < path.length && pattern[same] != '*' && pattern[same] != '\0';
}

static bool matches(struct str path, const char *pattern)
{
	if (begins_otherwise(path, pattern))
		return false;
	struct str rest = { path.data, path.length };
	struct str expected = str_from(pattern);

	while (rest.data && expected.data) {
		struct str segment = str_cut(expected, '/', &expected);
		if (str_is(segment, "**"))
			return true;
		struct str given = str_cut(rest, '/', &rest);
		if (str_is(segment, "*") ? given.length == 0 : !str_equal(segment, given))
			return false;
	}
	return !rest.data && (!expected.data || str_is(expected, "**"));
}

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/*
 * A request that brings no body can name its model in the query alone. Where one endpoint is meant,
 * it came by the wrong method; under a pattern an engine may have others.
 */
static const struct api_shape *without_body(enum api api, bool is_one_endpoint)
{
#define BODILESS(api_, method_) { api_, MODEL_IN_QUERY, .model_optional = true, .method = method_ }
#define BODILESS_OF(api_) [api_] = { BODILESS(api_, NULL), BODILESS(api_, "POST") }
	static const struct api_shape bodiless[][2] = {
		BODILESS_OF(API_OTHER), BODILESS_OF(API_OPENAI),  BODILESS_OF(API_ANTHROPIC),
		BODILESS_OF(API_OLLAMA), BODILESS_OF(API_LLAMA), BODILESS_OF(API_WHISPER),
		BODILESS_OF(API_RERANK), BODILESS_OF(API_SD),
	};
#undef BODILESS_OF
#undef BODILESS
	return &bodiless[api][is_one_endpoint];
}

static bool has_body(enum method method, struct str path)
{
	return method == METHOD_POST || method == METHOD_PUT || method == METHOD_PATCH ||
	       str_is(path, "/api/delete");
}

const struct api_shape *api_shape_of(enum method method, struct str path)
{
	static const struct api_shape other = { API_OTHER, MODEL_IN_JSON, .model_optional = true };
	static const struct api_shape root = { .api = API_OWN };
	const struct api_shape *shape = &other;
	bool is_one = false;

	/* The front door is ours; what an engine has there is work, or behind /upstream. */
	if (str_is(path, "/") && (method == METHOD_GET || method == METHOD_HEAD || method == METHOD_OPTIONS))
		return &root;
	for (size_t i = 0; i < SHAPES; i++) {
		if (!matches(path, shapes[i].pattern))
			continue;
		shape = &shapes[i].shape;
		is_one = str_is(path, shapes[i].pattern);
		break;
	}
	bool is_in_body = shape->place == MODEL_IN_JSON || shape->place == MODEL_IN_FORM;
	return is_in_body && !has_body(method, path) ? without_body(shape->api, is_one) : shape;
}

const char *api_shape_pattern(size_t index)
{
	return index < SHAPES ? shapes[index].pattern : NULL;
}

static const char *openai_type(int status)
{
	switch (status) {
	case 401:
		return "authentication_error";
	case 403:
		return "permission_error";
	case 429:
		return "rate_limit_error";
	default:
		return status < 500 ? "invalid_request_error" : "server_error";
	}
}

static const char *anthropic_type(int status)
{
	switch (status) {
	case 401:
		return "authentication_error";
	case 403:
		return "permission_error";
	case 404:
		return "not_found_error";
	case 413:
		return "request_too_large";
	case 429:
		return "rate_limit_error";
	case 503:
		return "overloaded_error";
	case 504:
		return "timeout_error";
	default:
		return status < 500 ? "invalid_request_error" : "api_error";
	}
}

static void append_or_null(struct buf *out, const char *text)
{
	if (text)
		json_append_string(out, str_from(text));
	else
		buf_append_str(out, STR("null"));
}

/* As llama-server has it on all its paths. */
static void append_exceeded(struct buf *out, bool is_anthropic, const struct api_error *error)
{
	buf_printf(out, "{%s\"error\":{\"code\":%d,\"message\":", is_anthropic ? "\"type\":\"error\"," : "", error->status);
	json_append_string(out, error->message);
	buf_printf(out, ",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld}}",
	           (long long)error->prompt_tokens, (long long)error->context_tokens);
}

void api_error_body(struct buf *out, enum api api, const struct api_error *error)
{
	if (api == API_OLLAMA) {
		buf_append_str(out, STR("{\"error\":"));
		json_append_string(out, error->message);
		buf_append_char(out, '}');
		return;
	}
	bool is_anthropic = api == API_ANTHROPIC;
	if (error->prompt_tokens > 0) {
		append_exceeded(out, is_anthropic, error);
		return;
	}
	if (is_anthropic)
		buf_append_str(out, STR("{\"type\":\"error\",\"error\":{\"message\":"));
	else
		buf_append_str(out, STR("{\"error\":{\"message\":"));
	json_append_string(out, error->message);
	buf_printf(out, ",\"type\":\"%s\",\"code\":",
	           is_anthropic ? anthropic_type(error->status) : openai_type(error->status));
	append_or_null(out, error->code);
	if (!is_anthropic) {
		buf_append_str(out, STR(",\"param\":"));
		append_or_null(out, error->param);
	}
	buf_append_str(out, STR("}}"));
}

void api_error_event(struct buf *out, enum api api, enum stream_form form, bool between_events,
                     const struct api_error *error)
{
	struct buf body = BUF_INIT;

	if (form == STREAM_NONE)
		return;
	api_error_body(&body, api, error);
	if (form == STREAM_SSE || form == STREAM_ANTHROPIC) {
		if (!between_events)
			buf_append_str(out, STR("\n\n"));
		sse_event(out, form == STREAM_ANTHROPIC ? STR("error") : STR(""), buf_str(&body));
	} else {
		if (!between_events)
			buf_append_char(out, '\n');
		buf_append_str(out, buf_str(&body));
		buf_append_char(out, '\n');
	}
	buf_release(&body);
}
