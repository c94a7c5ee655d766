/*
 * A prompt that does not fit into its engine's context is refused by the engine
 * with the number of its tokens. Where that engine can be started anew with a
 * larger context the client hears nothing of it: the request goes back into the
 * queue, and is sent again once the larger context is there. So its body is held
 * until the engine's status is known, and a refusal is read before it is relayed.
 *
 * A prompt that fits may leave too little for its answer, which would end in the
 * middle: so where the bound by its bytes does not tell that both fit, the engine
 * is asked for the number of its tokens before it is sent. Some paths have another
 * that counts the very body; for the others the texts of the prompt are tokenised,
 * and what is beside them is bounded by its bytes.
 */
#include "gateway/exchange.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/slots.h"

/* The first may have been chosen before others were heard of; what asks again and again is refused. */
enum { TIMES_MAX = 2, HELD_BYTES_MAX = 64 * 1024 };
enum { ASK_US = 5 * 1000 * 1000 };
enum { BETWEEN_TOKENS = 16 }; /* an infilling puts tokens of its own between the texts */

void outgrow_forget_excerpt(struct exchange *exchange)
{
	if (exchange->excerpt)
		intake_clear(exchange->excerpt);
	free(exchange->excerpt);
	exchange->excerpt = NULL;
}

/* Nothing of its engine's answer is left; what the engine is to be sent is. */
static void forget_answer(struct exchange *exchange)
{
	upstream_free(exchange->upstream);
	exchange->upstream = NULL;
	outgrow_forget_excerpt(exchange);
	buf_release(&exchange->error);
	exchange->engine_status = 0;
	exchange->first_byte_at_us = 0;
	exchange->refused = false;
}

static bool is_elastic(const struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;

	return host->elastic && host->elastic(host->ctx, exchange->model);
}

struct prompt_size prompt_longest(const struct prompt_size *prompt)
{
	struct prompt_size one = *prompt;

	if (prompt->prompts <= 1)
		return one;
	one.prompts = 1;
	one.bytes = prompt->longest_bytes;
	if (one.tokens > one.bytes)
		one.tokens = one.bytes; /* all of them were counted, and a token is at least a byte */
	return one;
}

/* 0: nobody knows, or it is what its engine says. */
static int64_t context_now(const struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;

	return host->context_now ? host->context_now(host->ctx, exchange->model) : 0;
}

void outgrow_prepare(struct exchange *exchange)
{
	exchange->may_outgrow = !exchange->is_look && !exchange->upgrade && exchange->outgrown < TIMES_MAX &&
	                        exchange->gateway->host.outgrown && is_elastic(exchange);
	exchange->refused = false;
}

bool outgrow_may_be(struct exchange *exchange, int status, int64_t length)
{
	bool is_short = length >= 0 && length <= HELD_BYTES_MAX;
	bool tells = exchange->is_look && exchange->route.tells_context && status == 200;

	exchange->refused = exchange->may_outgrow && status == 400 && is_short;
	exchange->tells_context = tells && is_short && context_now(exchange) > 0;
	if (exchange->may_outgrow && !exchange->refused)
		upstream_let_go(exchange->upstream);
	return exchange->refused || exchange->tells_context;
}

/* True: it waits for a larger context. */
static bool asks_for_more(struct exchange *exchange, int64_t prompt_tokens)
{
	const struct gateway_host *host = &exchange->gateway->host;
	struct outgrown outgrown = {
		.model = exchange->model,
		.instance = exchange->instance,
		.sequence = exchange->sequence,
		.prompt_tokens = prompt_tokens,
		.reply_tokens = exchange->prompt.reply_tokens >= 0 ? exchange->prompt.reply_tokens
		                                                   : exchange_model(exchange)->reply_tokens,
	};

	if (!host->outgrown(host->ctx, &outgrown))
		return false;
	exchange->outgrown++;
	exchange->prompt.tokens = prompt_tokens;
	forget_answer(exchange);
	exchange_ask_again(exchange);
	return true;
}

