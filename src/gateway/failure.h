#ifndef GATEWAY_FAILURE_H
#define GATEWAY_FAILURE_H

#include <stdint.h>

#include "base/buf.h"
#include "conf/conf.h"
#include "core/action.h"
#include "http/api_shape.h"

/*
 * failure - what a client reads when its request ends without an answer.
 *
 * core/fail.c says for each enum fail the status, the code and whether waiting
 * helps; the sentence names the model and, where the arbiter refused for
 * memory, the numbers it refused by. The shape around it is the API's own.
 */
enum { ALLOW_TEXT = 64 };

struct failure {
	int status;
	const char *code;
	const char *param;      /* NULL */
	int64_t prompt_tokens, context_tokens; /* see struct api_error; else 0 */
	int retry_after_s;      /* 0: waiting does not help, and a client is told not to try again */
	char allow[ALLOW_TEXT]; /* of a 405: the methods that there are */
	char text[640];
};

/*
 * `model` may be NULL. `action` is the verdict, or NULL where the gateway itself
 * found out. `explain` is what is known of the cause, "" where nothing is.
 */
void failure_of(struct failure *out, enum fail fail, const char *model,
                const struct action *action, const char *explain);

/* One that is no enum fail: of this request's own making. */
void failure_set(struct failure *out, int status, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* 400: a prompt of so many tokens, where a context of so many is the most that can be had. */
void failure_of_context(struct failure *out, enum api api, int64_t prompt_tokens, int64_t context_tokens);

/* 405: the path takes `methods` ("GET, POST") and was asked by another. */
void failure_of_method(struct failure *out, struct str path, const char *methods, struct str method);
/* What Allow says of a path that takes `methods`: HEAD goes where GET stands first, OPTIONS everywhere. Returns `out`. */
const char *allow_text(char out[ALLOW_TEXT], const char *methods);

/* The body, in the API's form. */
void failure_body(struct buf *out, enum api api, const struct failure *failure);
/* The event that ends a stream, in its form. */
void failure_event(struct buf *out, enum api api, enum stream_form form, bool between_events,
                   const struct failure *failure);

#endif
