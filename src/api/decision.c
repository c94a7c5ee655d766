#include "api/decision.h"

#include <stdio.h>

#include "api/value.h"
#include "base/units.h"

static json_t *model_name(const struct names *names, uint32_t model)
{
	return json_name(model == MODEL_NONE ? NULL : names->model(names->ctx, model));
}

static json_t *public_id(const char *boot_id, uint64_t sequence)
{
	return sequence ? json_sprintf("%s-%llu", boot_id, (unsigned long long)sequence) : json_null();
}

static void add_ms(json_t *json, const char *key, int64_t us)
{
	json_object_set_new(json, key, json_integer(us / US_PER_MS));
}

static void add_numbers(const struct decision *d, json_t *json)
{
	json_object_set_new(json, "need_bytes", json_integer(d->need_bytes));
	json_object_set_new(json, "room_bytes", json_integer(d->room_bytes));
	json_object_set_new(json, "held_bytes", json_integer(d->held_bytes));
	json_object_set_new(json, "foreign_bytes", json_integer(d->foreign_bytes));
	json_object_set_new(json, "capacity_bytes", json_integer(d->capacity_bytes));
	json_object_set_new(json, "measured_bytes", json_integer(d->measured_bytes));
	json_object_set_new(json, "claim_bytes", json_integer(d->claim_bytes));
	if (d->kind == DECISION_RELEASED)
		json_object_set_new(json, "machine_bytes", json_integer(d->machine_bytes));
	add_ms(json, "wait_ms", d->wait_us);
	add_ms(json, "load_ms", d->load_us);
	add_ms(json, "idle_ms", d->idle_us);
	json_object_set_new(json, "regret", json_real((double)d->regret_milli / 1000));
	add_ms(json, "prefill_ms", d->prefill_us);
	json_object_set_new(json, "asked", json_integer(d->asked));
	json_object_set_new(json, "asked_for", json_integer(d->asked_for));
	if (d->context_tokens || d->context_was) {
		json_object_set_new(json, "context", json_integer(d->context_tokens));
		json_object_set_new(json, "context_was", json_integer(d->context_was));
	}
	json_object_set_new(json, "queued", json_integer(d->queued));
	json_object_set_new(json, "running", json_integer(d->running));
}

json_t *decision_json(const struct decision *d, const struct names *names, const char *boot_id,
                      int64_t wall_offset_us)
{
	struct buf text = BUF_INIT;
	json_t *json = json_object();

	decision_text(d, names, &text);
	json_object_set_new(json, "id", public_id(boot_id, d->sequence));
	add_ms(json, "at_ms", d->at_us + wall_offset_us);
	json_object_set_new(json, "kind", json_string(decision_kind_name(d->kind)));
	json_object_set_new(json, "reason", d->reason ? json_string(reason_name(d->reason)) : json_null());
	json_object_set_new(json, "model", model_name(names, d->model));
	json_object_set_new(json, "for_model", model_name(names, d->for_model));
	json_object_set_new(json, "request", public_id(boot_id, d->request));
	json_object_set_new(json, "instance", public_id(boot_id, d->instance));
	json_object_set_new(json, "fail", d->fail ? json_string(fail_name(d->fail)) : json_null());
	if (d->cause)
		json_object_set_new(json, "cause", json_string(cause_name(d->cause)));
	json_object_set_new(json, "text", json_lossy(buf_str(&text)));
	add_numbers(d, json);
	buf_release(&text);
	return json;
}
