#ifndef ENGINE_TOLD_H
#define ENGINE_TOLD_H

#include <stdint.h>

#include "base/str.h"

/*
 * told - what an engine's log tells of its own memory.
 *
 * llama-server at level 4 names each buffer with its size ("CPU compute buffer size =
 * 5.14 MiB"). The log is a peer's text: what makes no sense is left out.
 */

/*
 * The compute buffers of the last context that was made, summed over devices;
 * 0 = the log does not tell. A device's line is taken where it stands last.
 */
int64_t told_compute_bytes(struct str log);

/* Its build, as it names it: "build 11669 (Debian)"; empty where the log does not tell. */
struct str told_build(struct str log);

#endif
