#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stdint.h>

#include "api/memory.h"
#include "base/buf.h"
#include "conf/conf.h"
#include "core/arbiter.h"
#include "engine/supervisor.h"
#include "estimate/calibration.h"
#include "estimate/estimate.h"
#include "gateway/call.h"
#include "gateway/gateway.h"
#include "gateway/ticket.h"
#include "probe/programs.h"
#include "probe/sample.h"
#include "probe/topology.h"
#include "store/store.h"

/*
 * api - our own endpoints: what is the state, why is it so, and an operator's
 * commands.
 *
 * It holds no truth of its own: every answer is read from the arbiter, the
 * configuration and the last sample when it is asked, and a command becomes a
 * request for the arbiter like any client's. What it keeps is for people: the
 * last decisions and the last ended requests, counters and histograms, the
 * followers of the event stream. All of it runs on the loop's thread.
 *
 * Who may: reading needs role use, commands and the daemon's configuration role
 * admin; a key that is limited to some models sees those alone, and of requests
 * its own alone. The gateway said who the caller is.
 */
struct api;

struct api_now {
	int64_t now_us;            /* CLOCK_BOOTTIME */
	int64_t wall_offset_us;    /* Unix time = now_us + this */
	int64_t stepped_at_us;     /* when the arbiter last took an event */
	int64_t sampled_at_us;     /* when the last good sample was taken; 0 = none yet */
	int64_t baseline_bytes;    /* what the system needs by itself (app/baseline); -1 = unknown */
	bool baseline_learned;     /* in a quiet minute, of this life or an earlier one */
	bool draining;             /* the daemon is going down */
	const char *unread;        /* why the machine has not been read since sampled_at_us; "" = it has */
	const char *blocked;       /* the file or call that gives no answer; "" = none */
	const char *left_behind[MEMORY_LEFT_MAX]; /* what ended engines did not give back; NULL or "": nothing */
	const char *programs_blocked; /* ... of those who else is there */
};

enum conversation_place {
	CONVERSATION_HELD,   /* by an engine, in `slot` */
	CONVERSATION_SAVING, /* its slot is given up, or about to be, and its file is not sealed yet */
	CONVERSATION_SAVED,  /* in a file, since `saved_at_us` */
};

struct conversation_view {
	uint32_t model;
	uint64_t conversation; /* 0 = not known */
	enum conversation_place place;
	uint32_t slot;
	int64_t tokens, bytes;
	int64_t saved_at_us;   /* CLOCK_BOOTTIME */
};

struct unsaved_view {
	uint32_t model;        /* of the last */
	int64_t conversations, tokens, last_at_us;
	const char *reason;
};

/* What the shell gives. Every function runs on the loop's thread but post(), which any thread may call. */
struct api_host {
	void *ctx;
	const struct arbiter *(*arbiter)(void *ctx);
	const struct conf *(*conf)(void *ctx);
	const struct sample *(*sample)(void *ctx);                    /* NULL before the first */
	const struct topology *(*topology)(void *ctx);                /* of the last reading; NULL before the first */
	const struct estimate *(*estimate)(void *ctx, uint32_t model); /* NULL where there is none */
	const struct gateway_counters *(*gateway)(void *ctx);
	void (*now)(void *ctx, struct api_now *out);
	uint64_t (*sequence)(void *ctx);                              /* a fresh public number */
	/* Why requests of `model` end with `fail`, in words; "" where nothing is known. */
	void (*explain)(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes);

