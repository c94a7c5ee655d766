#ifndef HTTP_API_SHAPE_H
#define HTTP_API_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/message.h"
#include "http/sse.h"

/*
 * api_shape - what kind of API a path belongs to, and how that API talks.
 *
 * Clients came here with the API they knew: where the model is named, how a
 * stream looks, what an error is. This is one table of paths, and the writers
 * of errors. What a path does to an engine (work, look, change) is the
 * adapter's route table and not said here.
 */

enum api {
	API_OTHER, /* a path we do not know: an engine's own */
	API_OWN,   /* /api/v1, /metrics, /healthz, /ui */
	API_OPENAI,
	API_ANTHROPIC,
	API_OLLAMA,
	API_LLAMA, /* llama-server's own */
	API_WHISPER,
	API_RERANK,
	API_SD,       /* sd-server's own and A1111's */
	API_UPSTREAM, /* /upstream/{model}/... */
};

enum model_place {
	MODEL_NOWHERE,  /* the request is for no model */
	MODEL_IN_JSON,  /* body, "model" */
	MODEL_IN_FORM,  /* multipart field "model", else the query */
	MODEL_IN_QUERY, /* ?model= */
	MODEL_IN_PATH,  /* segment `segment` of the path */
};

struct api_shape {
	enum api api;
	enum model_place place;
	unsigned segment;         /* with MODEL_IN_PATH */
	enum stream_form stream;  /* what a streamed answer looks like */
	bool streams_unless_told; /* Ollama: "stream" missing means true */
	bool model_optional;      /* where one model is all there is, none needs to be named */
	const char *method;       /* the path takes a body, and this request brings none: what it should have been; NULL */
};

/*
 * Never NULL. For API_UPSTREAM ask again for what stands behind:
 * url_after_segments(path, 2).
 */
const struct api_shape *api_shape_of(enum method method, struct str path);

/* The patterns of the table, one by one; NULL behind the last. */
const char *api_shape_pattern(size_t index);

struct api_error {
	int status;
	const char *code; /* "model_not_found" */
	struct str message;
	const char *param; /* NULL: null */
	/*
	 * Of a prompt that its context does not hold: how long both are. Then it is the engine's own error (type
	 * exceed_context_size_error), by which its clients know it, within the API's form. 0: it is something else.
	 */
	int64_t prompt_tokens, context_tokens;
};

/* The error as the API's clients expect it: one JSON object, appended. */
void api_error_body(struct buf *out, enum api api, const struct api_error *error);

/*
 * The same as one event of a stream that has begun. `between_events`: whether
 * the stream stands behind a whole event; else the broken one is ended first.
 */
void api_error_event(struct buf *out, enum api api, enum stream_form form, bool between_events,
                     const struct api_error *error);

#endif
