#include <inttypes.h>
#include <stdio.h>

#include "api/inside.h"

/* What engines hold of conversations, and what was saved of them. No word of what was said is here. */

struct each_conversation {
	struct api *api;
	struct call *call;
	json_t *array;
};

static void add(void *ctx, const struct conversation_view *view)
{
	static const char *const states[] = {
		[CONVERSATION_HELD] = "held", [CONVERSATION_SAVING] = "saving", [CONVERSATION_SAVED] = "saved",
	};
	struct each_conversation *each = ctx;
	const struct conf_model *model = api_conf_model(each->api, view->model);
	char id[20];

	if (!model || !api_may_see(each->api, each->call, view->model))
		return;
	snprintf(id, sizeof(id), "%016" PRIx64, view->conversation);
	bool held = view->place == CONVERSATION_HELD, saved = view->place == CONVERSATION_SAVED;
	json_array_append_new(
	        each->array,
	        json_pack("{s:o, s:s, s:o, s:o, s:I, s:I, s:o}", "id",
	                  view->conversation ? json_string(id) : json_null(), "state", states[view->place],
	                  "model", json_lossy(str_from(model->name)), "slot",
	                  held ? json_integer(view->slot) : json_null(), "tokens", (json_int_t)view->tokens,
	                  "bytes", (json_int_t)view->bytes, "saved_at_ms",
	                  saved ? json_integer(api_epoch_ms(each->api, view->saved_at_us)) : json_null()));
}

static json_t *lost_json(struct api *api, struct call *call)
{
	struct unsaved_view lost;

	if (!api->host.unsaved || !api->host.unsaved(api->host.ctx, &lost) || !api_may_see(api, call, lost.model))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:o}", "conversations", (json_int_t)lost.conversations, "tokens",
	                 (json_int_t)lost.tokens, "last_at_ms", (json_int_t)api_epoch_ms(api, lost.last_at_us), "reason",
	                 json_lossy(str_from(lost.reason)));
}

/* `lost`: what was to be saved and could not be. */
void handle_conversations(struct api *api, struct call *call, const char *name)
{
	struct each_conversation each = { api, call, json_array() };

	(void)name;
	if (api->host.conversations)
		api->host.conversations(api->host.ctx, add, &each);
	api_reply(call, 200, json_pack("{s:o, s:o}", "conversations", each.array, "lost", lost_json(api, call)));
}
