/*
 * Where a model's KV follows use, memory may bound a conversation long before its
 * context does. What a request may come to is held against that bound before the
 * arbiter is asked:
 *
 *   a prompt that it does not hold   is refused as the engine refuses one that its context does not hold
 *   an answer that may be longer     is cut to what is left, and ends as any does where its context ends
 *   only the bound by bytes is more  the engine is asked to count; where it is not there yet, its model is asked
 *                                    for first, and the request asks again once it is counted
 *
 * The bound is of one moment. Who is refused room all the same is measured by it once more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/exchange.h"

enum { AGAIN_MAX = 2, LEAST_SHARE = 4 };

static bool ask_host(const struct exchange *exchange, const struct prompt_size *prompt, struct allowance *out)
{
	const struct gateway_host *host = &exchange->gateway->host;

	*out = (struct allowance){ 0 };
	if (!host->allow || exchange->upgrade || exchange->route.background)
		return false;
	host->allow(host->ctx, exchange->model, prompt, out);
	return out->most_tokens > 0;
}

/* Of each of its prompts. */
static int64_t expected_reply(const struct exchange *exchange)
{
	int64_t asked = exchange->prompt.reply_tokens;

	return asked >= 0 ? asked : exchange_model(exchange)->reply_tokens;
}

static bool is_within(const struct exchange *exchange, const struct allowance *told)
{
	return told->prompt_tokens < told->most_tokens &&
	       expected_reply(exchange) <= (told->most_tokens - told->prompt_tokens) / exchange->prompt.prompts;
}

/* Of the keys that say how long the answer may be, one that an engine may follow bounds it less than that. */
static bool may_be_longer(const struct exchange *exchange, int64_t reply)
{
	int64_t asked = exchange->prompt.reply_tokens;
	bool longer = asked < 0 || asked > reply;

	for (uint32_t i = 0; i < exchange->replies.count; i++)
		longer |= exchange->replies.value[i].tokens < 0;
	return longer;
}

/* Its answer, or each of them, is no longer than that. */
static void cut(struct exchange *exchange, int64_t reply)
{
	int64_t expected = expected_reply(exchange);

	if (may_be_longer(exchange, reply))
		exchange->reply_most = reply;
	exchange->claim.reply_tokens = expected < reply ? expected : reply;
}

static bool refuse(struct exchange *exchange, const struct allowance *told)
{
	const struct gateway_host *host = &exchange->gateway->host;
	int64_t now = host->context_now ? host->context_now(host->ctx, exchange->model) : 0;
	struct failure failure;

	if (now <= 0 || now > told->most_tokens)
		now = told->most_tokens;
	failure_of_context(&failure, exchange->shape->api, told->prompt_tokens, now);
	exchange_refuse(exchange, &failure);
	return false;
}

bool allowance_take(struct exchange *exchange)
{
	struct allowance told;

	exchange->claim = exchange->prompt;
	exchange->reply_most = 0;
	exchange->unweighed = false;
	if (!ask_host(exchange, &exchange->prompt, &told))
		return true;
	if (exchange->prompt.tokens < 0 && !is_within(exchange, &told)) {
		exchange->unweighed = outgrow_is_countable(exchange);
		if (exchange->unweighed) {
			exchange->claim = (struct prompt_size){ .bytes = -1, .tokens = 1, .prompts = 1 };
			return true;
		}
		/* Nobody can count it, and its bytes alone refuse nobody: it gets all that there is. */
		int64_t left = told.most_tokens - told.prompt_tokens, least = told.most_tokens / LEAST_SHARE;
		cut(exchange, (left > least ? left : least > 0 ? least : 1) / exchange->prompt.prompts + 1);
		exchange->claim.tokens = told.most_tokens;
		exchange->claim.reply_tokens = 0;
		return true;
	}
	int64_t left = (told.most_tokens - told.prompt_tokens) / exchange->prompt.prompts;
	if (left < 1)
		return refuse(exchange, &told);
	cut(exchange, left);
	return true;
}

bool allowance_again(struct exchange *exchange, uint32_t fail)
{
	struct allowance told;

	if ((fail != FAIL_NEVER_FITS && fail != FAIL_NO_ROOM) || exchange->unweighed ||
	    exchange->allowed_again >= AGAIN_MAX || !ask_host(exchange, &exchange->claim, &told))
		return false;
	if (told.prompt_tokens + exchange->claim.prompts * exchange->claim.reply_tokens <= told.most_tokens)
		return false; /* that was not why */
	exchange->allowed_again++;
	if (!outgrow_counts_first(exchange))
		exchange_ask(exchange);
	return true;
}

/* ---- the body with the shorter answer ---- */

static void append_slice(const struct intake *intake, uint64_t from, uint64_t to, struct buf *out)
{
	buf_append_str(out, intake_slice(intake, from, (size_t)(to - from)));
}

/* What asks for more, or for no end, says the bound; where the engine's own key is missing it is put in. */
static void write_cut(const struct exchange *exchange, struct buf *out)
{
	const struct body_replies *replies = &exchange->replies;
	long long most = exchange->reply_most;
	uint64_t at = replies->object_at + 1;

	append_slice(&exchange->intake, 0, at, out);
	if (!replies->has_max_tokens)
		buf_printf(out, "\"max_tokens\":%lld,", most);
	for (uint32_t i = 0; i < replies->count; i++) {
		if (replies->value[i].tokens >= 0 && replies->value[i].tokens <= most)
			continue;
		append_slice(&exchange->intake, at, replies->value[i].at, out);
		buf_printf(out, "%lld", most);
		at = replies->value[i].at + replies->value[i].length;
	}
	append_slice(&exchange->intake, at, (uint64_t)exchange->intake.length, out);
}

void allowance_forget_cut(struct exchange *exchange)
{
	if (exchange->cut)
		intake_clear(exchange->cut);
	free(exchange->cut);
	exchange->cut = NULL;
}

void allowance_cut(struct exchange *exchange, struct upstream_request *request)
{
	struct buf body = BUF_INIT;

	allowance_forget_cut(exchange);
	/* What lies in a file is longer than any prompt that would be counted: its engine judges it. */
	if (!exchange->reply_most || !exchange->route.counts || !intake_in_memory(&exchange->intake))
		return;
	write_cut(exchange, &body);
	exchange->cut = xmalloc(sizeof(*exchange->cut));
	if (intake_hold(exchange->cut, exchange->intake.bodies, &body))
		request->body = exchange->cut;
	else
		allowance_forget_cut(exchange);
}
