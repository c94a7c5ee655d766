/*
 * One pass over all bytes settles what no line may hold; then the first line
 * and the fields are judged line by line. A field is never searched for again:
 * what decides about framing is collected on the way and weighed at the end.
 */
#include "http/head_check.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "http/token.h"
#include "http/url.h"

static const struct {
	int status;
	const char *text;
} faults[HEAD_FAULT_COUNT] = {
	[HEAD_OK] = { 200, "nothing is wrong" },
	[HEAD_INCOMPLETE] = { 400, "the head does not end with an empty line" },
	[HEAD_TOO_LARGE] = { 431, "the head is larger than 32 KiB" },
	[HEAD_TOO_MANY_FIELDS] = { 431, "there are more than 128 header fields" },
	[HEAD_BARE_CR] = { 400, "a CR without LF in the head" },
	[HEAD_BARE_LF] = { 400, "a LF without CR in the head" },
	[HEAD_CONTROL_BYTE] = { 400, "a control byte in the head" },
	[HEAD_LEADING_BLANK] = { 400, "an empty line or a blank before the first line" },
	[HEAD_BAD_LINE] = { 400, "the first line is not a method, a target and HTTP/1.1" },
	[HEAD_BAD_METHOD] = { 400, "the method is not a token" },
	[HEAD_UNKNOWN_METHOD] = { 501, "this method is not served" },
	[HEAD_BAD_TARGET] = { 400, "the request target is malformed" },
	[HEAD_TARGET_TOO_LONG] = { 414, "the request target is longer than 8 KiB" },
	[HEAD_BAD_VERSION] = { 505, "only HTTP/1.1 and HTTP/1.0 are spoken here" },
	[HEAD_BAD_STATUS] = { 400, "the status is not three digits from 100 to 599" },
	[HEAD_FOLD] = { 400, "a header field is folded over lines" },
	[HEAD_NO_COLON] = { 400, "a header field has no colon" },
	[HEAD_BLANK_BEFORE_COLON] = { 400, "a blank between a field's name and its colon" },
	[HEAD_BAD_NAME] = { 400, "a header field's name is not a token" },
	[HEAD_NO_HOST] = { 400, "the Host field is missing" },
	[HEAD_DUPLICATE_HOST] = { 400, "there is more than one Host field" },
	[HEAD_BAD_HOST] = { 400, "the Host field is malformed" },
	[HEAD_HOST_DISAGREES] = { 400,
	                          "the Host field and the request target name different hosts" },
	[HEAD_BAD_LENGTH] = { 400, "Content-Length is not a number" },
	[HEAD_DUPLICATE_LENGTH] = { 400, "there is more than one Content-Length" },
	[HEAD_LENGTH_TOO_LARGE] = { 413, "Content-Length is too large" },
	[HEAD_DUPLICATE_ENCODING] = { 400, "there is more than one Transfer-Encoding" },
	[HEAD_BAD_ENCODING] = { 501, "the only Transfer-Encoding understood here is chunked" },
	[HEAD_ENCODING_IN_1_0] = { 400, "Transfer-Encoding does not exist in HTTP/1.0" },
	[HEAD_BOTH_LENGTHS] = { 400, "both Content-Length and Transfer-Encoding are given" },
	[HEAD_DISAGREEMENT] = { 400, "the head can be read in more than one way" },
};

const char *head_fault_text(enum head_fault fault)
{
	assert(fault < HEAD_FAULT_COUNT);
	return faults[fault].text;
}

int head_fault_status(enum head_fault fault)
{
	assert(fault < HEAD_FAULT_COUNT);
	return faults[fault].status;
}

static bool is_token(struct str text)
{
	for (size_t i = 0; i < text.length; i++)
		if (!is_token_byte(text.data[i]))
			return false;
	return text.length > 0;
}

static bool has_version(struct str line)
{
	struct str rest;

	str_cut(line, ' ', &rest);
	str_cut(rest, ' ', &rest);
	return rest.data != NULL;
}

int64_t head_find(struct str bytes, enum head_kind kind, size_t *scanned)
{
	size_t limit = bytes.length < HEAD_BYTES_MAX ? bytes.length : HEAD_BYTES_MAX;

	/* Not HTTP at all, a TLS greeting for example: there may never be a line end. */
	if (bytes.length > 0 && !is_token_byte(bytes.data[0]))
		return 1;

	while (*scanned < limit) {
		const char *line = bytes.data + *scanned;
		const char *lf = memchr(line, '\n', limit - *scanned);
		if (!lf)
			break;
		size_t length = (size_t)(lf - line);
		int64_t so_far = (int64_t)(*scanned + length + 1);
		bool is_bare = length == 0 || line[length - 1] != '\r';
		bool is_blank = length == 1;
		if (is_bare || is_blank)
			return so_far;
		if (*scanned == 0 && kind != HEAD_RESPONSE &&
		    !has_version((struct str){ line, length }))
			return so_far;
		*scanned += length + 1;
	}
	return bytes.length >= HEAD_BYTES_MAX ? -E2BIG : 0;
}

