#ifndef API_PROGRESS_H
#define API_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/arbiter.h"
#include "engine/supervisor.h"

/*
 * progress - how far a load is and how long it still takes.
 *
 * How far is what the engine's log and its bytes read tell; how long is what
 * this model's last load took, else what the part done so far suggests. Where
 * nobody knows, it says so: a guess that jumps is worse than none.
 */
struct load_progress {
	uint32_t permille;
	int64_t bytes;       /* of the file, as far as they came in */
	int64_t total_bytes; /* the file; 0 = unknown, then `bytes` is 0 too */
	int64_t elapsed_us;
	int64_t expected_us; /* the whole load; 0 = unknown */
	int64_t left_us;     /* -1 = unknown */
};

/* False where the model is not loading. */
bool load_progress(const struct supervisor *supervisor, const struct model_view *model, int64_t now_us,
                   struct load_progress *out);

/*
 * "40 %, 1.2 GiB of 3.0 GiB, 3.1 s left": what of it is known. The share is that of the bytes where they are told,
 * which is not `permille`: that counts what comes before and after the reading, too.
 */
void load_progress_text(const struct load_progress *progress, struct buf *out);

#endif
