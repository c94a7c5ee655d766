#include "api/experts.h"

#include "base/units.h"

static const struct estimate *mapped_estimate(const struct api *api, uint32_t index)
{
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);

	return estimate && estimate->experts.mapped_bytes > 0 ? estimate : NULL;
}

/* What of its file lies in memory, as far as its engine uses it; -1 = not measured. */
static int64_t measured(const struct api *api, const struct model_view *model)
{
	const struct sample *sample = api->host.sample(api->host.ctx);

	for (uint32_t i = 0; sample && model->pid > 0 && i < sample->owners; i++)
		if (sample->owner[i].pgid == model->pid && sample->owner[i].processes > 0)
			return sample->owner[i].mapped_bytes;
	return -1;
}

/* Why what it maps is not bounded; NULL: it is, or would be. */
static const char *unbounded(const struct api *api, const struct model_view *model)
{
	const struct supervisor *supervisor = api->options.supervisor;
	const char *refused = supervisor_bound_refused(supervisor);

	if (refused || model->pid <= 0 || supervisor_bound_bytes(supervisor, model->instance) > 0)
		return refused;
	return "its control group could not be made, as the log tells";
}

json_t *experts_json(const struct api *api, const struct model_view *model, uint32_t index)
{
	const struct estimate *estimate = mapped_estimate(api, index);

	if (!estimate)
		return json_null();
	int64_t mapped_bytes = measured(api, model);
	int64_t bound_bytes = supervisor_bound_bytes(api->options.supervisor, model->instance);
	return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "total_bytes", (json_int_t)estimate->experts.total_bytes,
	                 "resident_bytes", (json_int_t)estimate->experts.resident_bytes, "counted_bytes",
	                 (json_int_t)estimate->experts.mapped_bytes, "measured_bytes",
	                 mapped_bytes >= 0 ? json_integer(mapped_bytes) : json_null(), "bound_bytes",
	                 bound_bytes > 0 ? json_integer(bound_bytes) : json_null(), "unbounded_reason",
	                 json_name(unbounded(api, model)));
}

void experts_text(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out)
{
	const struct estimate *estimate = mapped_estimate(api, index);
	int64_t mapped_bytes = estimate ? measured(api, model) : -1;
	char bound[UNITS_TEXT], mapped[UNITS_TEXT], counted[UNITS_TEXT], resident[UNITS_TEXT];

	if (mapped_bytes < 0)
		return;
	const char *refused = unbounded(api, model);
	buf_printf(out, "; %s of its mapped file lie in memory, and %s are counted (%s of experts)",
	           units_size(mapped, mapped_bytes), units_size(counted, estimate->experts.mapped_bytes),
	           units_size(resident, estimate->experts.resident_bytes));
	if (refused)
		buf_printf(out, "; no control group bounds it: %s", refused);
	else
		buf_printf(out, "; a control group keeps its engine to %s",
		           units_size(bound, supervisor_bound_bytes(api->options.supervisor, model->instance)));
}
