#include "conf/rules.h"

#include <string.h>

enum { NAME_MAX_BYTES = 200 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c)
{
	return is_letter(c) || is_digit(c) || c == '_';
}

/*
 * No control bytes; what is not ASCII is UTF-8 already, since the file is. Of that no C1 controls, no separators of
 * lines, and nothing that turns the direction of what a terminal or a page shows beside it.
 */
static bool is_printable(struct str text)
{
	const unsigned char *b = (const unsigned char *)text.data;

	for (size_t i = 0; i < text.length; i++) {
		size_t left = text.length - i;
		if (b[i] < 0x20 || b[i] == 0x7F || (b[i] == 0xC2 && left > 1 && b[i + 1] < 0xA0))
			return false;
		if (b[i] == 0xE2 && left > 2 && b[i + 1] == 0x80 && b[i + 2] >= 0xA8 && b[i + 2] <= 0xAE)
			return false; /* U+2028 to U+202E */
		if (b[i] == 0xE2 && left > 2 && b[i + 1] == 0x81 && b[i + 2] >= 0xA6 && b[i + 2] <= 0xA9)
			return false; /* U+2066 to U+2069 */
		if (b[i] == 0xEF && left > 2 && b[i + 1] == 0xBB && b[i + 2] == 0xBF)
			return false; /* U+FEFF */
	}
	return true;
}

/* A client that writes the name into a path takes such parts away: "." and "..", and what is between two slashes and empty. */
static bool is_path_safe(struct str text)
{
	for (struct str rest = text; rest.data;) {
		struct str part = str_cut(rest, '/', &rest);
		if (part.length == 0 || str_is(part, ".") || str_is(part, ".."))
			return false;
	}
	return true;
}

const char *rule_pattern(struct str text)
{
	if (text.length == 0)
		return "a name must not be empty; try: a word, such as chat";
	if (text.length > NAME_MAX_BYTES)
		return "a name may have 200 bytes at most; try: a shorter one";
	if (!is_printable(text) || str_trim(text).length != text.length)
		return "a name must not hold control characters, nor begin or end with a blank; "
		       "try: a word, such as chat";
	if (text.data[0] == '-')
		return "a name must not begin with -, which begins an option of a command; try: a word, such as chat";
	if (!is_path_safe(text))
		return "a name is part of paths: between its slashes must stand something, and not . or ..; "
		       "try: a word, such as chat";
	return NULL;
}

const char *rule_name(struct str text)
{
	if (text.length && memchr(text.data, '*', text.length))
		return "a name must not hold *; try: put the pattern under a model's aliases";
	return rule_pattern(text);
}

const char *rule_host(struct str text)
{
	static const char hint[] = "not a host name; try: a name or address alone, such as ai.lan";
	bool v6 = text.length > 2 && text.data[0] == '[' && text.data[text.length - 1] == ']';

	if (text.length == 0 || text.length > 253)
		return hint;
	for (size_t i = v6; i < text.length - v6; i++) {
		char c = text.data[i];
		if (!is_word(c) && c != '.' && c != '-' && !(v6 && c == ':'))
			return hint;
	}
	return NULL;
}

const char *rule_origin(struct str text)
{
	static const char hint[] =
		"not an origin; try: scheme and host alone, such as https://app.lan or "
		"http://localhost:3000";
	struct str rest = text, port, host;
	uint64_t number;

	if (str_starts(text, "http://"))
		rest = (struct str){ text.data + 7, text.length - 7 };
	else if (str_starts(text, "https://"))
		rest = (struct str){ text.data + 8, text.length - 8 };
	else
		return hint;
	if (rest.length && rest.data[0] == '[') {
		host = str_cut(rest, ']', &port);
		if (!port.data || (port.length && port.data[0] != ':'))
			return hint;
		host.length++; /* the bracket */
		str_cut(port, ':', &port);
	} else {
		host = str_cut(rest, ':', &port);
	}
	if (rule_host(host))
		return hint;
	return port.data && (!str_to_u64(port, &number) || number > 65535) ? hint : NULL;
}