bool outgrow_returns(struct exchange *exchange)
{
	int64_t tokens = exceeded_tokens(buf_str(&exchange->error));

	return tokens >= 0 && asks_for_more(exchange, tokens);
}

static void tell_props(struct exchange *exchange, int64_t context)
{
	struct str body = buf_str(&exchange->error), digits = props_context(body);
	struct buf told = BUF_INIT;

	if (!digits.length)
		return;
	const char *behind = digits.data + digits.length;
	buf_append_str(&told, (struct str){ body.data, (size_t)(digits.data - body.data) });
	buf_printf(&told, "%lld", (long long)context);
	buf_append_str(&told, (struct str){ behind, (size_t)(body.data + body.length - behind) });
	buf_release(&exchange->error);
	exchange->error = told;
}

bool outgrow_refuses(struct exchange *exchange)
{
	int64_t context = context_now(exchange);
	int64_t tokens = exceeded_tokens(buf_str(&exchange->error));
	struct failure failure;

	if (context <= 0 || tokens < 0)
		return false;
	failure_of_context(&failure, exchange->shape->api, tokens, context);
	exchange_refuse(exchange, &failure);
	return true;
}

void outgrow_tell_largest(struct exchange *exchange)
{
	int64_t context = context_now(exchange);

	if (context > 0 && exchange->tells_context)
		tell_props(exchange, context);
}

/* ---- how many tokens is it? ---- */

/* -1: nobody knows. */
static void take_size(struct exchange *exchange, int64_t tokens)
{
	const struct gateway_host *host = &exchange->gateway->host;

	forget_answer(exchange);
	exchange->size_until_us = 0;
	exchange->prompt.tokens = tokens;
	if (!exchange->dispatched_at_us) { /* it was counted for what it is to claim */
		exchange->instance = ID_NONE;
		exchange_ask(exchange);
		return;
	}
	if (exchange->unweighed) {
		exchange_ask_again(exchange);
		return;
	}
	if (tokens >= 0 && host->may_exceed(host->ctx, exchange->model, &exchange->prompt) &&
	    asks_for_more(exchange, prompt_longest(&exchange->prompt).tokens))
		return;
	relay_rearm(exchange); /* the alarm may have been the one for this */
	relay_start(exchange);
}

static void on_size_head(void *ctx, const struct message *head, enum body_kind kind, int64_t length)
{
	struct exchange *exchange = ctx;

	(void)kind;
	(void)length;
	exchange->engine_status = head->status;
}

/* Of an answer that is nothing but a list of tokens. */
static void count_numbers(struct exchange *exchange, struct str part)
{
	for (size_t i = 0; i < part.length; i++) {
		bool is_digit = part.data[i] >= '0' && part.data[i] <= '9';
		exchange->counted_tokens += is_digit && !exchange->in_number;
		exchange->in_number = is_digit;
	}
}

static void on_size_body(void *ctx, const struct str *parts, uint32_t count)
{
	struct exchange *exchange = ctx;

	for (uint32_t i = 0; i < count; i++)
		if (exchange->route.counts_texts)
			count_numbers(exchange, parts[i]);
		else if (buf_length(&exchange->error) + parts[i].length <= HELD_BYTES_MAX)
			buf_append_str(&exchange->error, parts[i]);
}

static void on_size_pause(void *ctx)
{
	(void)ctx; /* it is short */
}

static void on_size_end(void *ctx)
{
	struct exchange *exchange = ctx;
	int64_t between = str_is(exchange->engine_path, "/infill") ? BETWEEN_TOKENS : 0;

	if (exchange->engine_status != 200)
		take_size(exchange, -1);
	else if (exchange->route.counts_texts)
		take_size(exchange, exchange->counted_tokens + exchange->beside_tokens + between);
	else
		take_size(exchange, json_number(buf_str(&exchange->error), "input_tokens"));
}

