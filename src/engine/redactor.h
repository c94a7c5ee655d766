#ifndef ENGINE_REDACTOR_H
#define ENGINE_REDACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * redactor - takes secrets out of a stream of bytes.
 *
 * What an engine prints may hold what it was given: the key we made for it, a
 * token of its environment, a client's key that it was told to log. Each
 * appearance of a known secret becomes "[redacted]", also where it comes in two
 * reads: the end of the bytes that may be the beginning of a secret is held back
 * until more comes, never more than the longest secret less one byte.
 */
enum { SECRET_BYTES_MIN = 4, SECRET_BYTES_MAX = 4096 };

struct redactor {
	char **secret;
	size_t secrets;
	bool first[256]; /* some secret begins with this byte */
	struct buf held;
};

/* `secret` outside the bounds is not taken: shorter ones stand everywhere by chance. */
void redactor_add(struct redactor *redactor, const char *secret);
void redactor_feed(struct redactor *redactor, struct str bytes, struct buf *out);
/* Nothing more comes: what was held back is no secret. */
void redactor_flush(struct redactor *redactor, struct buf *out);
/* Forget the secrets, not what is held back. */
void redactor_clear(struct redactor *redactor);
void redactor_release(struct redactor *redactor);

/* Would a person keep the value of a variable or flag of that name to themselves? HF_TOKEN, --api-key ... */
bool names_secret(const char *name);
/*
 * A word of a command line as it may be shown: what its flag names a secret, and what stands before an address's "@",
 * becomes "***". `*is_value`: is it the value of such a flag? and then: is the next one?
 */
void redact_word(const char *word, bool *is_value, struct buf *out);

#endif
