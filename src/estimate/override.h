#ifndef ESTIMATE_OVERRIDE_H
#define ESTIMATE_OVERRIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * override - which tensors are kept on the host by name: llama-server's -ot PATTERN=BUFFER,...
 *
 * The engine's patterns are ECMAScript's, sought anywhere in a name, the first that is found wins. What they have in
 * common with POSIX's extended ones (literals, groups, alternatives, classes, counts) is taken; whether a text goes
 * beyond that is told, and nothing is guessed.
 *
 *   1. override_new(): never NULL
 *   2. override_keeps() for each tensor
 *   3. override_free()
 */
enum { OVERRIDES_MOST = 32 };

struct override;

/* `texts`: what each of the engine's -ot said, in order. */
struct override *override_new(const char *const *texts, uint32_t count);
void override_free(struct override *override);

/* Whether every pattern is of a kind that is understood; what is not is passed over. */
bool override_is_whole(const struct override *override);

/* Whether a tensor of that name lies on the host for it: the first pattern that is in the name says CPU. */
bool override_keeps(const struct override *override, struct str name);

#endif
