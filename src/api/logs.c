#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/alloc.h"

/*
 * What engines print: the tail that is kept, and with ?follow=1 what comes after
 * it, as plain text until the reader leaves. A reader who does not keep up
 * misses bytes and is told how many; the engine is never held up.
 */
enum { FOLLOWERS_MAX = 64, PENDING_MAX = 512 * 1024 };

struct log_follower {
	struct list node;
	struct api *api;
	struct call *call;
	char *model;      /* by name: its index may move with a reload */
	uint64_t missed;  /* bytes, not told yet */
};

static void forget(struct log_follower *follower)
{
	follower->api->log_follower_count--;
	list_remove(&follower->node);
	free(follower->model);
	free(follower);
}

static void on_gone(void *ctx, struct call *call)
{
	(void)call;
	forget(ctx);
}

static void follow(struct api *api, struct call *call, const char *model, struct str tail)
{
	if (api->log_follower_count == FOLLOWERS_MAX) {
		call_error(call, 429, "too_many_followers", "64 others follow logs already", NULL);
		return;
	}
	struct log_follower *follower = xcalloc(1, sizeof(*follower));
	follower->api = api;
	follower->call = call;
	follower->model = xstrdup(model);
	list_append(&api->log_followers, &follower->node);
	api->log_follower_count++;
	call_on_gone(call, on_gone, follower);
	call_answer_header(call, "Cache-Control", "no-store");
	call_answer_header(call, "X-Accel-Buffering", "no");
	call_begin(call, 200, "text/plain; charset=utf-8");
	call_write(call, tail);
}

void api_on_log(struct api *api, const char *model, struct str text)
{
	LIST_EACH(node, &api->log_followers) {
		struct log_follower *follower = LIST_ENTRY(node, struct log_follower, node);
		if (strcmp(follower->model, model) != 0)
			continue;
		if (call_pending(follower->call) > PENDING_MAX) {
			follower->missed += text.length;
			continue;
		}
		if (follower->missed) {
			char note[80];
			int length = snprintf(note, sizeof(note), "\n[%llu bytes left out: the reader is too slow]\n",
			                      (unsigned long long)follower->missed);
			call_write(follower->call, (struct str){ note, (size_t)length });
			follower->missed = 0;
		}
		call_write(follower->call, text);
	}
}

void logs_end(struct api *api)
{
	while (!list_is_empty(&api->log_followers)) {
		struct log_follower *follower = LIST_ENTRY(api->log_followers.next, struct log_follower, node);
		call_on_gone(follower->call, NULL, NULL);
		call_end(follower->call);
		forget(follower);
	}
}

/* The last `lines` of the text; one that is not whole yet counts. */
static struct str last_lines(struct str text, uint64_t lines)
{
	size_t at = text.length;

	while (at > 0) {
		/* A break at the very end belongs to the last line. */
		if (text.data[at - 1] == '\n' && at != text.length && lines-- <= 1)
			break;
		at--;
	}
	return (struct str){ text.data + at, text.length - at };
}

void handle_logs(struct api *api, struct call *call, const char *name)
{
	struct model_view model;
	char value[24];
	uint64_t lines;

	uint32_t index = api_resolve(api, call, name, &model);
	if (index == MODEL_NONE)
		return;
	const struct conf_model *conf = api_conf_model(api, index);
	struct str log = conf ? supervisor_log(api->options.supervisor, conf) : STR("");
	if (call_parameter(call, "lines", value, sizeof(value))) {
		if (!str_to_u64(str_from(value), &lines)) {
			call_error(call, 400, "bad_request", "lines is no number", NULL);
			return;
		}
		log = lines ? last_lines(log, lines) : STR("");
	}
	if (call_parameter(call, "follow", value, sizeof(value)) && strcmp(value, "0") != 0)
		follow(api, call, model.spec->name, log);
	else if (call_parameter(call, "json", value, sizeof(value)))
		api_reply(call, 200,
		          json_pack("{s:s, s:o}", "model", model.spec->name, "text", json_lossy(log)));
	else
		call_reply(call, 200, "text/plain; charset=utf-8", log);
}