	/* An operator's load, unload, stop: becomes EVENT_REQUEST_ARRIVED; the verdict comes by the ticket. */
	void (*submit)(void *ctx, struct id ticket, const struct request_spec *spec);
	/* Nobody waits for that ticket any more: EVENT_REQUEST_GONE. The ticket is closed. */
	void (*gone)(void *ctx, struct id ticket);
	void (*pin)(void *ctx, uint32_t model, bool pin);
	/*
	 * Read the configuration again, away from the loop. done() tells the end on the loop's thread,
	 * or already within the call: 0 or a negative errno, and what changed or the problems. It is
	 * called once, but not any more where the daemon closes.
	 */
	/* ... -ESTALE: what is new needs a restart; another negative: it cannot be used. */
	void (*reload)(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg);
	/*
	 * Gather the free memory into large blocks; idle models leave for it and come back. As reload;
	 * -EBUSY: one is under way, -EPERM: not all steps were allowed (the report names them).
	 */
	void (*compact)(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg);
	/*
	 * Who else is on the machine, by program; done() tells it on the loop's thread, later or within
	 * the call; once, but not any more where the daemon closes.
	 */
	void (*programs)(void *ctx, void (*done)(void *arg, const struct programs *programs), void *arg);
	/* What `model` leaves behind each time that it is loaded, and over how many times; 0: nothing. */
	int64_t (*leak)(void *ctx, uint32_t model, uint32_t *out_cycles);
	/* arbiter_plan() with the shell's scratch. */
	bool (*plan)(void *ctx, uint32_t model, struct plan *out);
	/* gateway_each() and gateway_cancel(). */
	void (*requests)(void *ctx, void (*each)(void *each_ctx, const struct exchange_view *request),
	                 void *each_ctx);
	bool (*cancel)(void *ctx, uint64_t sequence);
	/* Run fn(arg) on the loop's thread, later. False: the loop is going away and fn will not run. */
	bool (*post)(void *ctx, void (*fn)(void *arg), void *arg);
	/* How good the estimates of the loads that are kept were. */
	void (*calibration)(void *ctx, struct calibration *out);
	/* Optional. NULL: its KV follows use; else why it does not, "" where it has no such cache. */
	const char *(*not_lazy)(void *ctx, uint32_t model);
	/* Its file or its engine is another one than what runs, and what that means; "" = no. May be NULL. */
	const char *(*replaced)(void *ctx, uint32_t model);
	/* Optional. Of a model whose context is elastic the largest that could be granted now; 0 = it is not. */
	int64_t (*context_now)(void *ctx, uint32_t model);
	/* Optional. What is wrong with the model's file or program, so that it cannot be loaded as it is; "" = nothing. */
	const char *(*fault)(void *ctx, uint32_t model);
	/* Optional. Those that engines hold, then those in files. */
	void (*conversations)(void *ctx, void (*each)(void *each_ctx, const struct conversation_view *view),
	                      void *each_ctx);
	/* Optional. Of those that were to be saved and are lost; false: none was. */
	bool (*unsaved)(void *ctx, struct unsaved_view *out);
};

struct api_options {
	const char *boot_id;           /* 8 hex digits */
	const char *version;
	struct tickets *tickets;
	struct supervisor *supervisor;
	struct store *store;           /* NULL: no history */
	int64_t started_at_us;
};

/* Everything in `options` and `host` outlives the api. */
struct api *api_new(const struct api_options *options, const struct api_host *host);
void api_free(struct api *api); /* ends what still waits or follows; no store query may be under way */

/* The gateway's on_call: answers now or later. */
void api_handle(struct api *api, struct call *call);

/* ---- what happened, told by the shell ---- */

/* Each ACTION_RECORD. */
void api_on_decision(struct api *api, const struct decision *decision);
/* Its sentence, as history has it; appended. */
void api_decision_text(const struct api *api, const struct decision *decision, struct buf *out);
/* Each end of an exchange (gateway_host.on_end). */
void api_on_request_end(struct api *api, const struct exchange_end *end);
/* The number of the newest decision about that request, as far as it is among the last; 0 = none. */
uint64_t api_decision_of(const struct api *api, uint64_t request);
/* What an engine of the model printed (supervisor_events.on_log). */
void api_on_log(struct api *api, const char *model, struct str text);
/* How long one arbiter_step() took. */
void api_on_step(struct api *api, int64_t us);

/* The public name of a number: "<boot>-<sequence>". Returns `out`. */
enum { API_ID_BYTES = 32 };
const char *api_id(const struct api *api, char out[API_ID_BYTES], uint64_t sequence);

#endif
