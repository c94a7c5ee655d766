#ifndef LAZY_LAZY_H
#define LAZY_LAZY_H

/*
 * lazy - memory for what conversations fill, not for what they might.
 *
 * An engine of the ggml family reserves the KV cache for its whole context and
 * then clears it, which touches every page: a context costs its full size whether
 * anybody speaks or not. libcotenant-lazy.so is preloaded into such an engine
 * (LD_PRELOAD) and answers that clear by giving the pages back to the kernel:
 * the same zeros, none of the memory. The engine is not changed, and what the
 * library cannot do safely the engine does as ever (ranges.h).
 *
 * The daemon talks to it over a unix socket whose path stands in the environment;
 * an engine in which it took no effect has none, or says "reached": false.
 *
 *   GET /          {"library": "cotenant-lazy", "reached": true, "buffers": 2,
 *                   "reserved_bytes": N, "resident_bytes": N, "left_out_bytes": N,
 *                   "plain_clears": 0, "discards": 0}
 *   POST /discard  the same, after every page of every such buffer was given back.
 *
 * A discard turns the cache to zeros under the engine's feet. It is only to be
 * asked for after all slots were erased and while nothing runs: then no cell
 * refers to those bytes. The library cannot know that; who asks must.
 *
 * What it takes out of the environment before the engine's main() begins:
 * its own path in LD_PRELOAD and the variable below, so that no child inherits them.
 */
#define LAZY_SOCKET_VARIABLE "COTENANT_LAZY_SOCKET"
#define LAZY_LIBRARY_NAME "libcotenant-lazy.so"

/* Smaller buffers are left to the engine: not worth two calls of the kernel. */
#define LAZY_LEAST_BYTES (1 << 20)

#endif
