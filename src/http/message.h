#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/head_check.h"

/*
 * message - the head of one request or answer, taken apart.
 *
 * A head is read twice: by head_check(), and by llhttp. Only where both read the
 * same method, version and body length is there a message; otherwise
 * HEAD_DISAGREEMENT. So a leniency of one llhttp version is never ours.
 *
 * All text is borrowed from the head's bytes, which must stay where they are as
 * long as the message is used. Nothing is allocated, nothing is to be freed.
 */

enum method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_PATCH,
	METHOD_DELETE,
	METHOD_OPTIONS,
	METHOD_COUNT,
};

struct message_field {
	uint16_t name_at, name_length; /* offsets into head: it has at most HEAD_BYTES_MAX */
	uint16_t value_at, value_length;
};

struct message {
	struct str head;
	/* Requests; empty in an answer. */
	enum method method;
	struct str method_text;
	struct str target;    /* as sent */
	struct str path;      /* begins with '/', still percent-encoded; "*" with OPTIONS alone */
	struct str query;     /* behind the '?', "" where none */
	struct str host;      /* "" where none (unix sockets) */
	bool expect_continue; /* the client waits for "100 Continue" before its body */
	/* Answers; 0 and empty in a request. */
	int status;
	struct str reason;
	/* Both. */
	int minor_version;      /* of HTTP/1.x */
	bool keep_alive;        /* the sender allows another exchange on this connection */
	bool upgrade;           /* a request that asks for, or a 101 that makes, another protocol */
	struct str upgrade_to;  /* value of Upgrade, e.g. "websocket" */
	int64_t content_length; /* -1: none said */
	bool chunked;
	uint32_t field_count;
	struct message_field fields[HEAD_FIELDS_MAX];
};

/* `head` is what head_find() measured. With anything but HEAD_OK `message` is not to be used. */
enum head_fault message_parse(struct message *message, struct str head, enum head_kind kind);

struct str message_name(const struct message *message, uint32_t index);
struct str message_value(const struct message *message, uint32_t index);
/* First field of that name, ASCII case ignored; {NULL, 0} where there is none. */
struct str message_header(const struct message *message, const char *name);
/* Is `token` in the comma-separated list of any field of that name? */
bool message_header_has(const struct message *message, const char *name, struct str token);

const char *method_text(enum method method);

#endif