static void on_size_failed(void *ctx, const char *what)
{
	(void)what;
	take_size(ctx, -1); /* the request itself will meet the same, and tell it */
}

static void on_size_unreachable(void *ctx)
{
	take_size(ctx, -1);
}

static const struct upstream_events size_events = {
	.on_head = on_size_head,
	.on_body = on_size_body,
	.on_pause = on_size_pause,
	.on_end = on_size_end,
	.on_failed = on_size_failed,
	.on_unreachable = on_size_unreachable,
};

void outgrow_asked_long_enough(struct exchange *exchange)
{
	take_size(exchange, -1);
}

/* The prompt's texts, lists unfolded into one, as /tokenize takes them. False: there is no room for them. */
static bool make_excerpt(struct exchange *exchange)
{
	struct buf body = BUF_INIT;
	const char *between = "";

	buf_printf(&body, "{\"add_special\":true,\"parse_special\":%s,\"content\":[",
	           exchange->route.plain_texts ? "false" : "true");
	for (uint32_t i = 0; i < exchange->texts; i++) {
		struct body_text text = exchange->text[i];
		struct str slice = intake_slice(&exchange->intake, text.at + text.is_list,
		                                (size_t)text.length - (text.is_list ? 2 : 0));
		buf_append_str(&body, str_from(between));
		buf_append_str(&body, slice);
		between = ",";
	}
	buf_append_str(&body, STR("]}"));
	exchange->excerpt = xmalloc(sizeof(*exchange->excerpt));
	if (intake_hold(exchange->excerpt, exchange->intake.bodies, &body))
		return true;
	outgrow_forget_excerpt(exchange);
	return false;
}

/* False: it cannot be counted now. */
static bool ask_size(struct exchange *exchange, const struct upstream_request *request)
{
	struct upstream_request ask = *request;
	struct buf head = BUF_INIT;

	if (exchange->route.counts_texts && !make_excerpt(exchange))
		return false;
	if (exchange->excerpt)
		ask.body = exchange->excerpt;
	exchange->counted_tokens = 0;
	exchange->in_number = false;
	exchange->sized = true;
	exchange->size_until_us = boot_now_us() + ASK_US;
	exchange_head_for(exchange, str_from(exchange->route.counts), &head);
	ask.head = (struct str){ buf_str(&head).data, buf_length(&head) - 2 };
	ask.holds_body = true;
	exchange->upstream = upstream_start(exchange->gateway, &ask, &size_events, exchange);
	buf_release(&head);
	relay_rearm(exchange);
	return true;
}

bool outgrow_is_countable(const struct exchange *exchange)
{
	bool has_texts = exchange->texts && intake_in_memory(&exchange->intake);

	return !exchange->sized && exchange->prompt.tokens < 0 && exchange->prompt.bytes >= 0 && exchange->route.counts &&
	       (!exchange->route.counts_texts || has_texts);
}

bool outgrow_asks(struct exchange *exchange, const struct upstream_request *request)
{
	const struct gateway_host *host = &exchange->gateway->host;

	return exchange->may_outgrow && outgrow_is_countable(exchange) && host->may_exceed &&
	       host->may_exceed(host->ctx, exchange->model, &exchange->prompt) && ask_size(exchange, request);
}

bool outgrow_weighs(struct exchange *exchange, const struct upstream_request *request)
{
	if (outgrow_is_countable(exchange) && ask_size(exchange, request))
		return true;
	exchange->sized = true; /* nobody can */
	return false;
}

bool outgrow_counts_first(struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;
	struct upstream_request request;

	if (exchange->upgrade || !outgrow_is_countable(exchange) || !host->counts_first ||
	    !host->counts_first(host->ctx, exchange->model, &exchange->prompt) ||
	    !host->loaded(host->ctx, exchange->model, &exchange->instance))
		return false;
	if (relay_request(exchange, &request) && ask_size(exchange, &request))
		return true;
	exchange->instance = ID_NONE;
	return false;
}