/* What is no letter of a method or of "HTTP" shows at once that this is no head. */
static enum head_fault check_first_byte(struct str head)
{
	if (head.length == 0)
		return HEAD_INCOMPLETE;
	unsigned char c = (unsigned char)head.data[0];
	if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
		return HEAD_LEADING_BLANK;
	if (c < 0x20 || c == 0x7f)
		return HEAD_CONTROL_BYTE;
	return is_token_byte((char)c) ? HEAD_OK : HEAD_BAD_LINE;
}

/* What no line may hold. */
static enum head_fault check_bytes(struct str head)
{
	for (size_t i = 0; i < head.length; i++) {
		unsigned char c = (unsigned char)head.data[i];
		if ((c >= 0x20 && c != 0x7f) || c == '\t')
			continue;
		if (c == '\r') {
			if (i + 1 < head.length && head.data[i + 1] == '\n') {
				i++;
				continue;
			}
			return HEAD_BARE_CR;
		}
		return c == '\n' ? HEAD_BARE_LF : HEAD_CONTROL_BYTE;
	}
	return HEAD_OK;
}

/* Cut the next line off; false where there is no whole one. */
static bool next_line(struct str *head, struct str *out_line)
{
	struct str rest;

	*out_line = str_cut(*head, '\n', &rest);
	if (!rest.data)
		return false;
	*head = rest;
	out_line->length--; /* the CR: check_bytes() saw that it is there */
	return true;
}

static bool is_known_method(struct str text)
{
	static const char *const methods[] = { "GET",    "POST",    "PUT",  "HEAD",
		                               "DELETE", "OPTIONS", "PATCH" };

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (str_is(text, methods[i]))
			return true;
	return false;
}

/* What decides about framing and host, gathered from the lines. */
struct finding {
	bool is_options;
	int minor_version;
	int status;
	struct str authority; /* of an absolute target; data NULL: it has none */
	struct str host, length, encoding;
	unsigned hosts, lengths, encodings;
	uint32_t fields;
};

static bool is_target_byte(char c, bool in_query)
{
	if (c <= ' ' || c >= 0x7f)
		return false;
	if (c == '\\')
		return in_query;
	return c != '"' && c != '#' && c != '<' && c != '>';
}

static enum head_fault check_target(struct str target, struct finding *found)
{
	bool in_query = false;

	if (target.length > HEAD_TARGET_MAX)
		return HEAD_TARGET_TOO_LONG;
	for (size_t i = 0; i < target.length; i++) {
		in_query |= target.data[i] == '?';
		if (!is_target_byte(target.data[i], in_query))
			return HEAD_BAD_TARGET;
	}
	if (str_starts(target, "/"))
		return HEAD_OK;
	if (str_is(target, "*"))
		return found->is_options ? HEAD_OK : HEAD_BAD_TARGET;

	size_t scheme = str_starts(target, "http://") ? 7 : str_starts(target, "https://") ? 8 : 0;
	if (scheme == 0)
		return HEAD_BAD_TARGET;
	struct str authority = { target.data + scheme, target.length - scheme };
	size_t length = 0;
	while (length < authority.length && authority.data[length] != '/' &&
	       authority.data[length] != '?')
		length++;
	authority.length = length;

	struct host host;
	if (!host_parse(authority, &host))
		return HEAD_BAD_TARGET;
	found->authority = authority;
	return HEAD_OK;
}

static enum head_fault check_version(struct str version, struct finding *found)
{
	if (!str_starts(version, "HTTP/"))
		return HEAD_BAD_LINE;
	if (!str_is(version, "HTTP/1.1") && !str_is(version, "HTTP/1.0"))
		return HEAD_BAD_VERSION;
	found->minor_version = version.data[7] - '0';
	return HEAD_OK;
}

static enum head_fault check_request_line(struct str line, struct finding *found)
{
	struct str rest;
	struct str method = str_cut(line, ' ', &rest);
	if (!is_token(method))
		return HEAD_BAD_METHOD;
	if (!rest.data)
		return HEAD_BAD_LINE;
	struct str target = str_cut(rest, ' ', &rest);
	if (!rest.data)
		return HEAD_BAD_VERSION; /* HTTP/0.9 had none */

	enum head_fault fault = check_version(rest, found);
	if (fault != HEAD_OK)
		return fault;
	if (!is_known_method(method))
		return HEAD_UNKNOWN_METHOD;
	found->is_options = str_is(method, "OPTIONS");
	return check_target(target, found);
}

static enum head_fault check_status_line(struct str line, struct finding *found)
{
	struct str rest;
	enum head_fault fault = check_version(str_cut(line, ' ', &rest), found);
	if (fault != HEAD_OK)
		return fault;

	/* The reason may be missing, and the blank before it too. */
	uint64_t status;
	if (!str_to_u64(str_cut(rest, ' ', &rest), &status) || status < 100 || status > 599)
		return HEAD_BAD_STATUS;
	found->status = (int)status;
	return HEAD_OK;
}

