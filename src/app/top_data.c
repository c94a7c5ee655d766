#include "app/top_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli_json.h"
#include "base/str.h"
#include "base/units.h"

static void copy(char *out, size_t out_bytes, const char *text)
{
	str_copy(out, out_bytes, str_from(text));
}

/* ---- models ---- */

/* What a person waits for comes first: the line may be cut. */
static void take_load(struct top_model *out, const json_t *load)
{
	char left[UNITS_TEXT] = "", bytes[UNITS_TEXT], total[UNITS_TEXT];

	if (json_is_integer(json_object_get(load, "left_ms")))
		units_duration(left, json_int(load, "left_ms") * US_PER_MS);
	if (json_int(load, "total_bytes"))
		snprintf(out->note, sizeof(out->note), "%s%s%s of %s", left, *left ? " left, " : "",
		         units_size(bytes, json_int(load, "bytes")),
		         units_size(total, json_int(load, "total_bytes")));
	else if (*left)
		snprintf(out->note, sizeof(out->note), "%s left", left);
}

static void take_note(struct top_model *out, const json_t *model, const json_t *load)
{
	if (json_is_object(load))
		take_load(out, load);
	else if (strcmp(out->state, "queued") == 0)
		snprintf(out->note, sizeof(out->note), "waits: %.100s", json_text(model, "reason"));
	else if (strcmp(out->state, "failed") == 0)
		copy(out->note, sizeof(out->note), json_text(model, "reason"));
}

static void take_model(struct top_model *out, const json_t *model)
{
	const json_t *load = json_object_get(model, "load");
	const json_t *speed = json_object_get(model, "tokens_per_s");

	*out = (struct top_model){
		.pinned = json_yes(model, "pinned"),
		.permille = json_is_object(load) ? (int)json_int(load, "permille") : -1,
		.memory_bytes = json_int(model, "measured_bytes"),
		.context = json_int(model, "context"),
		.slots = json_int(model, "slots"),
		.running = json_int(model, "running"),
		.queued = json_int(model, "queued"),
		.tokens_per_s = json_is_number(speed) ? json_number_value(speed) : -1,
		.last_used_at_ms = json_int(model, "last_used_at_ms"),
	};
	copy(out->name, sizeof(out->name), json_text(model, "name"));
	copy(out->state, sizeof(out->state), json_text(model, "state"));
	out->holds = out->memory_bytes > 0;
	if (!out->holds)
		out->memory_bytes = json_int(model, "estimate_bytes");
	take_note(out, model, load);
}

void top_take_models(struct top_data *data, const json_t *answer)
{
	const json_t *models = json_object_get(answer, "models"), *model;
	size_t i;

	data->models = 0;
	json_array_foreach(models, i, model)
		if (data->models < TOP_MODELS_MAX)
			take_model(&data->model[data->models++], model);
	data->models_left_out = (int)json_array_size(models) - data->models;
}

/* ---- memory ---- */

static enum top_owner_kind kind_of(const char *kind)
{
	if (strcmp(kind, "system") == 0)
		return TOP_SYSTEM;
	if (strcmp(kind, "foreign") == 0)
		return TOP_FOREIGN;
	return strcmp(kind, "instance") == 0 ? TOP_MODEL : TOP_OTHER;
}

void top_take_memory(struct top_data *data, const json_t *answer)
{
	const json_t *pool, *owner, *warning;
	size_t i;

	data->size_bytes = data->free_bytes = 0;
	json_array_foreach(json_object_get(answer, "pools"), i, pool) {
		data->size_bytes += json_int(pool, "size_bytes");
		data->free_bytes += json_int(pool, "free_bytes");
	}
	data->owners = 0;
	json_array_foreach(json_object_get(answer, "owners"), i, owner) {
		int64_t claim = json_int(owner, "claim_bytes"), measured = json_int(owner, "measured_bytes");
		if (data->owners == TOP_OWNERS_MAX)
			break;
		struct top_owner *out = &data->owner[data->owners++];
		out->kind = kind_of(json_text(owner, "kind"));
		out->bytes = claim > measured ? claim : measured;
		copy(out->name, sizeof(out->name), json_text(owner, "name"));
	}
	data->warning[0] = '\0';
	json_array_foreach(json_object_get(answer, "warnings"), i, warning)
		/* What every daemon says in its first minutes is no news. */
		if (!data->warning[0] && strcmp(json_text(warning, "code"), "baseline_from_one_reading") != 0)
			copy(data->warning, sizeof(data->warning), json_text(warning, "message"));
}

/* ---- decisions ---- */

/* The number behind the boot's name: "1f3a90c2-118". */
static uint64_t number_of(const json_t *decision)
{
	const char *dash = strrchr(json_text(decision, "id"), '-');
	uint64_t number = 0;

	if (dash)
		str_to_u64(str_from(dash + 1), &number);
	return number;
}

void top_take_decision(struct top_data *data, const json_t *decision)
{
	uint64_t number = number_of(decision);
	int place = 0;

	while (place < data->events && data->event[place].number > number)
		place++;
	if (place == TOP_EVENTS_MAX || !json_text(decision, "text")[0] ||
	    (place < data->events && data->event[place].number == number))
		return;
	int moved = data->events - place;
	if (data->events == TOP_EVENTS_MAX)
		moved--;
	else
		data->events++;
	memmove(&data->event[place + 1], &data->event[place], (size_t)moved * sizeof(data->event[0]));
	data->event[place] = (struct top_event){ .number = number, .at_ms = json_int(decision, "at_ms") };
	copy(data->event[place].text, sizeof(data->event[place].text), json_text(decision, "text"));
}

void top_take_decisions(struct top_data *data, const json_t *answer)
{
	const json_t *decision;
	size_t i;

	json_array_foreach(json_object_get(answer, "decisions"), i, decision) {
		if (i == TOP_EVENTS_MAX)
			break;
		top_take_decision(data, decision);
	}
}

void top_forget_events(struct top_data *data)
{
	data->events = 0;
}
