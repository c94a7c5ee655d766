#ifndef ENGINE_OWN_WORD_H
#define ENGINE_OWN_WORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/conf.h"
#include "engine/tuning.h"
#include "estimate/estimate.h"

/*
 * own_word - what the very program that will serve says it will take.
 *
 * llama-server builds its graphs without allocating when it fits its parameters to the
 * machine (--fit), and tells at log level 4 what each device would hold: exact for this
 * build and backend, also where no formula knows the architecture. So it is started
 * as it will be for serving, but with --fit on, read until that table is told, and
 * killed before it loads anything. Where it does not tell, llama-fit-params is asked, if there is one
 * beside it (fit_params.h): its weights and caches are the same, its compute buffers a bound.
 *
 * Either opens a device's context for that time, and a file that is malformed may make it crash:
 * so it is a process of its own group with a deadline, asked only while the caller
 * holds a claim for the load. Blocks: not for the loop's thread.
 *
 * It speaks of the model's own file: what is loaded beside it stays as it was reckoned.
 */
enum word_of {
	WORD_OF_SERVER,
	WORD_OF_FIT_TABLE, /* compute buffers are a bound */
	WORD_OF_FIT_SUMS,  /* ... and what is rewritten for the processor was left out */
};

struct own_word {
	int64_t device_weights_bytes, device_context_bytes, device_compute_bytes;
	int64_t host_weights_bytes, host_context_bytes, host_compute_bytes; /* rewritten copies are weights */
	uint32_t rows; /* of the table */
	uint32_t from; /* enum word_of */
};

enum { OWN_WORD_DEADLINE_MS = 30000 };

/*
 * 0; -ETIMEDOUT, -ENOEXEC where the program cannot be started, -ENODATA where it ended
 * or went on without telling, -ECANCELED soon after `given_up` (may be NULL) turned true; each with a text.
 * `context_tokens` is per conversation.
 */
int own_word_ask(const struct conf_model *model, int64_t context_tokens, int64_t slots,
                 const struct launch_tuning *tuning, int deadline_ms, const atomic_bool *given_up,
                 struct own_word *out, struct err *err);

/* Read one line of its log into `out`; true where the table is complete. */
bool own_word_line(struct own_word *out, struct str line);
/* A row: weights, caches, compute. */
void own_word_add(struct own_word *out, bool host, const int64_t mib[3]);
/* A number of MiB that a machine may have; negative: it is none. */
int64_t own_word_mib(const char *text, char **end);

/* Put its word in the formulas' place: source "engine". The process and what lies beside the buffers stay. */
void own_word_use(const struct own_word *word, struct estimate *estimate);

#endif