static enum head_fault check_field(struct str line, struct finding *found)
{
	struct str value;

	if (line.data[0] == ' ' || line.data[0] == '\t')
		return HEAD_FOLD;
	if (++found->fields > HEAD_FIELDS_MAX)
		return HEAD_TOO_MANY_FIELDS;
	struct str name = str_cut(line, ':', &value);
	if (!value.data)
		return HEAD_NO_COLON;
	if (name.length > 0 && str_trim(name).length != name.length)
		return HEAD_BLANK_BEFORE_COLON;
	if (!is_token(name))
		return HEAD_BAD_NAME;

	value = str_trim(value);
	if (str_equal_nocase(name, STR("host"))) {
		found->hosts++;
		found->host = value;
	} else if (str_equal_nocase(name, STR("content-length"))) {
		found->lengths++;
		found->length = value;
	} else if (str_equal_nocase(name, STR("transfer-encoding"))) {
		found->encodings++;
		found->encoding = value;
	}
	return HEAD_OK;
}

/* Two names of one place: "a" and "A:80" are, where 80 is what the scheme means anyway. */
static bool names_same_host(struct str target_authority, struct str sent)
{
	struct host a, b;

	if (!host_parse(target_authority, &a) || !host_parse(sent, &b))
		return false;
	/* "https://" or "http://" stands just before the authority. */
	int usual = target_authority.data[-4] == 's' ? 443 : 80;
	int a_port = a.port < 0 ? usual : a.port;
	int b_port = b.port < 0 ? usual : b.port;
	return a_port == b_port && a.is_ipv6 == b.is_ipv6 && str_equal_nocase(a.name, b.name);
}

static enum head_fault check_host(const struct finding *found, enum head_kind kind)
{
	struct host host;

	if (kind == HEAD_RESPONSE)
		return HEAD_OK;
	if (found->hosts > 1)
		return HEAD_DUPLICATE_HOST;
	if (kind == HEAD_REQUEST_TCP) {
		if (found->hosts == 0)
			return HEAD_NO_HOST;
		if (!host_parse(found->host, &host))
			return HEAD_BAD_HOST;
	}
	if (found->authority.data && found->hosts == 1 &&
	    !names_same_host(found->authority, found->host))
		return HEAD_HOST_DISAGREES;
	return HEAD_OK;
}

static bool is_digits(struct str text)
{
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return text.length > 0;
}

static enum head_fault check_lengths(const struct finding *found, int64_t *out_length)
{
	uint64_t length = 0;

	*out_length = -1;
	if (found->lengths > 0 && found->encodings > 0)
		return HEAD_BOTH_LENGTHS;
	if (found->lengths > 1)
		return HEAD_DUPLICATE_LENGTH;
	if (found->encodings > 1)
		return HEAD_DUPLICATE_ENCODING;
	if (found->encodings == 1) {
		if (found->minor_version == 0)
			return HEAD_ENCODING_IN_1_0;
		return str_equal_nocase(found->encoding, STR("chunked")) ? HEAD_OK
		                                                         : HEAD_BAD_ENCODING;
	}
	if (found->lengths == 0)
		return HEAD_OK;
	if (!is_digits(found->length))
		return HEAD_BAD_LENGTH;
	if (!str_to_u64(found->length, &length) || length > INT64_MAX)
		return HEAD_LENGTH_TOO_LARGE;
	*out_length = (int64_t)length;
	return HEAD_OK;
}

/* The lines in their order, up to the empty one. */
static enum head_fault check_lines(struct str head, enum head_kind kind, struct finding *found)
{
	struct str line;

	if (!next_line(&head, &line))
		return HEAD_INCOMPLETE;
	enum head_fault fault = kind == HEAD_RESPONSE ? check_status_line(line, found)
	                                              : check_request_line(line, found);
	while (fault == HEAD_OK) {
		if (!next_line(&head, &line))
			return HEAD_INCOMPLETE;
		if (line.length == 0)
			return head.length == 0 ? HEAD_OK : HEAD_INCOMPLETE;
		fault = check_field(line, found);
	}
	return fault;
}

enum head_fault head_check(struct str head, enum head_kind kind, struct head_facts *facts)
{
	struct finding found = { 0 };
	int64_t length;

	if (head.length > HEAD_BYTES_MAX)
		return HEAD_TOO_LARGE;
	enum head_fault fault = check_first_byte(head);
	if (fault == HEAD_OK)
		fault = check_bytes(head);
	if (fault == HEAD_OK)
		fault = check_lines(head, kind, &found);
	if (fault == HEAD_OK)
		fault = check_host(&found, kind);
	if (fault == HEAD_OK)
		fault = check_lengths(&found, &length);
	if (fault == HEAD_OK && facts)
		*facts = (struct head_facts){
			.minor_version = found.minor_version,
			.status = found.status,
			.content_length = length,
			.chunked = found.encodings == 1,
			.fields = found.fields,
		};
	return fault;
}
