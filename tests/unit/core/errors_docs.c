/* errors-docs [FILE]: print doc/errors.md; or, given the file, fail where it is not what the tables say now. */
#include "../docs_main.h"

#include "core/fail.h"

/* What is wrong with a request in itself; it never reaches the arbiter. tools/check-errors compares with the source. */
static const struct {
	int status;
	const char *code, *meaning;
} refusals[] = {
	{ 400, "bad_request", "The head is not HTTP as it should be, or a parameter of our own API is wrong; the text says which." },
	{ 400, "bad_path", "The path holds what no path may hold." },
	{ 400, "bad_deadline", "X-Cotenant-Deadline is not milliseconds from 1000 to 86400000." },
	{ 400, "bad_priority", "X-Cotenant-Priority is none of the classes." },
	{ 400, "bad_weight", "X-Cotenant-Weight is no weight." },
	{ 400, "bad_configuration", "A reload found errors; nothing changed. Each is told with its line." },
	{ 400, "invalid_body", "The framing of the body is broken." },
	{ 400, "invalid_json", "The body is not a JSON object; the text says where." },
	{ 400, "invalid_field", "A field that decides where the request goes is no string, too long, or comes twice; `param` names it." },
	{ 400, "invalid_form", "The body is not the form it says it is." },
	{ 400, "model_missing", "The request names no model." },
	{ 400, "wrong_endpoint", "The model is of another kind: its engine does not take this path. The text names the path that it takes, and the models that take this one." },
	{ 400, "engine_change", "The request would change the engine itself; there is a verb of ours for that." },
	{ 400, "picture_too_large", "A picture of this size fits neither any model nor the memory beside this one; the text says which." },
	{ 400, "exceed_context_size_error", "The prompt is longer than the largest context that can be had; this stands in `error.type`, as in the engine's own refusal, with `n_prompt_tokens` and `n_ctx`." },
	{ 401, "missing_api_key", "A key is needed." },
	{ 401, "invalid_api_key", "The key is none of `api_keys`." },
	{ 403, "model_not_allowed", "The key is for other models." },
	{ 403, "admin_needed", "Role `admin` is needed: the control socket, or a key of that role." },
	{ 403, "host_not_allowed", "Host is none of this machine's names; see `hosts`." },
	{ 403, "origin_not_allowed", "A web page of another origin; see `cors`." },
	{ 404, "not_found", "There is no such endpoint; the nearest is told." },
	{ 404, "request_not_found", "No live request has this number." },
	{ 405, "method_not_allowed", "The endpoint takes another method." },
	{ 408, "request_timeout", "The request came too slowly." },
	{ 409, "restart_needed", "A reload of what only a new start can take over (`listen`, limits): nothing was applied." },
	{ 409, "busy", "Memory is being compacted already." },
	{ 413, "body_too_large", "The body is over `bodies.each`." },
	{ 415, "unsupported_media_type", "Commands take application/json. A body in which the model's name is read may not be compressed." },
	{ 429, "key_parallel", "The key has as many requests under way as its `parallel` allows." },
	{ 429, "key_rate", "The key has sent more than its `requests_per_min`; Retry-After says when one more may come." },
	{ 429, "key_tokens", "The key has used its `tokens_per_day`; the text says when the first come back." },
	{ 429, "too_many_followers", "So many follow events or logs already." },
	{ 502, "engine_error", "The engine answered a stream's request with something that is none, after waiting had begun." },
	{ 503, "bodies_full", "Waiting bodies take all that `bodies` allows." },
	{ 503, "no_sample", "Memory was not read yet." },
	{ 503, "no_history", "History is switched off, or its file cannot be used." },
	{ 503, "history_busy", "So many questions to history wait already." },
	{ 503, "history_failed", "History could not be read." },
	{ 508, "loop", "The request went through this daemon before: the `url` of a model leads back to it." },
};

static void put_fails(struct buf *out)
{
	buf_printf(out, "| status | `error.code` | metrics, history | Retry-After | meaning |\n"
	                "|---|---|---|---|---|\n");
	for (int fail = 1; fail < FAIL_COUNT; fail++) {
		const struct fail_facts *facts = fail_facts((enum fail)fail);
		buf_printf(out, "| %d | `%s` | `%s` | ", facts->status, facts->code, facts->name);
		if (facts->retry_after_s)
			buf_printf(out, "%d s", facts->retry_after_s);
		buf_printf(out, " | %s |\n", facts->meaning);
	}
}

static void print(struct buf *out)
{
	buf_printf(out,
	           "# Errors\n\n"
	           "<!-- Made of src/core/fail.c by build/tests/unit/core/errors-docs; do not edit. -->\n\n"
	           "What an engine answers goes through unchanged, status and body. What is said here comes from\n"
	           "cotenant itself, in the form of the API that was asked: `{\"error\": {\"message\", \"type\", \"code\",\n"
	           "\"param\"}}` of the OpenAI API, and its like. `Retry-After` stands where waiting helps,\n"
	           "`x-should-retry: false` where it does not. In a stream that has begun, the error is its last event,\n"
	           "and then the connection is cut, so that a broken answer never looks complete.\n\n"
	           "Where an engine ended, the message has its exit status or signal, whether the kernel killed it for\n"
	           "lack of memory, and the line of its log that tells most; `cotenant logs MODEL` has the rest.\n\n"
	           "## How a request for a model can end\n\n"
	           "The name is the label `outcome` of `cotenant_requests_total`, and `outcome` in history. Where the\n"
	           "arbiter knows a better time, Retry-After is that.\n\n");
	put_fails(out);
	buf_printf(out, "\nWhere none of these happened the outcome is `ok`, or by the status that was sent: `refused`\n"
	                "(by us, for what stands in the next table), `engine_refused` and `engine_error` (the engine's\n"
	                "own 4xx and 5xx).\n");
	buf_printf(out, "\n## What is refused before\n\n| status | `error.code` | meaning |\n|---|---|---|\n");
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		buf_printf(out, "| %d | `%s` | %s |\n", refusals[i].status, refusals[i].code,
		           refusals[i].meaning);
}

int main(int argc, char **argv)
{
	return docs_main(argc, argv, print);
}
