#ifndef APP_SAMPLER_H
#define APP_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/ids.h"
#include "probe/sample.h"
#include "probe/topology.h"

/*
 * sampler - when the machine is read.
 *
 * Reading /proc blocks, so a thread of its own does it and the sample comes back on
 * the loop; there is never more than one in flight. It is no worker of libuv's pool,
 * where files on a disk that hangs are read too: memory runs out meanwhile as well.
 *
 * The pace follows the need: 10 s while nothing is loaded, 1 s while something is,
 * 200 ms while a load or an unload is in flight, and from an engine's end on at 0, 1,
 * 2, 4 ... 50 ms until its bytes were seen to come back, because the next load waits
 * for exactly that. All processes are looked at with every fifth sample, else those
 * that were found to be engines'; also at an end, for of that the keeper knows that
 * nobody is left. Where memory is short it is read oftener (sampler_within). The topology
 * is read along with each, for the worse of its two sums is what counts.
 *
 * A file or a driver may give no answer for ever. That is told after some seconds, with its name, and each second
 * from then on; there is no way to call the thread back, so who ends meanwhile does not wait for it.
 */
struct sampler;
struct uv_loop_s;

enum sampler_pace {
	PACE_EMPTY,
	PACE_STEADY,
	PACE_MOVING,
	PACE_RELEASE,
};

struct sampler_owner {
	struct id instance;
	bool gone;    /* its group ended before this sample began */
	bool loading; /* it was not ready when this sample began */
	bool gpu;     /* by its claim it uses one */
	struct sample_owner
	        owner; /* pgid, cgroup, files filled; files must live until the sample is back */
};

struct sampler_events {
	void *ctx;
	/* Fill `out` with who is to be measured; returns how many (at most `capacity`). */
	uint32_t (*owners)(void *ctx, struct sampler_owner *out, uint32_t capacity);
	/*
	 * A sample is back, with what it leaves to the next (sample->seen), which is the callee's as long as it looks at
	 * it; owners are those asked for, in order, sample->owner[i] answers owner i. `topology` is NULL
	 * where it could not be read along: it is as it was.
	 */
	void (*on_sample)(void *ctx, const struct sample *sample, const struct topology *topology,
	                  const struct sampler_owner *owners, uint32_t count);
	void (*on_failed)(void *ctx, const char *text);
	/* The one in flight is not back yet: that file or call is being asked. */
	void (*on_late)(void *ctx, const char *what);
};

/* `topology` is copied: how it was found. NULL where no thread is to be had. */
struct sampler *sampler_new(struct uv_loop_s *loop, const char *root, const struct topology *topology,
                            const struct sampler_events *events);
/* Change the pace; a faster one takes effect at once, PACE_RELEASE starts its ladder anew. */
void sampler_pace(struct sampler *sampler, enum sampler_pace pace);
/* The next sample after the one that is back comes after so long at most. UINT32_MAX: as the pace says. */
void sampler_within(struct sampler *sampler, uint32_t ms);
/* So much stands in no counter of a quiet machine; see topology.h. */
void sampler_usual(struct sampler *sampler, int64_t unaccounted_bytes);
/* The machine may be another: its devices are sought anew with the next sample, which comes at once. */
void sampler_find_again(struct sampler *sampler);
/* One more at once, for which GPUs are asked that are else asked seldom, as no engine uses one. */
void sampler_ask_devices(struct sampler *sampler);
/* One more at once, of all processes: they, or what they map, may be others. */
void sampler_look_again(struct sampler *sampler);
/* One more at once. */
void sampler_now(struct sampler *sampler);
/* Stop; the sampler frees itself once its sample in flight is back (the loop must still run, and may not end by itself before). NULL is ignored. */
void sampler_close(struct sampler *sampler);

#endif
