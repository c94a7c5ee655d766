#include "http/head_writer.h"

#include <assert.h>

/* Fields that never go through as they came, by direction. */
enum {
	DROP_TO_ENGINE = 1,
	DROP_TO_CLIENT = 2,
	CREDENTIAL = 4, /* to the engine only where the model's `forward_auth` says so */
	DROP_BOTH = DROP_TO_ENGINE | DROP_TO_CLIENT,
};

#define ONE(literal, flags) { { "" literal, sizeof(literal) - 1 }, flags, false }
#define FAMILY(literal, flags) { { "" literal, sizeof(literal) - 1 }, flags, true }
static const struct {
	struct str name;
	int flags;
	bool is_family; /* all that begin with it */
} dropped[] = {
	/* Of one connection. */
	ONE("connection", DROP_BOTH),
	ONE("keep-alive", DROP_BOTH),
	ONE("proxy-connection", DROP_BOTH),
	ONE("te", DROP_BOTH),
	ONE("trailer", DROP_BOTH),
	ONE("transfer-encoding", DROP_BOTH),
	ONE("upgrade", DROP_BOTH),
	ONE("http2-settings", DROP_TO_ENGINE),
	ONE("expect", DROP_TO_ENGINE),
	/* Said by us. */
	ONE("content-length", DROP_BOTH),
	ONE("host", DROP_TO_ENGINE),
	FAMILY("x-cotenant-", DROP_BOTH),
	FAMILY("access-control-", DROP_BOTH),
	/* The client's own. */
	ONE("authorization", DROP_TO_ENGINE | CREDENTIAL),
	ONE("x-api-key", DROP_TO_ENGINE | CREDENTIAL),
	ONE("api-key", DROP_TO_ENGINE | CREDENTIAL),
	ONE("cookie", DROP_TO_ENGINE),
	FAMILY("proxy-", DROP_TO_ENGINE),
	ONE("proxy-authenticate", DROP_TO_CLIENT),
	/* See the header for why. */
	ONE("origin", DROP_TO_ENGINE),
	ONE("accept-encoding", DROP_TO_ENGINE),
};
#undef ONE
#undef FAMILY

static int drop_flags(struct str name)
{
	int flags = 0;

	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
		struct str entry = dropped[i].name, lead = name;
		if (dropped[i].is_family && lead.length > entry.length)
			lead.length = entry.length;
		if (lead.length == entry.length && (lead.data[0] | 0x20) == entry.data[0] && str_equal_nocase(lead, entry))
			flags |= dropped[i].flags;
	}
	return flags;
}

static void write_field(struct buf *out, struct str name, struct str value)
{
	buf_append_str(out, name);
	buf_append_str(out, STR(": "));
	char *at = buf_reserve(out, value.length);
	for (size_t i = 0; i < value.length; i++) {
		char c = value.data[i];
		at[i] = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
	}
	buf_commit(out, value.length);
	buf_append_str(out, STR("\r\n"));
}

static void write_number(struct buf *out, uint64_t number)
{
	char *at = buf_reserve(out, STR_U64_BYTES);

	buf_commit(out, (size_t)(str_put_u64(at, number) - at));
}

static void write_length(struct buf *out, int64_t length)
{
	if (length >= 0) {
		buf_append_str(out, STR("Content-Length: "));
		write_number(out, (uint64_t)length);
		buf_append_str(out, STR("\r\n"));
	}
	if (length == LENGTH_CHUNKED)
		buf_append_str(out, STR("Transfer-Encoding: chunked\r\n"));
}

/* The fields that go through: neither in the table nor named in Connection. */
static void write_fields(struct buf *out, const struct message *message, int drop)
{
	bool is_any_named = message_header(message, "connection").data != NULL;

	for (uint32_t i = 0; i < message->field_count; i++) {
		struct str name = message_name(message, i);
		bool named = is_any_named && message_header_has(message, "connection", name);
		if (drop_flags(name) & drop || named)
			continue;
		write_field(out, name, message_value(message, i));
	}
}

static void write_upgrade(struct buf *out, const struct message *message)
{
	buf_append_str(out, STR("Connection: Upgrade\r\n"));
	write_field(out, STR("Upgrade"), message->upgrade_to);
}

void head_write_request(struct buf *out, const struct message *request,
                        const struct request_head *how)
{
	bool is_own_target = how->target.length == 0;

	buf_append_str(out, request->method_text);
	buf_append_char(out, ' ');
	buf_append_str(out, is_own_target ? request->path : how->target);
	if (is_own_target && request->query.length > 0) {
		buf_append_char(out, '?');
		buf_append_str(out, request->query);
	}
	buf_append_str(out, STR(" HTTP/1.1\r\n"));
	if (how->host.length)
		write_field(out, STR("Host"), how->host);
	if (request->upgrade)
		write_upgrade(out, request);
	else if (!how->keep_alive)
		buf_append_str(out, STR("Connection: close\r\n"));
	write_fields(out, request, DROP_TO_ENGINE);
	write_length(out, how->length);
	buf_append_str(out, STR("\r\n"));
}

void head_write_credentials(struct buf *out, const struct message *request)
{
	for (uint32_t i = 0; i < request->field_count; i++)
		if (drop_flags(message_name(request, i)) & CREDENTIAL)
			write_field(out, message_name(request, i), message_value(request, i));
}

static void write_end(struct buf *out, const struct response_head *how, bool is_upgrade)
{
	if (!is_upgrade && !how->keep_alive)
		buf_append_str(out, STR("Connection: close\r\n"));
	if (!is_upgrade && how->keep_alive && how->client_minor_version == 0)
		buf_append_str(out, STR("Connection: keep-alive\r\n"));
	for (uint32_t i = 0; i < how->extra_count; i++)
		write_field(out, how->extra[i].name, how->extra[i].value);
	write_length(out, how->length);
	buf_append_str(out, STR("\r\n"));
}

void head_write_response(struct buf *out, const struct message *response,
                         const struct response_head *how)
{
	assert(how->length != LENGTH_CHUNKED || how->client_minor_version == 1);
	struct str reason = response->reason;
	if (reason.length == 0)
		reason = str_from(status_reason(response->status));
	buf_append_str(out, STR("HTTP/1.1 "));
	write_number(out, (uint64_t)response->status);
	buf_append_char(out, ' ');
	buf_append_str(out, reason);
	buf_append_str(out, STR("\r\n"));
	if (response->upgrade)
		write_upgrade(out, response);
	write_fields(out, response, DROP_TO_CLIENT);
	write_end(out, how, response->upgrade);
}

void head_write_own(struct buf *out, int status, const char *content_type,
                    const struct response_head *how)
{
	assert(how->length != LENGTH_CHUNKED || how->client_minor_version == 1);
	buf_printf(out, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
	if (content_type)
		buf_printf(out, "Content-Type: %s\r\n", content_type);
	write_end(out, how, false);
}

const char *status_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 100, "Continue" },
		{ 101, "Switching Protocols" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 411, "Length Required" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 499, "Client Closed Request" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
		{ 508, "Loop Detected" },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}
