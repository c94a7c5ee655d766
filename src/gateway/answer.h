#ifndef GATEWAY_ANSWER_H
#define GATEWAY_ANSWER_H

#include "gateway/client.h"
#include "gateway/failure.h"
#include "http/head_writer.h"

/*
 * answer - one answer, framed for the client that reads it.
 *
 * The exchange says what the body is and gives its bytes; whether they travel
 * by length, in chunks or until the connection closes follows from the client's
 * HTTP version. The head is held back until the first bytes, so that a short
 * answer is one write; answer_flush() sends it without.
 *
 * Every write of chunks ends behind a chunk: so at any time an error event can
 * be put behind what was sent.
 */

/* Of unknown length: chunked, or until close. */
enum { ANSWER_UNKNOWN = -1 };

/* An answer of our own. `extra` fields besides those that every answer has. */
void answer_begin(struct client *client, int status, const char *content_type, int64_t length,
                  const struct head_field *extra, uint32_t extra_count);
/* An engine's. `kind` and `length` are its body's. */
void answer_relay(struct client *client, const struct message *head, enum body_kind kind,
                  int64_t length, const struct head_field *extra, uint32_t extra_count);
void answer_write(struct client *client, const struct str *parts, uint32_t count);
void answer_flush(struct client *client);
/* Complete. The exchange must not touch the client again. */
void answer_end(struct client *client);
/* It broke: cut so that it does not look complete. The same holds. */
void answer_break(struct client *client);

/* All in one: a whole answer of our own. */
void answer_whole(struct client *client, int status, const char *content_type, struct str body,
                  const struct head_field *extra, uint32_t extra_count);
void answer_failure(struct client *client, enum api api, const struct failure *failure);
/* ... with a few fields more. */
void answer_failure_with(struct client *client, enum api api, const struct failure *failure,
                         const struct head_field *more, uint32_t more_count);

/* Can an event of ours be put into what was begun? (Not where the length is fixed.) */
bool answer_is_open(const struct client *client);

/* "<boot>-<sequence>". Returns `out`. */
enum { REQUEST_ID_BYTES = 32 };
const char *request_id(const struct gateway *gateway, uint64_t sequence,
                       char out[REQUEST_ID_BYTES]);

#endif
