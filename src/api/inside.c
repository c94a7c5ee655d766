#include "api/inside.h"

#include <stdlib.h>
#include <string.h>

#include "api/decision.h"
#include "base/units.h"
#include "gateway/who.h"

void api_reply(struct call *call, int status, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	struct buf body = BUF_INIT;

	buf_printf(&body, "%s\n", text ? text : "null");
	free(text);
	json_decref(value);
	call_reply(call, status, "application/json", buf_str(&body));
	buf_release(&body);
}

/* ---- who sees what ---- */

static bool is_limited(const struct call *call)
{
	const struct conf_key *key = call_key(call);
	return key && key->role != CONF_ROLE_ADMIN;
}

bool api_may_see(const struct api *api, const struct call *call, uint32_t model)
{
	const struct conf_key *key = call_key(call);

	if (!is_limited(call))
		return true;
	return who_may_use(api->host.conf(api->host.ctx), key, model);
}

bool api_may_see_key(const struct call *call, const char *key_name)
{
	return !is_limited(call) || (key_name && strcmp(call_key(call)->name, key_name) == 0);
}

const struct conf_model *api_conf_model(const struct api *api, uint32_t model)
{
	const struct conf *conf = api->host.conf(api->host.ctx);
	return model < conf->model_count ? &conf->models[model] : NULL;
}

/* ---- models by name ---- */

static void put_members(const struct conf_set *set, struct buf *out)
{
	buf_append_str(out, STR(": it is the name of a set; its models are "));
	for (size_t i = 0; i < set->models.count; i++)
		buf_printf(out, "%s%s", i ? ", " : "", set->models.items[i]);
}

void api_no_model(struct api *api, struct call *call, const char *name)
{
	struct buf near = BUF_INIT, message = BUF_INIT;

	buf_printf(&message, "there is no model '%.200s'", name);
	/* A caller that sees only some models is not told the names of the others. */
	if (!is_limited(call) || call_key(call)->models.count == 0) {
		const struct conf *conf = api->host.conf(api->host.ctx);
		const struct conf_set *set = conf_set_named(conf, name);
		conf_resolve(conf, str_from(name), &near);
		if (set)
			put_members(set, &message);
		else if (buf_length(&near))
			buf_printf(&message, "; nearest: %s", buf_cstr(&near));
	}
	call_error(call, 404, "model_not_found", buf_cstr(&message), "cotenant ls");
	buf_release(&message);
	buf_release(&near);
}

uint32_t api_resolve(struct api *api, struct call *call, const char *name, struct model_view *out)
{
	int found = conf_resolve(api->host.conf(api->host.ctx), str_from(name), NULL);
	uint32_t model = found < 0 ? MODEL_NONE : (uint32_t)found;

	if (model != MODEL_NONE && api_may_see(api, call, model) &&
	    arbiter_model(api->host.arbiter(api->host.ctx), model, out))
		return model;
	api_no_model(api, call, name);
	return MODEL_NONE;
}

/* ---- values ---- */

int64_t api_epoch_ms(const struct api *api, int64_t at_us)
{
	struct api_now now;

	if (at_us == 0)
		return 0;
	api->host.now(api->host.ctx, &now);
	return (at_us + now.wall_offset_us) / US_PER_MS;
}

static const char *seen_name(void *ctx, uint32_t model)
{
	const struct seen *seen = ctx;

	if (!api_may_see(seen->api, seen->call, model))
		return "another model";
	return seen->api->names.model(seen->api->names.ctx, model);
}

struct names api_names_for(struct seen *seen)
{
	return (struct names){ seen, seen_name };
}

json_t *api_decision_json(const struct api *api, const struct call *call, const struct decision *decision)
{
	struct seen seen = { api, call };
	struct names names = api_names_for(&seen);
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	return decision_json(decision, &names, api->options.boot_id, now.wall_offset_us);
}
