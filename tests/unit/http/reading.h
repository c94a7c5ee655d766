#ifndef TEST_READING_H
#define TEST_READING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "http/head_check.h"

/*
 * reading - one message read from the front of a stream, by us and by llhttp.
 *
 * The two must come to the same: the same body, ending at the same byte. What
 * differs between them is what smuggled requests are made of.
 */
struct reading {
	enum head_fault fault; /* ours: of the head. llhttp: HEAD_DISAGREEMENT for any fault */
	bool is_complete;      /* head and body, to their end */
	bool is_broken;        /* the body's framing is refused */
	struct buf body;
	size_t consumed; /* with is_complete: bytes of this message */
};

/* As the gateway reads, with bytes arriving `step` at a time. */
void reading_ours(struct reading *out, struct str stream, enum head_kind kind, size_t step);
/* As llhttp alone reads, without any leniency. */
void reading_llhttp(struct reading *out, struct str stream, enum head_kind kind);
void reading_release(struct reading *reading);

bool reading_equal(const struct reading *a, const struct reading *b);

#endif
