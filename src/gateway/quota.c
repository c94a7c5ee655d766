#include "gateway/quota.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/units.h"

#define MINUTE_US (INT64_C(60) * US_PER_S)

struct quota {
	struct list node;
	char *name;
	int64_t live;
	/* When the burst that was used is whole again: each request moves it by a minute's share. */
	int64_t whole_at_us;
};

void quota_init(struct list *quotas)
{
	list_init(quotas);
}

void quota_release(struct list *quotas)
{
	LIST_EACH(node, quotas) {
		struct quota *quota = LIST_ENTRY(node, struct quota, node);
		list_remove(&quota->node);
		free(quota->name);
		free(quota);
	}
}

static struct quota *find(struct list *quotas, const char *name)
{
	LIST_EACH(node, quotas) {
		struct quota *quota = LIST_ENTRY(node, struct quota, node);
		if (strcmp(quota->name, name) == 0)
			return quota;
	}
	struct quota *quota = xcalloc(1, sizeof(*quota));
	quota->name = xstrdup(name);
	list_append(quotas, &quota->node);
	return quota;
}

/* 0 where one more is within the minute's number; else how long until it is. */
static int64_t wait_us(const struct quota *quota, int64_t per_min, int64_t now_us)
{
	int64_t from_us = quota->whole_at_us > now_us ? quota->whole_at_us : now_us;
	int64_t over_us = from_us + MINUTE_US / per_min - now_us - MINUTE_US;

	return over_us > 0 ? over_us : 0;
}

bool quota_take(struct list *quotas, const struct conf_key *key, int64_t now_us, struct failure *failure)
{
	struct quota *quota = find(quotas, key->name);

	if (key->parallel > 0 && quota->live >= key->parallel) {
		failure_set(failure, 429, "key_parallel",
		            "API key '%s' has %lld requests under way, as many as it may at once ('parallel'); try "
		            "again when one is over",
		            key->name, (long long)quota->live);
		failure->retry_after_s = 1;
		return false;
	}
	int64_t wait = key->requests_per_min > 0 ? wait_us(quota, key->requests_per_min, now_us) : 0;
	if (wait > 0) {
		failure_set(failure, 429, "key_rate",
		            "API key '%s' may send %lld requests a minute ('requests_per_min')", key->name,
		            (long long)key->requests_per_min);
		failure->retry_after_s = (int)((wait + US_PER_S - 1) / US_PER_S);
		return false;
	}
	if (key->requests_per_min > 0) {
		int64_t from_us = quota->whole_at_us > now_us ? quota->whole_at_us : now_us;
		quota->whole_at_us = from_us + MINUTE_US / key->requests_per_min;
	}
	quota->live++;
	return true;
}

void quota_return(struct list *quotas, const struct conf_key *key)
{
	find(quotas, key->name)->live--;
}
