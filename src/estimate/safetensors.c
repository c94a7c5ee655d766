#include "estimate/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estimate/bounded.h"

enum { WINDOW = 32 * 1024, FRONT = 8 };

static const struct {
	const char *name;
	uint32_t bits;
} types[] = {
	{ "BOOL", 8 }, { "U8", 8 },   { "I8", 8 },   { "F8_E5M2", 8 }, { "F8_E4M3", 8 }, { "F8_E8M0", 8 },
	{ "F4", 4 },   { "I16", 16 }, { "U16", 16 }, { "F16", 16 },    { "BF16", 16 },   { "I32", 32 },
	{ "U32", 32 }, { "F32", 32 }, { "F64", 64 }, { "I64", 64 },    { "U64", 64 },
};

struct place {
	int64_t begin, end;
	uint64_t name; /* hash */
};

struct walk {
	const struct byte_source *source;
	uint64_t position; /* of the next byte in the file */
	uint64_t end;      /* of the header */
	uint64_t window_start;
	uint32_t window_length;
	struct err *err;
	int code;          /* 0, or why nothing more is read */
	struct place *places;
	size_t count, room;
	char text[SAFETENSORS_NAME_MOST + 1];
	unsigned char window[WINDOW];
};

static int wrong(struct walk *walk, const char *what)
{
	if (walk->code == 0)
		walk->code = err_set(walk->err, -EBADMSG, "its header is broken at byte %" PRIu64 ": %s",
		                     walk->position, what);
	return walk->code;
}

static int fill(struct walk *walk)
{
	uint64_t left = walk->end - walk->position;
	uint32_t length = left < WINDOW ? (uint32_t)left : WINDOW;
	int code = walk->source->read(walk->source->ctx, walk->position, walk->window, length);

	if (code < 0)
		walk->code = err_set(walk->err, code, "cannot be read: %s", strerror(-code));
	walk->window_start = walk->position;
	walk->window_length = length;
	return code;
}

/* The next byte of the header without taking it; -1: there is none. */
static int peek(struct walk *walk)
{
	if (walk->code < 0 || walk->position == walk->end)
		return -1;
	if (walk->position >= walk->window_start + walk->window_length && fill(walk) < 0)
		return -1;
	return walk->window[walk->position - walk->window_start];
}

static int take(struct walk *walk)
{
	int byte = peek(walk);

	if (byte >= 0)
		walk->position++;
	return byte;
}

static int peek_behind_blanks(struct walk *walk)
{
	int byte;

	while ((byte = peek(walk)) == ' ' || byte == '\n' || byte == '\r' || byte == '\t')
		walk->position++;
	return byte;
}

static int expect(struct walk *walk, char wanted)
{
	if (peek_behind_blanks(walk) != wanted)
		return wrong(walk, wanted == ':'   ? "a ':' is missing"
		                   : wanted == '[' ? "a list is missing"
		                   : wanted == '{' ? "an object is missing"
		                                   : "something is missing");
	walk->position++;
	return 0;
}

/* Into walk->text, cut where it is longer; the hash is of all of it. */
static int take_text(struct walk *walk, uint64_t *hash)
{
	size_t length = 0;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	int byte;

	if (peek_behind_blanks(walk) != '"')
		return wrong(walk, "a text is missing");
	walk->position++;
	while ((byte = take(walk)) != '"') {
		if (byte < ' ')
			return wrong(walk, "a text does not end");
		sum = (sum ^ (uint64_t)byte) * UINT64_C(0x100000001b3);
		if (length < SAFETENSORS_NAME_MOST)
			walk->text[length++] = (char)byte;
		if (byte == '\\') {
			byte = take(walk);
			if (byte < ' ')
				return wrong(walk, "a text does not end");
			sum = (sum ^ (uint64_t)byte) * UINT64_C(0x100000001b3);
			if (length < SAFETENSORS_NAME_MOST)
				walk->text[length++] = (char)byte;
		}
	}
	walk->text[length] = '\0';
	if (hash)
		*hash = sum;
	return 0;
}

static int take_number(struct walk *walk, int64_t *out)
{
	int64_t number = 0;
	int digits = 0;

	for (int byte = peek_behind_blanks(walk); byte >= '0' && byte <= '9'; byte = peek(walk)) {
		number = bounded_sum(bounded_product(number, 10), byte - '0');
		walk->position++;
		digits++;
	}
	if (digits == 0)
		return wrong(walk, "a whole number is missing");
	if (number == BOUNDED_MOST)
		return wrong(walk, "a number makes no sense");
	*out = number;
	return 0;
}

