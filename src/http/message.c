/*
 * The fields are cut out by our own hand, which is easy once head_check() has
 * passed the head; llhttp then reads the same bytes and must name the same
 * fields at the same places. It is stopped behind the head: bodies are body.c's.
 */
#include "http/message.h"

#include <assert.h>
#include <llhttp.h>
#include <string.h>

static const char *const methods[METHOD_COUNT] = {
	[METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
	[METHOD_PUT] = "PUT",         [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
	[METHOD_OPTIONS] = "OPTIONS",
};

const char *method_text(enum method method)
{
	assert(method < METHOD_COUNT);
	return methods[method];
}

static struct str slice(const struct message *message, uint16_t at, uint16_t length)
{
	return (struct str){ message->head.data + at, length };
}

struct str message_name(const struct message *message, uint32_t index)
{
	assert(index < message->field_count);
	return slice(message, message->fields[index].name_at, message->fields[index].name_length);
}

struct str message_value(const struct message *message, uint32_t index)
{
	assert(index < message->field_count);
	return slice(message, message->fields[index].value_at, message->fields[index].value_length);
}

struct str message_header(const struct message *message, const char *name)
{
	struct str wanted = str_from(name);

	for (uint32_t i = 0; i < message->field_count; i++)
		if (message->fields[i].name_length == wanted.length &&
		    str_equal_nocase(message_name(message, i), wanted))
			return message_value(message, i);
	return (struct str){ NULL, 0 };
}

bool message_header_has(const struct message *message, const char *name, struct str token)
{
	struct str wanted = str_from(name);

	for (uint32_t i = 0; i < message->field_count; i++) {
		if (message->fields[i].name_length != wanted.length ||
		    !str_equal_nocase(message_name(message, i), wanted))
			continue;
		for (struct str list = message_value(message, i); list.length > 0;)
			if (str_equal_nocase(str_trim(str_cut(list, ',', &list)), token))
				return true;
	}
	return false;
}

/* "/path?query", "*", or "http://authority/path?query". */
static void split_target(struct message *message)
{
	struct str rest = message->target;

	if (!str_starts(rest, "/") && !str_is(rest, "*")) {
		size_t at = str_starts(rest, "http:") ? 7 : 8;
		while (at < rest.length && rest.data[at] != '/' && rest.data[at] != '?')
			at++;
		rest = (struct str){ rest.data + at, rest.length - at };
	}
	message->path = str_cut(rest, '?', &message->query);
	if (message->path.length == 0)
		message->path = STR("/");
	if (!message->query.data)
		message->query = STR("");
}

static void split_request_line(struct message *message, struct str line)
{
	struct str rest;

	message->method_text = str_cut(line, ' ', &rest);
	message->target = str_cut(rest, ' ', &rest);
	while (!str_is(message->method_text, methods[message->method]))
		message->method++;
	split_target(message);
}

static void split_status_line(struct message *message, struct str line)
{
	struct str rest;

	str_cut(line, ' ', &rest);
	str_cut(rest, ' ', &rest);
	message->reason = rest.data ? rest : STR("");
}

static void add_field(struct message *message, struct str line)
{
	struct str value;
	struct str name = str_cut(line, ':', &value);
	struct message_field *field = &message->fields[message->field_count++];

	value = str_trim(value);
	field->name_at = (uint16_t)(name.data - message->head.data);
	field->name_length = (uint16_t)name.length;
	field->value_at = (uint16_t)(value.data - message->head.data);
	field->value_length = (uint16_t)value.length;
}

static void split_lines(struct message *message, bool is_request)
{
	struct str rest;
	struct str line = str_cut(message->head, '\n', &rest);

	line.length--; /* the CR */
	if (is_request)
		split_request_line(message, line);
	else
		split_status_line(message, line);
	for (;;) {
		line = str_cut(rest, '\n', &rest);
		line.length--;
		if (line.length == 0)
			return;
		add_field(message, line);
	}
}

static void read_fields(struct message *message, bool is_request)
{
	bool asks_upgrade = message_header_has(message, "connection", STR("upgrade"));
	bool asks_close = message_header_has(message, "connection", STR("close"));
	bool asks_keep = message_header_has(message, "connection", STR("keep-alive"));
	struct str upgrade = message_header(message, "upgrade");

	message->keep_alive = !asks_close && (message->minor_version == 1 || asks_keep);
	message->host = is_request ? message_header(message, "host") : STR("");
	message->expect_continue = is_request && message->minor_version == 1 &&
	                           message_header_has(message, "expect", STR("100-continue"));
	/*
	 * WebSockets alone: an upgrade to h2c would carry requests past us that
	 * nobody checked.
	 */
	bool may_upgrade = is_request ? message->method == METHOD_GET && !message->chunked &&
	                                        message->content_length <= 0 &&
	                                        str_equal_nocase(upgrade, STR("websocket"))
	                              : message->status == 101;
	message->upgrade = asks_upgrade && may_upgrade && message->minor_version == 1;
	message->upgrade_to = message->upgrade ? upgrade : STR("");
}

/* What llhttp says, held against what we read. */
struct witness {
	const struct message *message;
	uint32_t names, values;
	uint32_t filled; /* fields whose value is not empty, up to here */
	bool agrees;
	bool is_complete;
};

static int on_name(llhttp_t *parser, const char *at, size_t length)
{
	struct witness *witness = parser->data;
	uint32_t index = witness->names++;

	if (index >= witness->message->field_count)
		return -1;
	struct str ours = message_name(witness->message, index);
	witness->agrees &= at == ours.data && length == ours.length;
	return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
	struct witness *witness = parser->data;
	struct str theirs = str_trim((struct str){ at, length });

	if (theirs.length == 0)
		return 0;
	if (witness->names == 0)
		return -1;
	struct str ours = message_value(witness->message, witness->names - 1);
	witness->agrees &= theirs.data == ours.data && theirs.length == ours.length;
	witness->values++;
	return 0;
}

static int on_target(llhttp_t *parser, const char *at, size_t length)
{
	struct witness *witness = parser->data;
	struct str ours = witness->message->target;

	witness->agrees &= at == ours.data && length == ours.length;
	return 0;
}

static int on_head(llhttp_t *parser)
{
	struct witness *witness = parser->data;
	const struct message *message = witness->message;
	bool has_length = (parser->flags & F_CONTENT_LENGTH) != 0;
	bool is_chunked = (parser->flags & F_CHUNKED) != 0;

	witness->is_complete = true;
	witness->agrees &= parser->http_major == 1 && parser->http_minor == message->minor_version;
	witness->agrees &= is_chunked == message->chunked;
	witness->agrees &= has_length == (message->content_length >= 0);
	if (has_length)
		witness->agrees &= parser->content_length == (uint64_t)message->content_length;
	if (message->status)
		witness->agrees &= parser->status_code == message->status;
	else
		witness->agrees &= str_is(message->method_text,
		                          llhttp_method_name((llhttp_method_t)parser->method));
	return HPE_PAUSED;
}

static bool parser_agrees(const struct message *message)
{
	static const llhttp_settings_t settings = {
		.on_url = on_target,
		.on_header_field = on_name,
		.on_header_value = on_value,
		.on_headers_complete = on_head,
	};
	struct witness witness = { .message = message, .agrees = true };
	llhttp_t parser;

	llhttp_init(&parser, message->status ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
	parser.data = &witness;
	llhttp_errno_t outcome = llhttp_execute(&parser, message->head.data, message->head.length);
	for (uint32_t i = 0; i < message->field_count; i++)
		witness.filled += message->fields[i].value_length > 0;
	return outcome == HPE_PAUSED && witness.is_complete && witness.agrees &&
	       witness.names == message->field_count && witness.values == witness.filled;
}

enum head_fault message_parse(struct message *message, struct str head, enum head_kind kind)
{
	struct head_facts facts;
	bool is_request = kind != HEAD_RESPONSE;

	enum head_fault fault = head_check(head, kind, &facts);
	if (fault != HEAD_OK)
		return fault;

	/* The table of fields is filled as far as it is used: not zeroed for each request. */
	memset(message, 0, offsetof(struct message, fields));
	message->head = head;
	message->minor_version = facts.minor_version;
	message->status = facts.status;
	message->content_length = facts.content_length;
	message->chunked = facts.chunked;
	split_lines(message, is_request);
	assert(message->field_count == facts.fields);
	read_fields(message, is_request);
	return parser_agrees(message) ? HEAD_OK : HEAD_DISAGREEMENT;
}
