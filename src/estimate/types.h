#ifndef ESTIMATE_TYPES_H
#define ESTIMATE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * types - how tensor elements are stored: so many elements in so many bytes.
 *
 * The numbers are ggml's (`enum ggml_type` and the table `type_traits` of
 * ggml.c). A number that is not here is never guessed: it was removed, belongs
 * to a fork, or to a newer engine, and type_stranger() says which.
 */
struct type_info {
	uint32_t id;
	const char *name;
	uint16_t block_elements;
	uint16_t block_bytes;
	bool repacked; /* rewritten in memory by the engine's CPU backend on x86-64 with AVX2 */
	bool tiled;    /* likewise for the tiles of a processor with AMX */
};

enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q8_0 = 8 };

const struct type_info *type_find(uint32_t id); /* NULL = not one of ours */

/* By its usual name, however it is written ("q4_0"); NULL = not one of ours. */
const struct type_info *type_named(const char *name);

/* Why type_find() knows nothing of `id`, as the end of a sentence. */
const char *type_stranger(uint32_t id);

/* Bytes of a row; the elements must fill whole blocks, what is over counts as one more. */
int64_t type_row_bytes(const struct type_info *type, int64_t elements);

/* The usual name of `general.file_type` ("Q4_K_M"); NULL = unknown. */
const char *type_mix_name(int64_t file_type);

#endif
