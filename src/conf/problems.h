#ifndef CONF_PROBLEMS_H
#define CONF_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * problems - what is wrong with a file, and where.
 *
 * Each is one line, "path:line:column: error: what; try: what instead", lines
 * and columns from 1. The first 32 are kept and the rest are counted: whoever
 * mended 32 runs the check again anyway. They print in the order of the file,
 * whatever the order in which they were found; what is only not built yet comes
 * behind all mistakes, and hides none of them.
 */
enum { PROBLEMS_MAX = 32 };

struct place {
	uint32_t line, column; /* 0 = the file as a whole */
};

enum problem_kind {
	PROBLEM_ERROR,
	PROBLEM_WARNING,
	PROBLEM_UNBUILT, /* refused as an error is; what it says is no mistake, so the rest is looked at all the same */
};

struct problem {
	struct place at;
	enum problem_kind kind;
	char *text;
};

struct problems {
	const char *path; /* borrowed */
	struct problem items[PROBLEMS_MAX];
	size_t count;
	size_t more;    /* not kept */
	size_t errors;  /* of all */
	size_t unbuilt; /* of all */
};

void problem_error(struct problems *problems, struct place at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void problem_warn(struct problems *problems, struct place at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void problem_unbuilt(struct problems *problems, struct place at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* How many there are that the file is refused for. */
size_t problems_refusing(const struct problems *problems);

/* Write them out, sorted, and free what they hold. `out` may be NULL. */
void problems_finish(struct problems *problems, struct buf *out);

/* What a file said, fit for a message: cut short, control bytes shown as '?'. Returns `out`. */
enum { EXCERPT = 64 };
const char *excerpt(char out[EXCERPT], struct str text);

#endif
