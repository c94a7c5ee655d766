#ifndef GATEWAY_INTAKE_H
#define GATEWAY_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "gateway/failure.h"
#include "http/body.h"
#include "http/body_scan.h"
#include "http/multipart.h"
#include "io/spill.h"

/*
 * intake - the body of one request: taken in as it arrives, held, given out.
 *
 * Bodies of waiting requests share one budget (`bodies`): while it lasts they
 * lie in memory, past it, or where it is large, a body goes to a file without a
 * name, and past that the client is told to come again. JSON and forms are read while they pass, so that a
 * bad body is refused with its line and column before anything was done for it.
 *
 * Invariant: bodies.memory_used and spill_used are the sums over all intakes
 * of what each holds; intake_clear() gives it back.
 */
struct bodies {
	struct uv_loop_s *loop;
	const char *folder;        /* for files */
	int64_t each_max, memory_max, spill_max;
	int64_t memory_used, spill_used;
};

struct intake {
	struct bodies *bodies;
	struct body_decoder decoder;
	struct body_scan *scan;    /* NULL: not JSON, or read already */
	struct multipart *form;    /* NULL: no form, or read already */
	struct buf bytes;          /* what is in memory */
	struct spill *spill;       /* NULL: all is in memory */
	int64_t length;            /* taken so far */
	int64_t memory_held, spill_held;
	bool complete;             /* the decoder saw its end */
	bool writing;              /* the file is being written: feed no more until on_writable */
	bool fetching;             /* the file is being read */
	size_t next_bytes;         /* ... for somebody who is gone: so much is to be read behind it; 0 = nothing */
	uint64_t next_offset;
	int error;                 /* of the file */
	void *ctx;
	void (*on_writable)(void *ctx);
	void (*on_fetched)(void *ctx, int error, struct str bytes); /* NULL: nobody waits for what is read */
};

enum intake_step {
	INTAKE_MORE,   /* all was taken */
	INTAKE_WAIT,   /* feed what is left after on_writable */
	INTAKE_DONE,   /* complete; what is left belongs to the next request */
	INTAKE_FAILED, /* `failure` says how; the connection must be closed */
};

/* `content_length` -1: none said. `json`: read it as JSON. */
void intake_init(struct intake *intake, struct bodies *bodies, enum body_kind kind,
                 int64_t content_length, bool json);
/* Before the first byte: read it as a form with files whose parts this boundary divides. */
void intake_read_form(struct intake *intake, const char *boundary);
/* Who is told that the file has taken what it was given. */
void intake_attend(struct intake *intake, void (*on_writable)(void *ctx), void *ctx);

/* Take from the front of `in`. */
enum intake_step intake_feed(struct intake *intake, struct str *in, struct failure *failure);
/* What JSON or a form said; valid after INTAKE_DONE until intake_forget_facts(). NULL: it was neither. */
const struct body_facts *intake_facts(const struct intake *intake);
void intake_forget_facts(struct intake *intake);

/* A part of a complete body. In memory: returns it at once, at most `bytes`. */
bool intake_in_memory(const struct intake *intake);
struct str intake_slice(const struct intake *intake, uint64_t offset, size_t bytes);
/* In a file: on_fetched follows. */
void intake_fetch(struct intake *intake, uint64_t offset, size_t bytes,
                  void (*on_fetched)(void *ctx, int error, struct str bytes), void *ctx);
/* Who asked is gone: on_fetched does not follow. The body stays, and may be asked for again at once. */
void intake_unfetch(struct intake *intake);

/* A body of our own, in memory: `bytes` are taken over, or (false) there is no room for them and they are let go. */
bool intake_hold(struct intake *intake, struct bodies *bodies, struct buf *bytes);

/* Give everything back. May be called twice. */
void intake_clear(struct intake *intake);

#endif
