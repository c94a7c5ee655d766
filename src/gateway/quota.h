#ifndef GATEWAY_QUOTA_H
#define GATEWAY_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/conf.h"

/*
 * quota - how much an API key may ask for: requests a minute and at once, tokens a day.
 *
 * By the key's name, so that a reload forgives nothing. A minute's requests, and
 * a day's tokens, may be used in one burst and then come back evenly. What a
 * request takes is known when it is over: the one that uses up the last token
 * may use more, and the key waits the longer. Requests for models count, looks
 * and our own endpoints do not.
 */
struct failure;

/* Of a day's tokens: when all are there again, if so many come back in a day. Only together they tell how many are gone. */
struct quota_tokens {
	int64_t whole_at_us;
	int64_t per_day; /* 0: by the number that there is next */
};

void quota_init(struct list *quotas);
void quota_release(struct list *quotas);

/* One more request of the key, until quota_return(). False: `failure` says what it exceeds; nothing was taken. */
bool quota_take(struct list *quotas, const struct conf_key *key, int64_t now_us, struct failure *failure);
void quota_return(struct list *quotas, const struct conf_key *key);

/* The key, which has `tokens_per_day`, used some. Returns what is to be remembered. */
struct quota_tokens quota_charge(struct list *quotas, const struct conf_key *key, int64_t tokens, int64_t now_us);
/*
 * ... and takes that back in a later life. Over a restart only the wall clock tells the time, and it may have been
 * wrong: whatever it says, the first token is there again within a day.
 */
void quota_restore(struct list *quotas, uint64_t key, const struct quota_tokens *tokens, int64_t now_us);
/* What a key is remembered by: it outlives the configuration that names it, which a reload may bring back. */
uint64_t quota_key(const char *name);

#endif
