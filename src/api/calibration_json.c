#include "api/calibration_json.h"

#include "api/value.h"

static json_t *part_json(const struct calibration_part *part)
{
	double loads = part->loads ? part->loads : 1;

	return json_pack("{s:I, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "first", (json_int_t)part->first, "at_ms",
	                 part->at_ms ? json_integer(part->at_ms) : json_null(), "loads", (json_int_t)part->loads,
	                 "coverage", part->covered / loads, "error_median", part->error_median, "error_p95",
	                 part->error_p95, "off_median", part->off_median, "off_p95", part->off_p95, "above_median",
	                 part->above_median);
}

json_t *calibration_json(const struct calibration *c)
{
	json_t *json = part_json(&c->all), *spans = json_array(), *builds = json_array();

	for (uint32_t i = 0; i < c->spans; i++)
		json_array_append_new(spans, part_json(&c->span[i]));
	for (uint32_t i = 0; i < c->builds; i++) {
		json_t *part = part_json(&c->build[i]);
		json_object_set_new(part, "build",
		                    json_sprintf("%016llx", (unsigned long long)c->build[i].build));
		json_object_set_new(part, "name", json_name(c->build_name[i]));
		json_array_append_new(builds, part);
	}
	json_object_del(json, "first");
	json_object_del(json, "at_ms");
	json_object_set_new(json, "target", json_real(0.95));
	json_object_set_new(json, "killed", json_integer(c->killed));
	json_object_set_new(json, "over_time", spans);
	json_object_set_new(json, "builds", builds);
	return json;
}
