#include "gateway/answer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { EXTRA_MAX = 12 };

const char *request_id(const struct gateway *gateway, uint64_t sequence,
                       char out[REQUEST_ID_BYTES])
{
	return str_put_numbered(out, REQUEST_ID_BYTES, gateway->boot_id, sequence);
}

static bool status_has_no_body(int status)
{
	return status < 200 || status == 204 || status == 304;
}

static enum framing framing_for(const struct answer *answer, int status, int64_t length)
{
	if (answer->is_head || status_has_no_body(status))
		return FRAMING_NONE;
	if (length >= 0)
		return FRAMING_LENGTH;
	return answer->minor_version >= 1 ? FRAMING_CHUNKED : FRAMING_UNTIL_CLOSE;
}

/* What the head says about the body. A HEAD answer says the length of the body it does not have. */
static int64_t length_said(const struct answer *answer, int status, int64_t length)
{
	if (length >= 0 && !status_has_no_body(status))
		return length;
	return answer->framing == FRAMING_CHUNKED ? LENGTH_CHUNKED : LENGTH_NONE;
}

static uint32_t add_field(struct head_field *fields, uint32_t count, const char *name,
                          const char *value)
{
	assert(count < EXTRA_MAX);
	fields[count] = (struct head_field){ str_from(name), str_from(value) };
	return count + 1;
}

/* Fields of every answer, before those of this one. */
static uint32_t common_fields(const struct client *client, char id[REQUEST_ID_BYTES],
                              struct head_field *fields)
{
	const struct answer *answer = &client->answer;
	uint32_t count = add_field(fields, 0, "X-Cotenant-Request-Id",
	                           request_id(client->gateway, client->sequence, id));

	if (!answer->allow_origin)
		return count;
	count = add_field(fields, count, "Access-Control-Allow-Origin", answer->allow_origin);
	count = add_field(fields, count, "Access-Control-Expose-Headers", "*");
	return add_field(fields, count, "Vary", "Origin");
}

static struct response_head prepare(struct client *client, int status, int64_t length)
{
	struct answer *answer = &client->answer;

	assert(!answer->begun && client->stream);
	answer->begun = true;
	answer->status = status;
	answer->framing = framing_for(answer, status, length);
	answer->left = length;
	if (answer->framing == FRAMING_UNTIL_CLOSE || client->gateway->draining ||
	    client->state == CLIENT_BODY) /* the rest of the body would be read as a head */
		answer->keep_alive = false;
	client->gateway->counters.by_status[status / 100 % 6]++;
	return (struct response_head){
		.length = length_said(answer, status, length),
		.keep_alive = answer->keep_alive,
		.client_minor_version = answer->minor_version,
	};
}

void answer_begin(struct client *client, int status, const char *content_type, int64_t length,
                  const struct head_field *extra, uint32_t extra_count)
{
	struct response_head how = prepare(client, status, length);
	struct head_field fields[EXTRA_MAX];
	char id[REQUEST_ID_BYTES];
	uint32_t count = common_fields(client, id, fields);

	assert(count + extra_count <= EXTRA_MAX);
	for (uint32_t i = 0; i < extra_count; i++)
		fields[count++] = extra[i];
	how.extra = fields;
	how.extra_count = count;
	head_write_own(&client->held, status, content_type, &how);
}

void answer_relay(struct client *client, const struct message *head, enum body_kind kind,
                  int64_t length, const struct head_field *extra, uint32_t extra_count)
{
	/* A HEAD answer of an engine keeps what it says about the length. */
	int64_t said = kind == BODY_LENGTH || kind == BODY_NONE ? length : ANSWER_UNKNOWN;
	struct response_head how = prepare(client, head->status, said);
	if (kind == BODY_TUNNEL) {
		client->answer.framing = FRAMING_TUNNEL;
		client->answer.keep_alive = false;
	}
	struct head_field fields[EXTRA_MAX];
	char id[REQUEST_ID_BYTES];
	uint32_t count = common_fields(client, id, fields);

	assert(count + extra_count <= EXTRA_MAX);
	for (uint32_t i = 0; i < extra_count; i++)
		fields[count++] = extra[i];
	how.extra = fields;
	how.extra_count = count;
	head_write_response(&client->held, head, &how);
}

