#ifndef HTTP_MULTIPART_H
#define HTTP_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "http/body_facts.h"

/*
 * multipart - reads a form with files as it arrives, for the few fields that matter.
 *
 * An upload can be a long recording and the loop must not stop for it: the
 * scanner is fed slices of any size and keeps a few kilobytes of state. It
 * notes `model`, `stream` and `size` (body_facts.h) and looks at nothing else of the
 * parts; the body itself goes to the engine as it came.
 *
 * What two readers could read in two ways is refused: lines that end without
 * CRLF, anything but CRLF or "--" behind a boundary, bytes before the first one,
 * a part's name said twice, a noted field that comes twice. Names are compared
 * as they are written; what stands behind the closing boundary is not read.
 */
enum {
	MULTIPART_BOUNDARY_MAX = 70,   /* RFC 2046 */
	MULTIPART_LINE_MAX = 4096,     /* of a part's head */
	MULTIPART_HEAD_MAX = 16 * 1024,
	MULTIPART_PARTS_MAX = 4096,
};

struct multipart {
	struct body_facts facts;
	uint64_t offset;     /* bytes taken; with a fault, about where it is */
	/* private */
	const char *fault;   /* NULL: none yet */
	uint8_t state;
	uint8_t field;       /* whose value is being read */
	uint8_t seen;        /* fields noted, one bit each */
	bool named;          /* this part's name was said */
	bool is_file;
	bool too_long;
	uint32_t parts;
	uint32_t head_bytes; /* of this part */
	uint32_t length;     /* of text */
	uint32_t matched;    /* bytes of delimiter seen */
	uint32_t borrowed;   /* of these, the ones that stood before the value */
	uint32_t delimiter_length;
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CRLF, "--", boundary */
	char text[MULTIPART_LINE_MAX];
};

/*
 * The boundary of a Content-Type; false: it is not multipart/form-data. A form
 * whose boundary is missing or bad gives true and an empty boundary.
 */
bool multipart_boundary(struct str content_type, char out[MULTIPART_BOUNDARY_MAX + 1]);

/* With an empty boundary every body is wrong. */
void multipart_init(struct multipart *form, const char *boundary);

/* The next bytes. False where the form is wrong; it stays wrong. */
bool multipart_feed(struct multipart *form, struct str bytes);

/* No more bytes. False where the form is wrong or cut short. Then the facts are complete. */
bool multipart_end(struct multipart *form);

/* After false: what is wrong and where. */
enum { MULTIPART_TEXT = 160 };
const char *multipart_explain(const struct multipart *form, char out[MULTIPART_TEXT]);

#endif
