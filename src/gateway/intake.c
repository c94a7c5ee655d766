/*
 * In a file the body is written a read at a time, and the client is not read
 * while that goes on: the disk's pace becomes the client's pace.
 */
#include "gateway/intake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/units.h"

enum { RESERVE_MAX = 1024 * 1024, MEMORY_EACH_MAX = 4 * 1024 * 1024 };

void intake_init(struct intake *intake, struct bodies *bodies, enum body_kind kind,
                 int64_t content_length, bool json)
{
	*intake = (struct intake){ .bodies = bodies };
	body_decoder_init(&intake->decoder, kind, content_length);
	if (json && kind != BODY_NONE) {
		intake->scan = xmalloc(sizeof(*intake->scan));
		body_scan_init(intake->scan);
	}
	if (content_length > 0 && content_length <= RESERVE_MAX && content_length <= bodies->each_max)
		buf_reserve(&intake->bytes, (size_t)content_length);
}

void intake_read_form(struct intake *intake, const char *boundary)
{
	intake->form = xmalloc(sizeof(*intake->form));
	multipart_init(intake->form, boundary);
}

void intake_attend(struct intake *intake, void (*on_writable)(void *ctx), void *ctx)
{
	intake->on_writable = on_writable;
	intake->ctx = ctx;
}

static void on_written(void *ctx, int error)
{
	struct intake *intake = ctx;

	intake->writing = false;
	intake->error = error;
	intake->on_writable(intake->ctx);
}

static void start_fetch(struct intake *intake, uint64_t offset, size_t bytes)
{
	intake->fetching = true;
	spill_fetch(intake->spill, offset, bytes);
}

static void on_read(void *ctx, int error, struct str bytes)
{
	struct intake *intake = ctx;
	size_t next_bytes = intake->next_bytes;

	intake->fetching = false;
	intake->next_bytes = 0;
	if (next_bytes)
		start_fetch(intake, intake->next_offset, next_bytes);
	else if (intake->on_fetched)
		intake->on_fetched(intake->ctx, error, bytes);
}

static const struct spill_events spill_events = { on_written, on_read };

/* From memory to the file: what this body held in memory is given back to the others. */
static bool go_to_file(struct intake *intake)
{
	struct bodies *bodies = intake->bodies;
	struct err err;

	intake->spill = spill_open(bodies->loop, bodies->folder, &spill_events, intake, &err);
	if (!intake->spill)
		return false;
	bodies->spill_used += intake->memory_held;
	intake->spill_held = intake->memory_held;
	bodies->memory_used -= intake->memory_held;
	intake->memory_held = 0;
	return true;
}

static bool refuse_for_room(struct failure *failure)
{
	failure_set(failure, 503, "bodies_full",
	            "too many request bodies are waiting; there is no room for this one now");
	failure->retry_after_s = 5;
	return false;
}

static bool make_room(struct intake *intake, int64_t bytes, struct failure *failure)
{
	struct bodies *bodies = intake->bodies;

	bool is_small = intake->memory_held + bytes <= MEMORY_EACH_MAX;
	if (!intake->spill && is_small && bodies->memory_used + bytes <= bodies->memory_max) {
		bodies->memory_used += bytes;
		intake->memory_held += bytes;
		return true;
	}
	int64_t more = intake->spill ? bytes : intake->memory_held + bytes;
	if (bodies->spill_used + more > bodies->spill_max)
		return refuse_for_room(failure);
	if (!intake->spill && !go_to_file(intake))
		return refuse_for_room(failure);
	bodies->spill_used += bytes;
	intake->spill_held += bytes;
	return true;
}

static bool refuse_form(const struct intake *intake, struct failure *failure)
{
	char text[MULTIPART_TEXT];

	failure_set(failure, 400, "invalid_form", "the body is not a form as it should be: %s",
	            multipart_explain(intake->form, text));
	return false;
}

static bool refuse_json(const struct intake *intake, struct failure *failure)
{
	const char *field = body_scan_fault_field(intake->scan);
	char text[BODY_SCAN_TEXT];

	body_scan_explain(intake->scan, text);
	if (field)
		failure_set(failure, 400, "invalid_field", "a field of the body is wrong: %s", text);
	else
		failure_set(failure, 400, "invalid_json", "the body is not a JSON object: %s", text);
	failure->param = field;
	return false;
}