const char *rule_url(struct str text)
{
	static const char hint[] = "not the address of a server; try: http://127.0.0.1:8080, without a path";
	struct str name, port, rest;
	uint64_t number;

	if (text.length && memchr(text.data, '@', text.length))
		return "a name or password before an '@' is not sent to a server; try: http://HOST:PORT alone";
	size_t scheme = str_starts(text, "http://") ? 7 : str_starts(text, "https://") ? 8 : 0;
	if (!scheme)
		return hint;
	struct str authority = str_cut((struct str){ text.data + scheme, text.length - scheme }, '/', &rest);
	if (rest.length || !str_cut_port(authority, &name, &port))
		return hint;
	bool v6 = str_starts(authority, "[");
	if (name.length > 250 || (v6 && (name.length < 2 || memchr(name.data, '%', name.length))))
		return hint;
	if (rule_host(v6 ? (struct str){ name.data - 1, name.length + 2 } : name))
		return hint;
	return port.length && (!str_to_u64(port, &number) || number == 0 || number > 65535) ? hint : NULL;
}

const char *rule_path(struct str text)
{
	static const char hint[] = "not a path; try: one that begins with /, such as /health";

	if (text.length == 0 || text.length > 1024 || text.data[0] != '/')
		return hint;
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7F || text.data[i] == '#')
			return hint;
	return NULL;
}

const char *rule_route(struct str text)
{
	struct str path, method = str_cut(text, ' ', &path);

	if (method.length == 0 || method.length > 16 || rule_path(path))
		return "not a route; try: a method and a path, such as \"POST /tts\"";
	for (size_t i = 0; i < method.length; i++)
		if (method.data[i] < 'A' || method.data[i] > 'Z')
			return "not a route; try: the method in capitals, such as \"POST /tts\"";
	return NULL;
}

const char *rule_says(struct str text)
{
	size_t letters = 0;

	for (size_t i = 0; i < text.length; i++)
		letters += text.data[i] != '*' && text.data[i] != ' ';
	if (letters < 3 || text.length > 200)
		return "not words to look for; try: 3 to 200 bytes, such as \"concise*title\"";
	return NULL;
}

static bool is_identifier(struct str text, const char *also)
{
	if (text.length == 0 || text.length > NAME_MAX_BYTES || is_digit(text.data[0]))
		return false;
	for (size_t i = 0; i < text.length; i++)
		if (!is_word(text.data[i]) && !strchr(also, text.data[i]))
			return false;
	return true;
}

const char *rule_variable(struct str text)
{
	return is_identifier(text, "") ? NULL
	                               : "not the name of an environment variable; try: letters, "
	                                 "digits and _, such as HIP_VISIBLE_DEVICES";
}

bool rule_is_late(struct str macro)
{
	return str_is(macro, "PORT") || str_is(macro, "MODEL") || str_is(macro, "FILE") ||
	       str_is(macro, "SOCKET");
}

const char *rule_macro(struct str text)
{
	if (rule_is_late(text))
		return "PORT, SOCKET, FILE and MODEL are filled in when an engine starts; "
		       "try: another name";
	return is_identifier(text, "-") ? NULL
	                                : "not a macro's name; try: letters, digits, - and _";
}

const char *rule_key(struct str text)
{
	if (str_is(text, "***"))
		return "the secret was hidden when this file was printed; try: \"${env.COTENANT_KEY}\"";
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] <= ' ' || text.data[i] >= 0x7F)
			return "a key is sent in a header: it must be printable ASCII without blanks; "
			       "try: the output of openssl rand -hex 24";
	if (text.length == 0 || text.length > 512)
		return "a key has 1 to 512 bytes; try: the output of openssl rand -hex 24";
	return NULL;
}

static bool is_clock(struct str text)
{
	if (text.length != 5 || text.data[2] != ':')
		return false;
	for (size_t i = 0; i < 5; i++)
		if (i != 2 && !is_digit(text.data[i]))
			return false;
	int hour = (text.data[0] - '0') * 10 + (text.data[1] - '0');
	return hour < 24 && text.data[3] < '6';
}

const char *rule_hours(struct str text)
{
	struct str to, from = str_cut(text, '-', &to);

	return is_clock(from) && is_clock(to) ? NULL
	                                      : "not a span of the day; try: \"03:00-05:00\"";
}
