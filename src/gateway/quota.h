#ifndef GATEWAY_QUOTA_H
#define GATEWAY_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/conf.h"
#include "gateway/failure.h"

/*
 * quota - how much an API key may ask for: requests a minute, and at once.
 *
 * By the key's name, so that a reload forgives nothing. A minute's requests may
 * come in one burst and then come back evenly. Requests for models count, looks
 * and our own endpoints do not.
 */
void quota_init(struct list *quotas);
void quota_release(struct list *quotas);

/* One more request of the key, until quota_return(). False: `failure` says what it exceeds; nothing was taken. */
bool quota_take(struct list *quotas, const struct conf_key *key, int64_t now_us, struct failure *failure);
void quota_return(struct list *quotas, const struct conf_key *key);

#endif