/* Our bytes around the exchange's: the held head, and the chunk's frame. */
static void send_framed(struct client *client, const struct str *parts, uint32_t count,
                        size_t total)
{
	struct str out[STREAM_PARTS_MAX];
	char chunk[CHUNK_HEAD_MAX];
	uint32_t used = 0;
	bool chunked = client->answer.framing == FRAMING_CHUNKED && total > 0;

	if (buf_length(&client->held))
		out[used++] = buf_str(&client->held);
	if (chunked)
		out[used++] = (struct str){ chunk, chunk_head(chunk, total) };
	for (uint32_t i = 0; i < count; i++)
		out[used++] = parts[i];
	if (chunked)
		out[used++] = CHUNK_TAIL;
	stream_write(client->stream, out, used);
	buf_release(&client->held);
}

void answer_write(struct client *client, const struct str *parts, uint32_t count)
{
	struct answer *answer = &client->answer;
	size_t total = 0;

	assert(answer->begun && count + 3 <= STREAM_PARTS_MAX);
	for (uint32_t i = 0; i < count; i++)
		total += parts[i].length;
	if (answer->framing == FRAMING_NONE)
		return;
	if (answer->framing == FRAMING_LENGTH) {
		assert((int64_t)total <= answer->left);
		answer->left -= (int64_t)total;
	}
	answer->bytes += (int64_t)total;
	client->gateway->counters.bytes_out += total;
	send_framed(client, parts, count, total);
}

void answer_flush(struct client *client)
{
	if (buf_length(&client->held))
		send_framed(client, NULL, 0, 0);
}

bool answer_is_open(const struct client *client)
{
	enum framing framing = client->answer.framing;

	return client->answer.begun &&
	       (framing == FRAMING_CHUNKED || framing == FRAMING_UNTIL_CLOSE);
}

void answer_end(struct client *client)
{
	const struct answer *answer = &client->answer;

	assert(answer->begun);
	assert(answer->framing != FRAMING_LENGTH || answer->left == 0);
	struct str out[2] = { buf_str(&client->held), CHUNK_END };
	uint32_t count = answer->framing == FRAMING_CHUNKED ? 2 : 1;
	if (count == 2 || out[0].length)
		stream_write(client->stream, out, count);
	buf_release(&client->held);
	if (answer->keep_alive)
		client_next(client);
	else
		client_part(client, false);
}

void answer_break(struct client *client)
{
	answer_flush(client);
	client_part(client, true);
}

void answer_whole(struct client *client, int status, const char *content_type, struct str body,
                  const struct head_field *extra, uint32_t extra_count)
{
	answer_begin(client, status, content_type, (int64_t)body.length, extra, extra_count);
	if (body.length)
		answer_write(client, &body, 1);
	answer_end(client);
}

void answer_failure(struct client *client, enum api api, const struct failure *failure)
{
	answer_failure_with(client, api, failure, NULL, 0);
}

void answer_failure_with(struct client *client, enum api api, const struct failure *failure,
                         const struct head_field *more, uint32_t more_count)
{
	struct buf body = BUF_INIT;
	char seconds[16];
	struct head_field extra[EXTRA_MAX] = { { STR("x-should-retry"), STR("false") } };
	uint32_t count = 1;

	assert(more_count + 2 <= EXTRA_MAX);
	if (failure->retry_after_s > 0) {
		snprintf(seconds, sizeof(seconds), "%d", failure->retry_after_s);
		extra[0] = (struct head_field){ STR("Retry-After"), str_from(seconds) };
	}
	if (failure->allow[0])
		extra[count++] = (struct head_field){ STR("Allow"), str_from(failure->allow) };
	for (uint32_t i = 0; i < more_count; i++)
		extra[count++] = more[i];
	failure_body(&body, api, failure);
	answer_whole(client, failure->status, "application/json", buf_str(&body), extra, count);
	buf_release(&body);
}
