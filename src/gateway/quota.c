#include "gateway/quota.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/units.h"
#include "gateway/failure.h"

#define MINUTE_US (INT64_C(60) * US_PER_S)
#define DAY_US (INT64_C(86400) * US_PER_S)

enum { RETRY_AFTER_MAX_S = 60 };

struct quota {
	struct list node;
	uint64_t key; /* quota_key() of its name */
	int64_t live;
	/* When the burst that was used is whole again: each request moves it by a minute's share. */
	int64_t whole_at_us;
	struct quota_tokens tokens; /* the same of a day's tokens */
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
		free(quota);
	}
}

uint64_t quota_key(const char *name)
{
	return str_hash(str_from(name));
}

static struct quota *find(struct list *quotas, uint64_t key)
{
	LIST_EACH(node, quotas) {
		struct quota *quota = LIST_ENTRY(node, struct quota, node);
		if (quota->key == key)
			return quota;
	}
	struct quota *quota = xcalloc(1, sizeof(*quota));
	quota->key = key;
	list_append(quotas, &quota->node);
	return quota;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* How much of a day so many tokens are; at most a year. */
static int64_t day_share_us(int64_t tokens, int64_t per_day)
{
	double share = (double)tokens / (double)per_day * (double)DAY_US;
	double most = 366.0 * (double)DAY_US;

	return (int64_t)((share < most ? share : most) + 0.5);
}

/*
 * What was used are so many tokens, whatever a reload says of the day's number since. Where that made the number
 * much smaller, what is beyond twice of it is forgiven: the first token is there again within a day.
 */
static void reckon_by(struct quota_tokens *tokens, int64_t per_day, int64_t now_us)
{
	int64_t left_us = later(tokens->whole_at_us - now_us, 0);

	if (left_us > 0 && tokens->per_day > 0 && tokens->per_day != per_day) {
		double anew_us = (double)left_us * (double)tokens->per_day / (double)per_day;
		double most_us = 2 * (double)DAY_US;
		left_us = (int64_t)(per_day > tokens->per_day || anew_us < most_us ? anew_us : most_us);
	}
	*tokens = (struct quota_tokens){ now_us + left_us, per_day };
}

/* 0 where a token is left of the day's; else how long until one is. */
static int64_t tokens_wait_us(struct quota *quota, int64_t per_day, int64_t now_us)
{
	reckon_by(&quota->tokens, per_day, now_us);
	int64_t over_us = quota->tokens.whole_at_us + day_share_us(1, per_day) - now_us - DAY_US;

	return over_us > 0 ? over_us : 0;
}

static int retry_after_s(int64_t wait_us)
{
	int64_t seconds = (wait_us + US_PER_S - 1) / US_PER_S;

	return seconds < RETRY_AFTER_MAX_S ? (int)seconds : RETRY_AFTER_MAX_S;
}

static bool refuse_tokens(const struct conf_key *key, int64_t wait_us, struct failure *failure)
{
	char wait[UNITS_TEXT];

	failure_set(failure, 429, "key_tokens",
	            "API key '%s' has used the %lld tokens that it may in a day ('tokens_per_day'); they come back "
	            "evenly, the first in %s",
	            key->name, (long long)key->tokens_per_day, units_duration(wait, wait_us));
	failure->retry_after_s = retry_after_s(wait_us);
	return false;
}

/* 0 where one more is within the minute's number; else how long until it is. */
static int64_t wait_us(const struct quota *quota, int64_t per_min, int64_t now_us)
{
	int64_t from_us = later(quota->whole_at_us, now_us);
	int64_t over_us = from_us + MINUTE_US / per_min - now_us - MINUTE_US;

	return over_us > 0 ? over_us : 0;
}

bool quota_take(struct list *quotas, const struct conf_key *key, int64_t now_us, struct failure *failure)
{
	struct quota *quota = find(quotas, quota_key(key->name));

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
		failure->retry_after_s = retry_after_s(wait);
		return false;
	}
	int64_t tokens_wait = key->tokens_per_day > 0 ? tokens_wait_us(quota, key->tokens_per_day, now_us) : 0;
	if (tokens_wait > 0)
		return refuse_tokens(key, tokens_wait, failure);
	if (key->requests_per_min > 0)
		quota->whole_at_us = later(quota->whole_at_us, now_us) + MINUTE_US / key->requests_per_min;
	quota->live++;
	return true;
}

void quota_return(struct list *quotas, const struct conf_key *key)
{
	find(quotas, quota_key(key->name))->live--;
}

struct quota_tokens quota_charge(struct list *quotas, const struct conf_key *key, int64_t tokens, int64_t now_us)
{
	struct quota *quota = find(quotas, quota_key(key->name));

	reckon_by(&quota->tokens, key->tokens_per_day, now_us);
	quota->tokens.whole_at_us += day_share_us(tokens, key->tokens_per_day);
	return quota->tokens;
}

void quota_restore(struct list *quotas, uint64_t key, const struct quota_tokens *tokens, int64_t now_us)
{
	int64_t most_us = now_us + 2 * DAY_US;

	if (tokens->whole_at_us <= now_us)
		return;
	find(quotas, key)->tokens = (struct quota_tokens){
		.whole_at_us = tokens->whole_at_us < most_us ? tokens->whole_at_us : most_us,
		.per_day = tokens->per_day,
	};
}
