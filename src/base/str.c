#include "base/str.h"

#include <limits.h>
#include <assert.h>
#include <string.h>

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_equal_nocase(struct str a, struct str b)
{
	if (a.length != b.length)
		return false;
	for (size_t i = 0; i < a.length; i++)
		if (lower(a.data[i]) != lower(b.data[i]))
			return false;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct str str_trim(struct str a)
{
	while (a.length && is_blank(a.data[0])) {
		a.data++;
		a.length--;
	}
	while (a.length && is_blank(a.data[a.length - 1]))
		a.length--;
	return a;
}

struct str str_cut(struct str a, char separator, struct str *rest)
{
	const char *at = a.length ? memchr(a.data, separator, a.length) : NULL;
	if (!at) {
		*rest = (struct str){ NULL, 0 };
		return a;
	}
	size_t length = (size_t)(at - a.data);
	*rest = (struct str){ at + 1, a.length - length - 1 };
	return (struct str){ a.data, length };
}

bool str_cut_port(struct str authority, struct str *name, struct str *port)
{
	struct str rest;

	if (!str_starts(authority, "[")) {
		*name = str_cut(authority, ':', port);
		return true;
	}
	*name = str_cut((struct str){ authority.data + 1, authority.length - 1 }, ']', &rest);
	str_cut(rest, ':', port);
	return rest.data && (rest.length == 0 || rest.data[0] == ':');
}

bool str_to_u64(struct str a, uint64_t *out)
{
	uint64_t value = 0;

	if (a.length == 0)
		return false;
	for (size_t i = 0; i < a.length; i++) {
		if (a.data[i] < '0' || a.data[i] > '9')
			return false;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(a.data[i] - '0'), &value))
			return false;
	}
	*out = value;
	return true;
}

char *str_put_u64(char *out, uint64_t value)
{
	size_t length = 1;

	for (uint64_t rest = value / 10; rest; rest /= 10)
		length++;
	out[length] = '\0';
	for (size_t i = length; i-- > 0; value /= 10)
		out[i] = (char)('0' + value % 10);
	return out + length;
}

const char *str_put_numbered(char *out, size_t out_bytes, const char *lead, uint64_t number)
{
	size_t length = strlen(lead);

	assert(length + 1 + STR_U64_BYTES <= out_bytes);
	memcpy(out, lead, length);
	out[length] = '-';
	str_put_u64(out + length + 1, number);
	return out;
}

uint64_t str_hash(struct str a)
{
	uint64_t hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < a.length; i++)
		hash = (hash ^ (unsigned char)a.data[i]) * 0x100000001b3u;
	return hash;
}

bool str_copy(char *out, size_t out_bytes, struct str a)
{
	size_t length = a.length < out_bytes ? a.length : out_bytes - 1;
	if (length)
		memcpy(out, a.data, length);
	out[length] = '\0';
	return length == a.length;
}

enum { DISTANCE_MAX = 64 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;
	return least < c ? least : c;
}

/* To the last "@": a password may hold what else would end a host's name. */
static char *hide_one(char *from)
{
	char *at = NULL, *end = from;

	for (; *end && !strchr(" \t\r\n\"'<>", *end); end++)
		if (*end == '@')
			at = end;
	if (!at)
		return end;
	size_t length = (size_t)(at - from), shown = length < 3 ? length : 3;
	memset(from, '*', shown);
	memmove(from + shown, at, strlen(at) + 1);
	return from + shown;
}

char *str_hide_passwords(char *text)
{
	for (char *at = strstr(text, "://"); at; at = strstr(at, "://"))
		at = hide_one(at + 3);
	return text;
}

unsigned str_distance(struct str a, struct str b)
{
	unsigned rows[3][DISTANCE_MAX + 1];
	size_t a_length = a.length < DISTANCE_MAX ? a.length : DISTANCE_MAX;
	size_t b_length = b.length < DISTANCE_MAX ? b.length : DISTANCE_MAX;

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			char ca = lower(a.data[i - 1]), cb = lower(b.data[j - 1]);
			row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (ca != cb));
			bool swapped = i > 1 && j > 1 && ca == lower(b.data[j - 2]) &&
			               lower(a.data[i - 2]) == cb;
			if (swapped && above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return rows[a_length % 3][b_length];
}

/* ASCII case ignored, as str_distance() does. */
static bool holds(struct str whole, struct str part)
{
	for (size_t i = 0; i + part.length <= whole.length; i++)
		if (str_equal_nocase((struct str){ whole.data + i, part.length }, part))
			return true;
	return false;
}

enum { BEGINNING_MIN = 2, PART_MIN = 3 };

unsigned str_mistakes(struct str name, struct str candidate)
{
	bool is_shorter = name.length < candidate.length;
	struct str shorter = is_shorter ? name : candidate, longer = is_shorter ? candidate : name;
	unsigned most = 1 + (unsigned)(shorter.length / 5), distance = str_distance(name, candidate);

	if (distance <= most && distance < shorter.length)
		return distance;
	bool begins = shorter.length >= BEGINNING_MIN && str_distance(shorter, (struct str){ longer.data, shorter.length }) == 0;
	return begins || (shorter.length >= PART_MIN && holds(longer, shorter)) ? most : UINT_MAX;
}

const char *str_nearer(struct str name, const char *best, const char *candidate)
{
	unsigned of_candidate = str_mistakes(name, str_from(candidate));

	if (of_candidate == UINT_MAX || (best && str_mistakes(name, str_from(best)) <= of_candidate))
		return best;
	return candidate;
}
