#include "reading.h"

#include <errno.h>
#include <llhttp.h>

#include "http/body.h"
#include "http/message.h"

static size_t find_head(struct reading *out, struct str stream, enum head_kind kind, size_t step)
{
	size_t scanned = 0, arrived = 0;
	int64_t length = 0;

	while (length == 0 && arrived < stream.length) {
		arrived = stream.length - arrived > step ? arrived + step : stream.length;
		length = head_find((struct str){ stream.data, arrived }, kind, &scanned);
	}
	if (length > 0)
		return (size_t)length;
	out->fault = length == -E2BIG ? HEAD_TOO_LARGE : HEAD_INCOMPLETE;
	return 0;
}

static void read_body(struct reading *out, struct str rest, struct body_decoder *decoder,
                      size_t step)
{
	enum body_step outcome = BODY_MORE;
	size_t taken = 0;

	do {
		size_t left = rest.length - taken;
		struct str in = { rest.data + taken, left < step ? left : step }, data;
		size_t given = in.length;
		while ((outcome = body_decode(decoder, &in, &data)) == BODY_DATA)
			buf_append_str(&out->body, data);
		taken += given - in.length;
	} while (outcome == BODY_MORE && taken < rest.length);
	out->is_complete = outcome == BODY_END;
	out->is_broken = outcome == BODY_BROKEN;
	out->consumed += taken;
}

void reading_ours(struct reading *out, struct str stream, enum head_kind kind, size_t step)
{
	struct message message;
	struct body_decoder decoder;

	*out = (struct reading){ .body = BUF_INIT };
	size_t length = find_head(out, stream, kind, step);
	if (length == 0)
		return;
	out->fault = message_parse(&message, (struct str){ stream.data, length }, kind);
	if (out->fault != HEAD_OK)
		return;
	enum body_kind body = kind == HEAD_RESPONSE ? body_kind_of_response(&message, METHOD_GET)
	                                            : body_kind_of_request(&message);
	out->consumed = length;
	if (body == BODY_TUNNEL) {
		out->is_complete = true; /* what follows is no HTTP any more */
		return;
	}
	body_decoder_init(&decoder, body, message.content_length);
	read_body(out, (struct str){ stream.data + length, stream.length - length }, &decoder,
	          step);
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
{
	struct reading *out = parser->data;

	buf_append(&out->body, at, length);
	return 0;
}

/* llhttp leaves it to its user to know which answers have no body whatever their head says. */
static int on_head(llhttp_t *parser)
{
	bool is_bodiless = parser->type == HTTP_RESPONSE &&
	                   (parser->status_code < 200 || parser->status_code == 204 ||
	                    parser->status_code == 304);

	return is_bodiless ? 1 : 0;
}

static int on_complete(llhttp_t *parser)
{
	struct reading *out = parser->data;

	out->is_complete = true;
	return HPE_PAUSED;
}

void reading_llhttp(struct reading *out, struct str stream, enum head_kind kind)
{
	static const llhttp_settings_t settings = {
		.on_headers_complete = on_head,
		.on_body = on_body,
		.on_message_complete = on_complete,
	};
	llhttp_t parser;

	*out = (struct reading){ .body = BUF_INIT };
	llhttp_init(&parser, kind == HEAD_RESPONSE ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
	parser.data = out;
	llhttp_errno_t outcome = llhttp_execute(&parser, stream.data, stream.length);
	if (outcome == HPE_PAUSED || outcome == HPE_PAUSED_UPGRADE)
		out->consumed = (size_t)(llhttp_get_error_pos(&parser) - stream.data);
	else if (outcome != HPE_OK)
		out->fault = HEAD_DISAGREEMENT;
}

void reading_release(struct reading *reading)
{
	buf_release(&reading->body);
}

bool reading_equal(const struct reading *a, const struct reading *b)
{
	return a->fault == b->fault && a->is_complete == b->is_complete &&
	       a->is_broken == b->is_broken && str_equal(buf_str(&a->body), buf_str(&b->body)) &&
	       (!a->is_complete || a->consumed == b->consumed);
}
