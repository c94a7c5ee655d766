#include "api/estimate_json.h"

#include "api/value.h"
#include "base/str.h"
#include "base/units.h"

static json_t *footprint_json(const struct footprint *f)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "weights_bytes", (json_int_t)f->weights_bytes,
	                 "kv_bytes", (json_int_t)f->kv_bytes, "recurrent_bytes",
	                 (json_int_t)f->recurrent_bytes, "compute_bytes", (json_int_t)f->compute_bytes,
	                 "overhead_bytes", (json_int_t)f->overhead_bytes, "total_bytes",
	                 (json_int_t)f->total_bytes);
}

static json_t *flags_json(const char *flags)
{
	struct str rest = str_from(flags);
	json_t *array = json_array();

	while (rest.length) {
		struct str flag = str_trim(str_cut(rest, ',', &rest));
		if (flag.length)
			json_array_append_new(array, json_lossy(flag));
	}
	return array;
}

void estimate_add_placing(json_t *json, const struct estimate *e)
{
	struct device_share device;

	estimate_on_device(e, &device);
	json_object_set_new(json, "by_pool", json_pack("{s:I, s:I}", "device", (json_int_t)device.base_bytes, "host",
	                                               (json_int_t)(e->base_bytes - device.base_bytes)));
	json_object_set_new(json, "gpu_layers",
	                    e->host_layers > 0 ? json_integer(e->layers + 1 - e->host_layers) : json_null());
}

void estimate_add_experts(json_t *json, const struct estimate *e, double bytes_per_s, const char *unbounded)
{
	if (e->experts.mapped_bytes == 0) {
		json_object_set_new(json, "experts", json_null());
		return;
	}
	double ms = bytes_per_s > 0 ? 1000 * (double)e->experts.missed_bytes / bytes_per_s : 0;
	json_object_set_new(json, "experts",
	                    json_pack("{s:I, s:I, s:I, s:o, s:o}", "total_bytes", (json_int_t)e->experts.total_bytes,
	                              "resident_bytes", (json_int_t)e->experts.resident_bytes, "read_bytes_per_token",
	                              (json_int_t)e->experts.missed_bytes, "slower_ms_per_token",
	                              bytes_per_s > 0 ? json_real(ms) : json_null(), "unbounded_reason",
	                              json_name(unbounded)));
}

void estimate_tell_experts(struct buf *text, const struct estimate *e, double bytes_per_s, const char *unbounded)
{
	char resident[UNITS_TEXT], total[UNITS_TEXT], missed[UNITS_TEXT];

	if (e->experts.mapped_bytes == 0)
		return;
	buf_printf(text, "; %s of %s of experts are counted, the others lie in memory that the kernel takes back when ",
	           units_size(resident, e->experts.resident_bytes), units_size(total, e->experts.total_bytes));
	if (unbounded)
		buf_printf(text, "it is needed (no control group bounds them: %s)", unbounded);
	else
		buf_printf(text, "the engine holds more than it was planned to (a control group of its own bounds it)");
	buf_printf(text, ": then a token reads %s again", units_size(missed, e->experts.missed_bytes));
	if (bytes_per_s > 0 && e->experts.missed_bytes > 0)
		buf_printf(text, " (%.0f ms slower, as fast as it was loaded)",
		           1000 * (double)e->experts.missed_bytes / bytes_per_s);
}

void estimate_add_checkpoints(json_t *json, const struct estimate *e)
{
	json_object_set_new(json, "checkpoints",
	                    json_pack("{s:I, s:I, s:I, s:I}", "most", (json_int_t)e->set_aside_most, "state_bytes",
	                              (json_int_t)e->set_aside.state_bytes, "token_bytes",
	                              (json_int_t)e->set_aside.token_bytes, "tokens_most",
	                              (json_int_t)e->set_aside.tokens_most));
}

json_t *estimate_json(const struct estimate *e)
{
	json_t *host = footprint_json(&e->host), *json = json_object();

	json_object_set_new(host, "cache_limit_bytes", json_integer(e->cache_limit_bytes));
	json_object_set_new(json, "architecture", json_lossy(str_from(e->architecture)));
	json_object_set_new(json, "quantisation", json_lossy(str_from(e->quantisation)));
	json_object_set_new(json, "name", json_name(e->name));
	json_object_set_new(json, "parameters", json_integer(e->parameters));
	json_object_set_new(json, "layers", json_integer(e->layers));
	json_object_set_new(json, "trained_context", json_integer(e->trained_context));
	json_object_set_new(json, "encoder", json_boolean(e->is_encoder));
	json_object_set_new(json, "file_bytes", json_integer(e->file_bytes));
	json_object_set_new(json, "missing_bytes", json_integer(e->missing_bytes));
	json_object_set_new(json, "pools", json_pack("{s:o, s:o}", "device", footprint_json(&e->device),
	                                             "host", host));
	json_object_set_new(json, "kv_bytes_per_token", json_integer(e->kv_bytes_per_token));
	json_object_set_new(json, "base_bytes", json_integer(e->base_bytes));
	json_object_set_new(json, "per_request_bytes", json_integer(e->per_request_bytes));
	json_object_set_new(json, "steady_bytes", json_integer(e->steady_bytes));
	json_object_set_new(json, "peak_bytes", json_integer(e->peak_bytes));
	json_object_set_new(json, "upper_bytes", json_integer(e->upper_bytes));
	json_object_set_new(json, "lower_bytes", json_integer(e->lower_bytes));
	json_object_set_new(json, "sigma_bytes", json_integer(e->sigma_bytes));
	/* ComfyUI takes what it is given: a part at a time at least, all of them at most. */
	if (e->largest_part_bytes > 0)
		json_object_set_new(json, "comfyui",
		                    json_pack("{s:I, s:I}", "minimum_bytes",
		                              (json_int_t)(e->largest_part_bytes + e->per_request_bytes), "maximum_bytes",
		                              (json_int_t)(e->host.weights_bytes + e->per_request_bytes)));
	json_object_set_new(json, "confidence", json_real(e->confidence));
	json_object_set_new(json, "source", json_string(estimate_source_name(e->source)));
	json_object_set_new(json, "ubatch", json_integer(e->ubatch));
	estimate_add_checkpoints(json, e);
	estimate_add_placing(json, e);
	json_object_set_new(json, "flags", flags_json(e->flags));
	return json;
}