/* ',' : 1, `close` : 0, else wrong. */
static int take_comma(struct walk *walk, char close)
{
	int byte = peek_behind_blanks(walk);

	if (byte != ',' && byte != close)
		return wrong(walk, "a ',' is missing");
	walk->position++;
	return byte == ',';
}

static int take_numbers(struct walk *walk, int64_t *out, uint32_t most, uint32_t *count)
{
	int more = expect(walk, '[');

	*count = 0;
	if (more == 0 && peek_behind_blanks(walk) == ']') {
		walk->position++;
		return 0;
	}
	while (more >= 0) {
		if (*count == most)
			return wrong(walk, "a list is too long");
		if (take_number(walk, &out[*count]) < 0)
			return walk->code;
		++*count;
		more = take_comma(walk, ']');
		if (more == 0)
			return 0;
	}
	return walk->code;
}

/* Any value that does not matter, to a small depth. */
static int skip_value(struct walk *walk)
{
	uint32_t depth = 0;

	do {
		int byte = peek_behind_blanks(walk);
		if (byte < 0)
			return wrong(walk, "it ends too early");
		if (byte == '"') {
			if (take_text(walk, NULL) < 0)
				return walk->code;
		} else {
			walk->position++;
			if (byte == '{' || byte == '[')
				depth++;
			else if ((byte == '}' || byte == ']') && depth-- == 0)
				return wrong(walk, "a value is missing");
			if (depth > SAFETENSORS_DEPTH_MOST)
				return wrong(walk, "it is nested too deep");
		}
		if (depth == 0) {
			int next = peek_behind_blanks(walk);
			if (next == ',' || next == '}')
				return 0;
		}
	} while (walk->code == 0);
	return walk->code;
}

/* ---- one tensor ---- */

static int take_type(struct walk *walk, struct safetensor *tensor)
{
	if (take_text(walk, NULL) < 0)
		return walk->code;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(walk->text, types[i].name) == 0) {
			tensor->type = types[i].name;
			tensor->bits = types[i].bits;
			return 0;
		}
	return wrong(walk, "a type that is not known");
}

static int take_fields(struct walk *walk, struct safetensor *tensor, int64_t place[2])
{
	uint32_t seen = 0, places = 0;
	int more = expect(walk, '{');

	while (more >= 0) {
		if (take_text(walk, NULL) < 0 || (peek_behind_blanks(walk) != ':' && wrong(walk, "a ':' is missing")))
			return walk->code;
		uint32_t field = strcmp(walk->text, "dtype") == 0          ? 1
		                 : strcmp(walk->text, "shape") == 0        ? 2
		                 : strcmp(walk->text, "data_offsets") == 0 ? 4
		                                                           : 0;
		walk->position++;
		if (field & seen)
			return wrong(walk, "a field comes twice");
		seen |= field;
		int code = field == 1   ? take_type(walk, tensor)
		           : field == 2 ? take_numbers(walk, tensor->extent, SAFETENSORS_DIMENSIONS_MOST,
		                                       &tensor->dimensions)
		           : field == 4 ? take_numbers(walk, place, 2, &places)
		                        : skip_value(walk);
		if (code < 0)
			return code;
		more = take_comma(walk, '}');
		if (more == 0)
			break;
	}
	if (walk->code == 0 && (seen != 7 || places != 2))
		return wrong(walk, "a tensor lacks its type, shape or place");
	return walk->code;
}

static int keep_place(struct walk *walk, const int64_t place[2], uint64_t name)
{
	if (walk->count == SAFETENSORS_TENSORS_MOST)
		return wrong(walk, "too many tensors");
	if (walk->count == walk->room) {
		walk->room = walk->room ? 2 * walk->room : 256;
		walk->places = xrealloc(walk->places, walk->room * sizeof(*walk->places));
	}
	walk->places[walk->count++] = (struct place){ place[0], place[1], name };
	return 0;
}

