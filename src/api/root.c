#include "api/inside.h"

/*
 * The front door: what this is and where to go on, for people with a browser or
 * curl, and for programs that ask whether anybody is at home. It names no more
 * than the caller may see.
 */

static json_t *visible_models(const struct api *api, const struct call *call)
{
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	json_t *names = json_array();
	struct model_view model;

	for (uint32_t i = 0; i < arbiter_models(arbiter); i++)
		if (arbiter_model(arbiter, i, &model) && api_may_see(api, call, i))
			json_array_append_new(names, json_lossy(str_from(model.spec->name)));
	return names;
}

static void print_models(const json_t *names, struct buf *out)
{
	enum { SHOWN = 20 };
	size_t count = json_array_size(names);

	for (size_t i = 0; i < count && i < SHOWN; i++)
		buf_printf(out, "%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
	if (count > SHOWN)
		buf_printf(out, " and %zu more", count - SHOWN);
	if (count == 0)
		buf_append_str(out, STR("none"));
}

static void print_door(const struct api *api, const json_t *names, struct buf *out)
{
	const char *first = json_string_value(json_array_get(names, 0));

	buf_printf(out, "cotenant %s: many models, one memory\n\nmodels    ", api->options.version);
	print_models(names, out);
	buf_printf(out,
	           "\nask       POST /v1/chat/completions  {\"model\": \"%s\", \"messages\": [{\"role\": \"user\", "
	           "\"content\": \"Hello\"}]}\n"
	           "          also the paths of Anthropic (/v1/messages), Ollama (/api/tags;\n"
	           "          /api/chat where the engine has it) and of the engines;\n"
	           "          what else an engine has is at /upstream/MODEL/...\n"
	           "look      /v1/models  /api/v1/models  /api/v1/memory  /api/v1/events  /metrics  /healthz\n"
	           "terminal  cotenant top, cotenant ps, cotenant --help (a web page is not built yet)\n",
	           first ? first : "NAME");
}

void handle_root(struct api *api, struct call *call, const char *name)
{
	json_t *names = visible_models(api, call);
	struct str accept = call_header(call, "accept");
	struct buf text = BUF_INIT;

	(void)name;
	if (accept.length && str_starts(accept, "application/json")) {
		api_reply(call, 200,
		          json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:s}", "service", "cotenant", "version",
		                    api->options.version, "models", names, "chat", "/v1/chat/completions",
		                    "state", "/api/v1/models", "memory", "/api/v1/memory", "health",
		                    "/healthz"));
		return;
	}
	print_door(api, names, &text);
	call_reply(call, 200, "text/plain; charset=utf-8", buf_str(&text));
	buf_release(&text);
	json_decref(names);
}
