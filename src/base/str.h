#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * str - a borrowed piece of text: a pointer and a length, no terminator.
 *
 * It owns nothing and is valid as long as the bytes it points into; never keep
 * one past the owner's next call. The bytes may be anything, NUL included.
 */
struct str {
	const char *data;
	size_t length;
};

/* A literal as str, the length counted by the compiler. */
#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
/* For printf("%.*s", STR_ARG(s)); texts over INT_MAX are not printed this way. */
#define STR_ARG(s) (int)(s).length, (s).data

/*
 * Those that compare are inline, so that the length of a literal is the compiler's to
 * count: names of fields and keys are compared a thousand times in a request.
 */
static inline struct str str_from(const char *text)
{
	return text ? (struct str){ text, strlen(text) } : (struct str){ NULL, 0 };
}

static inline bool str_equal(struct str a, struct str b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool str_is(struct str a, const char *text)
{
	return str_equal(a, str_from(text));
}

static inline bool str_starts(struct str a, const char *prefix)
{
	size_t length = strlen(prefix);
	return a.length >= length && memcmp(a.data, prefix, length) == 0;
}

static inline bool str_ends(struct str a, const char *suffix)
{
	size_t length = strlen(suffix);
	return a.length >= length && memcmp(a.data + a.length - length, suffix, length) == 0;
}

bool str_equal_nocase(struct str a, struct str b); /* ASCII only */
struct str str_trim(struct str a); /* blanks and tabs at both ends */

/*
 * The part before the first `separator`, and `*rest` what follows it; without
 * one the whole text, and `*rest` becomes {NULL, 0}.
 */
struct str str_cut(struct str a, char separator, struct str *rest);

/*
 * "name:80", "[::1]:80" or either without the port: the name without brackets, and
 * `*port`, empty where there is none. False: a bracket without its other.
 */
bool str_cut_port(struct str authority, struct str *name, struct str *port);

/* A whole decimal number without sign, nothing before or after. False leaves `*out`. */
bool str_to_u64(struct str a, uint64_t *out);

/* Its digits and a terminator; returns where that stands. By hand: printf takes ten times as long. */
enum { STR_U64_BYTES = 21 };
char *str_put_u64(char *out, uint64_t value);
/* "<lead>-<number>" of a lead that leaves room for it; returns `out`. */
const char *str_put_numbered(char *out, size_t out_bytes, const char *lead, uint64_t number);

/* FNV-1a, 64 bits. For tables and stable grouping, never for secrets. */
uint64_t str_hash(struct str a);

/* Copy with a terminator; cut where it does not fit. Returns false if it was cut. */
bool str_copy(char *out, size_t out_bytes, struct str a);

/*
 * Of each address in the text what stands before its "@" becomes "***" (as much of that as there is room for): who
 * writes a name and a password into an address means it for a server, and not for a log. In place; returns `text`.
 */
char *str_hide_passwords(char *text);

/*
 * Edits needed to turn one text into the other (Damerau-Levenshtein with
 * adjacent swaps, ASCII case ignored). Texts over 64 bytes compare by their
 * first 64.
 */
unsigned str_distance(struct str a, struct str b);

/*
 * The nearer of two names that may have been meant by `name`: `best` (NULL: none yet) or
 * `candidate`. A name is near with one mistake and one more for every five bytes of the
 * shorter, or where one begins with the other (of two bytes or more) or holds it (three): a name that nobody would take for the other helps nobody.
 */
const char *str_nearer(struct str name, const char *best, const char *candidate);
/* By how much; UINT_MAX: not near at all. */
unsigned str_mistakes(struct str name, struct str candidate);

#endif
