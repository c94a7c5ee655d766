#ifndef TEST_CORE_RIG_H
#define TEST_CORE_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "core/arbiter.h"

/*
 * rig - a shell made of test calls.
 *
 * Models are a, b, c … by their row, sizes are GiB, times are seconds. Requests
 * are numbered from 1 and named by the rig as a shell would. What the arbiter
 * wants is written down as short words; rig_expect() compares and forgets them.
 * After every step arbiter_check() runs, and a step without news must be silent.
 *
 *	spawn a   stop a   kill a   abort a   dispatch 1 a   cancel 1 deadline
 *	reject 1 queue_full   done 1   drained   discard a   warm a   cool a
 *
 * with decisions (but dispatch, queue and refuse) in brackets where the rig is
 * told to show them: [load a request]  [evict b least_recent for a]
 */
struct rig {
	struct arbiter *arbiter;
	struct arbiter_limits limits;
	uint32_t capacity;      /* of one `out` */
	bool decisions;         /* show them */
	int64_t now;            /* µs */
	struct event_machine machine;
	struct model_spec spec[8];
	struct id request[4096];
	uint32_t requests;
	struct decision last;   /* the last decision of any kind */
	struct action reject;   /* the last rejection */
	int64_t timer_at;
	uint64_t hash;          /* over all actions */
	uint32_t actions;
	char words[65536];
	uint32_t words_length;
};

#define GIB (INT64_C(1) << 30)
#define SEC INT64_C(1000000)

/* A machine of `gib` without reserve, margin 0, and no models. */
void rig_open(struct rig *rig, int64_t gib);
/* ... under the default policy, with its learned margin. */
void rig_open_learning(struct rig *rig, int64_t gib);
void rig_close(struct rig *rig);

/* A spec that takes `gib`, loaded and while loading; change it, then rig_model(). */
struct model_spec *rig_spec(struct rig *rig, uint32_t model, int64_t gib);
void rig_model(struct rig *rig, uint32_t model);
/* Both at once, as it is. */
void rig_add(struct rig *rig, uint32_t model, int64_t gib);
void rig_machine(struct rig *rig);

/* Events. Each returns after the arbiter has nothing left to do. */
void rig_step(struct rig *rig, struct event *event);
void rig_wait(struct rig *rig, double seconds); /* ticks at what the timer asks for, and at the end */
uint32_t rig_ask(struct rig *rig, uint32_t model);
uint32_t rig_ask_as(struct rig *rig, uint32_t model, struct request_spec spec);
void rig_finish(struct rig *rig, uint32_t request);
void rig_cancel(struct rig *rig, uint32_t request); /* it was dispatched, and nothing came of it */
/* ... with what its engine told: tokens of the prompt, all read anew at so many a second, and of the answer. */
void rig_answer(struct rig *rig, uint32_t request, int64_t tokens_in, double read_per_s, int64_t tokens_out,
                double write_per_s);
void rig_leave(struct rig *rig, uint32_t request);
void rig_spawned(struct rig *rig, uint32_t model);
void rig_ready(struct rig *rig, uint32_t model);
void rig_progress(struct rig *rig, uint32_t model, uint32_t permille);
void rig_exit(struct rig *rig, uint32_t model, bool never_ready);
void rig_measure(struct rig *rig, uint32_t model, double gib, bool complete, bool gone);
void rig_sample(struct rig *rig, double unreclaimable_gib);
/* The exit, and a sample that shows its bytes back; the rest of U stays. */
void rig_gone(struct rig *rig, uint32_t model);
/* A load that works: spawned, ready. */
void rig_load(struct rig *rig, uint32_t model);
/* It is asked for, loads, and answers. Returns the request. */
uint32_t rig_once(struct rig *rig, uint32_t model);
void rig_pin(struct rig *rig, uint32_t model, bool pin);
void rig_blind(struct rig *rig);
void rig_pressure(struct rig *rig, enum pressure level);
/* ... and so much has to come back. */
void rig_short(struct rig *rig, enum pressure level, int64_t short_gib);
void rig_shutdown(struct rig *rig);

struct model_view rig_view(const struct rig *rig, uint32_t model);
void rig_expect_at(struct rig *rig, const char *words, const char *file, int line);
#define rig_expect(rig, words) rig_expect_at(rig, words, __FILE__, __LINE__)

#endif
