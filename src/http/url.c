#include "http/url.h"

#include <string.h>

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte that the escape at `at` stands for; -1 where it is none. */
static int escaped_byte(struct str text, size_t at)
{
	if (text.length - at < 3)
		return -1;
	int high = hex_value(text.data[at + 1]), low = hex_value(text.data[at + 2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool decode(struct str text, bool plus_is_blank, char *out, size_t out_bytes)
{
	size_t length = 0;

	for (size_t i = 0; i < text.length; i++) {
		int byte = (unsigned char)text.data[i];
		if (byte == '%') {
			byte = escaped_byte(text, i);
			i += 2;
		} else if (byte == '+' && plus_is_blank) {
			byte = ' ';
		}
		if (byte <= 0 || length + 1 >= out_bytes)
			return false;
		out[length++] = (char)byte;
	}
	if (length >= out_bytes)
		return false;
	out[length] = '\0';
	return true;
}

bool url_decode(struct str text, char *out, size_t out_bytes)
{
	return decode(text, false, out, out_bytes);
}

static bool is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool url_encode(struct str text, char *out, size_t out_bytes)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t length = 0;

	for (size_t i = 0; i < text.length; i++) {
		unsigned char byte = (unsigned char)text.data[i];
		bool is_plain = is_alphanumeric((char)byte) || (byte && strchr("-._~", byte));
		if (length + (is_plain ? 1 : 3) >= out_bytes)
			return false;
		if (is_plain) {
			out[length++] = (char)byte;
			continue;
		}
		out[length++] = '%';
		out[length++] = digits[byte >> 4];
		out[length++] = digits[byte & 15];
	}
	if (length >= out_bytes)
		return false;
	out[length] = '\0';
	return true;
}

bool url_parameter(struct str query, const char *name, char *out, size_t out_bytes)
{
	char decoded[64];

	while (query.length > 0) {
		struct str value;
		struct str key = str_cut(str_cut(query, '&', &query), '=', &value);
		if (decode(key, true, decoded, sizeof(decoded)) && strcmp(decoded, name) == 0)
			return decode(value, true, out, out_bytes);
	}
	return false;
}

/* Behind these the next segment is a name of ours, which may hold an escaped slash. */
static bool names_something(struct str path, size_t segment_at)
{
	static const char *const before[] = { "/v1/models/", "/api/v1/models/", "/api/v1/why/",
		                              "/upstream/" };
	struct str lead = { path.data, segment_at };

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		if (str_is(lead, before[i]))
			return true;
	return false;
}

/* One segment: its bytes, and whether it is "." or ".." however it is written. */
static const char *segment_fault(struct str segment, bool slash_allowed)
{
	size_t dots = 0, length = 0;

	for (size_t i = 0; i < segment.length; i++, length++) {
		int byte = (unsigned char)segment.data[i];
		if (byte == '%') {
			byte = escaped_byte(segment, i);
			i += 2;
			if (byte < 0)
				return "a '%' in the path is not followed by two hex digits";
			if (byte == '/' && !slash_allowed)
				return "an escaped '/' in the path";
		}
		if (byte < 0x20 || byte == 0x7f)
			return "a control byte in the path";
		if (byte == '\\')
			return "a '\\' in the path";
		dots += byte == '.';
	}
	return length > 0 && length <= 2 && dots == length ? "a '.' or '..' in the path" : NULL;
}

const char *url_path_fault(struct str path)
{
	if (!str_starts(path, "/"))
		return "the path does not begin with '/'";
	for (size_t at = 1;;) {
		struct str rest;
		struct str segment =
		        str_cut((struct str){ path.data + at, path.length - at }, '/', &rest);
		if (segment.length == 0 && rest.data)
			return "an empty segment in the path";
		const char *fault = segment_fault(segment, names_something(path, at));
		if (fault || !rest.data)
			return fault;
		at += segment.length + 1;
	}
}

struct str url_segment(struct str path, unsigned index)
{
	struct str rest = { path.data + 1, path.length - 1 };

	if (!str_starts(path, "/"))
		return (struct str){ NULL, 0 };
	for (unsigned i = 0;; i++) {
		struct str segment = str_cut(rest, '/', &rest);
		if (i == index)
			return segment;
		if (!rest.data)
			return (struct str){ NULL, 0 };
	}
}

struct str url_after_segments(struct str path, unsigned count)
{
	for (; count > 0 && path.length > 0; count--) {
		struct str rest;
		str_cut((struct str){ path.data + 1, path.length - 1 }, '/', &rest);
		path = rest.data ? (struct str){ rest.data - 1, rest.length + 1 } : STR("");
	}
	return path;
}

static bool port_parse(struct str text, int *out_port)
{
	uint64_t port;

	if (text.length > 5 || !str_to_u64(text, &port) || port > 65535)
		return false;
	*out_port = (int)port;
	return true;
}

static bool is_ipv6_byte(char c)
{
	return hex_value(c) >= 0 || c == ':' || c == '.';
}

static bool is_name_byte(char c)
{
	return is_alphanumeric(c) || c == '-' || c == '.' || c == '_';
}

static bool all_bytes(struct str text, bool (*is_allowed)(char))
{
	for (size_t i = 0; i < text.length; i++)
		if (!is_allowed(text.data[i]))
			return false;
	return text.length > 0;
}

bool host_parse(struct str text, struct host *out)
{
	struct host host = { .port = -1 };
	struct str port = { NULL, 0 };

	if (str_starts(text, "[")) {
		struct str inside = { text.data + 1, text.length - 1 };
		host.is_ipv6 = true;
		host.name = str_cut(inside, ']', &port);
		if (!port.data || !all_bytes(host.name, is_ipv6_byte))
			return false;
		if (port.length > 0 && port.data[0] != ':')
			return false;
		port = port.length > 0 ? (struct str){ port.data + 1, port.length - 1 }
		                       : (struct str){ NULL, 0 };
	} else {
		host.name = str_cut(text, ':', &port);
		if (!all_bytes(host.name, is_name_byte))
			return false;
	}
	if (port.data && !port_parse(port, &host.port))
		return false;
	*out = host;
	return true;
}

bool host_matches(struct str sent, struct str allowed)
{
	struct host a, b;

	if (!host_parse(sent, &a) || !host_parse(allowed, &b))
		return false;
	if (a.is_ipv6 != b.is_ipv6 || !str_equal_nocase(a.name, b.name))
		return false;
	return b.port < 0 || a.port == b.port;
}

bool origin_parse(struct str text, struct origin *out)
{
	struct origin origin;
	struct str rest;

	origin.scheme = str_cut(text, ':', &rest);
	if (!all_bytes(origin.scheme, is_alphanumeric) || !str_starts(rest, "//"))
		return false;
	if (!host_parse((struct str){ rest.data + 2, rest.length - 2 }, &origin.host))
		return false;
	bool is_http = str_equal_nocase(origin.scheme, STR("http"));
	bool is_https = str_equal_nocase(origin.scheme, STR("https"));
	origin.port = origin.host.port >= 0 ? origin.host.port : is_http ? 80 : is_https ? 443 : -1;
	*out = origin;
	return true;
}

static bool origin_equal(const struct origin *a, const struct origin *b)
{
	return str_equal_nocase(a->scheme, b->scheme) && a->port == b->port &&
	       a->host.is_ipv6 == b->host.is_ipv6 && str_equal_nocase(a->host.name, b->host.name);
}

bool origin_is_same(struct str origin, struct str sent_host, bool tls)
{
	struct origin page, here = { .scheme = tls ? STR("https") : STR("http") };

	if (!origin_parse(origin, &page) || !host_parse(sent_host, &here.host))
		return false;
	here.port = here.host.port >= 0 ? here.host.port : tls ? 443 : 80;
	return origin_equal(&page, &here);
}

bool origin_matches(struct str origin, struct str allowed)
{
	struct origin a, b;

	if (!origin_parse(origin, &a))
		return false;
	return str_is(allowed, "*") || (origin_parse(allowed, &b) && origin_equal(&a, &b));
}