static bool take(struct intake *intake, struct str data, struct failure *failure)
{
	char most[UNITS_TEXT];

	if (intake->length + (int64_t)data.length > intake->bodies->each_max) {
		failure_set(failure, 413, "body_too_large",
		            "the body is larger than %s ('bodies: each' in cotenant.yaml)",
		            units_size(most, intake->bodies->each_max));
		return false;
	}
	if (intake->scan && !body_scan_feed(intake->scan, data))
		return refuse_json(intake, failure);
	if (intake->form && !multipart_feed(intake->form, data))
		return refuse_form(intake, failure);
	if (!make_room(intake, (int64_t)data.length, failure))
		return false;
	intake->length += (int64_t)data.length;
	buf_append_str(&intake->bytes, data);
	return true;
}

static bool take_end(struct intake *intake, struct failure *failure)
{
	intake->complete = true;
	if (intake->form && !multipart_end(intake->form))
		return refuse_form(intake, failure);
	return !intake->scan || body_scan_end(intake->scan) || refuse_json(intake, failure);
}

static bool decode(struct intake *intake, struct str *in, struct failure *failure)
{
	struct str data;

	for (;;) {
		switch (body_decode(&intake->decoder, in, &data)) {
		case BODY_MORE:
			return true;
		case BODY_DATA:
			if (!take(intake, data, failure))
				return false;
			break;
		case BODY_END:
			return take_end(intake, failure);
		case BODY_BROKEN:
			failure_set(failure, 400, "invalid_body", "the body's framing is broken: %s",
			            body_decoder_fault(&intake->decoder));
			return false;
		}
	}
}

enum intake_step intake_feed(struct intake *intake, struct str *in, struct failure *failure)
{
	if (intake->error) {
		failure_set(failure, 503, "bodies_full", "the body could not be kept: %s",
		            strerror(-intake->error));
		failure->retry_after_s = 5;
		return INTAKE_FAILED;
	}
	if (intake->writing)
		return INTAKE_WAIT;
	if (!intake->complete && !decode(intake, in, failure))
		return INTAKE_FAILED;
	if (intake->spill && buf_length(&intake->bytes)) {
		intake->writing = true;
		spill_append(intake->spill, &intake->bytes);
		return INTAKE_WAIT;
	}
	return intake->complete ? INTAKE_DONE : INTAKE_MORE;
}

const struct body_facts *intake_facts(const struct intake *intake)
{
	if (intake->form)
		return &intake->form->facts;
	return intake->scan ? &intake->scan->facts : NULL;
}

void intake_forget_facts(struct intake *intake)
{
	free(intake->scan);
	free(intake->form);
	intake->scan = NULL;
	intake->form = NULL;
}

bool intake_in_memory(const struct intake *intake)
{
	return !intake->spill;
}

struct str intake_slice(const struct intake *intake, uint64_t offset, size_t bytes)
{
	struct str all = buf_str(&intake->bytes);

	assert(!intake->spill && offset <= all.length);
	size_t left = all.length - (size_t)offset;
	return (struct str){ all.data + offset, left < bytes ? left : bytes };
}

void intake_fetch(struct intake *intake, uint64_t offset, size_t bytes,
                  void (*on_fetched)(void *ctx, int error, struct str bytes), void *ctx)
{
	intake->on_fetched = on_fetched;
	intake->ctx = ctx;
	if (intake->fetching) {
		intake->next_offset = offset;
		intake->next_bytes = bytes;
	} else {
		start_fetch(intake, offset, bytes);
	}
}

void intake_unfetch(struct intake *intake)
{
	intake->on_fetched = NULL;
	intake->next_bytes = 0;
}

bool intake_hold(struct intake *intake, struct bodies *bodies, struct buf *bytes)
{
	int64_t length = (int64_t)buf_length(bytes);

	*intake = (struct intake){ .bodies = bodies, .bytes = *bytes, .length = length, .complete = true };
	*bytes = BUF_INIT;
	if (bodies->memory_used + length > bodies->memory_max) {
		intake_clear(intake);
		return false;
	}
	bodies->memory_used += length;
	intake->memory_held = length;
	return true;
}

void intake_clear(struct intake *intake)
{
	if (!intake->bodies)
		return;
	intake->bodies->memory_used -= intake->memory_held;
	intake->bodies->spill_used -= intake->spill_held;
	intake->memory_held = intake->spill_held = 0;
	spill_close(intake->spill);
	intake->spill = NULL;
	intake->fetching = false;
	intake_unfetch(intake);
	buf_release(&intake->bytes);
	intake_forget_facts(intake);
}