static int take_tensor(struct walk *walk, struct safetensor *tensor, uint64_t name)
{
	int64_t place[2] = { 0, 0 };

	if (take_fields(walk, tensor, place) < 0)
		return walk->code;
	tensor->elements = 1;
	for (uint32_t i = 0; i < tensor->dimensions; i++)
		tensor->elements = bounded_product(tensor->elements, tensor->extent[i]);
	int64_t bits = bounded_product(tensor->elements, tensor->bits);
	tensor->bytes = bits / 8;
	if (bits == BOUNDED_MOST || bits % 8 || place[1] < place[0] || place[1] - place[0] != tensor->bytes)
		return wrong(walk, "a tensor's place is not as long as its shape says");
	return keep_place(walk, place, name);
}

/* ---- all of them ---- */

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->name < y->name ? -1 : x->name > y->name;
}

static int check_places(struct walk *walk, struct safetensors_summary *out)
{
	int64_t end = 0;

	if (walk->count == 0)
		return 0;
	qsort(walk->places, walk->count, sizeof(*walk->places), by_name);
	for (size_t i = 1; i < walk->count; i++)
		if (walk->places[i].name == walk->places[i - 1].name)
			return err_set(walk->err, -EBADMSG, "a tensor occurs twice");
	qsort(walk->places, walk->count, sizeof(*walk->places), by_place);
	for (size_t i = 0; i < walk->count; i++) {
		if (walk->places[i].begin != end)
			return err_set(walk->err, -EBADMSG,
			               walk->places[i].begin < end ? "its tensors overlap at byte %" PRId64 " of the data"
			                                           : "a hole in its data, from byte %" PRId64,
			               walk->places[i].begin < end ? walk->places[i].begin : end);
		end = walk->places[i].end;
	}
	out->data_bytes = end;
	return 0;
}

static int walk_header(struct walk *walk, void (*visit)(void *ctx, const struct safetensor *tensor), void *ctx)
{
	char name[SAFETENSORS_NAME_MOST + 1];
	uint64_t hash;
	int more = expect(walk, '{');

	if (more == 0 && peek_behind_blanks(walk) == '}') {
		walk->position++;
		more = -1;
	}
	while (more >= 0) {
		if (take_text(walk, &hash) < 0)
			return walk->code;
		memcpy(name, walk->text, sizeof(name));
		if (expect(walk, ':') < 0)
			return walk->code;
		if (strcmp(name, "__metadata__") == 0) {
			if (skip_value(walk) < 0)
				return walk->code;
		} else {
			struct safetensor tensor = { .name = str_from(name) };
			if (take_tensor(walk, &tensor, hash) < 0)
				return walk->code;
			visit(ctx, &tensor);
		}
		more = take_comma(walk, '}');
		if (more == 0)
			break;
	}
	if (walk->code == 0 && peek_behind_blanks(walk) >= 0)
		return wrong(walk, "something stands behind it");
	return walk->code;
}

static int header_end(const struct byte_source *source, uint64_t *out, struct err *err)
{
	unsigned char raw[FRONT];
	uint64_t length = 0;

	if (source->size < FRONT)
		return err_set(err, -ENODATA, "cut short in its header: at least %" PRIu64 " bytes are missing",
		               FRONT - source->size);
	int code = source->read(source->ctx, 0, raw, FRONT);
	if (code < 0)
		return err_set(err, code, "cannot be read: %s", strerror(-code));
	for (int i = FRONT - 1; i >= 0; i--)
		length = length << 8 | raw[i];
	if (length > SAFETENSORS_HEADER_MOST)
		return err_set(err, -EBADMSG, "a header of %" PRIu64 " bytes makes no sense", length);
	if (length > source->size - FRONT)
		return err_set(err, -ENODATA, "cut short in its header: at least %" PRIu64 " bytes are missing",
		               length - (source->size - FRONT));
	*out = FRONT + length;
	return 0;
}

int safetensors_walk(const struct byte_source *source,
                     void (*visit)(void *ctx, const struct safetensor *tensor), void *ctx,
                     struct safetensors_summary *out, struct err *err)
{
	uint64_t end = 0;
	int code = header_end(source, &end, err);

	memset(out, 0, sizeof(*out));
	if (code < 0)
		return code;
	struct walk *walk = xcalloc(1, sizeof(*walk));
	*walk = (struct walk){ .source = source, .position = FRONT, .end = end, .err = err };
	code = walk_header(walk, visit, ctx);
	if (code == 0)
		code = check_places(walk, out);
	out->tensors = (int64_t)walk->count;
	int64_t there = (int64_t)(source->size - end);
	out->missing_bytes = out->data_bytes > there ? out->data_bytes - there : 0;
	free(walk->places);
	free(walk);
	return code;
}
