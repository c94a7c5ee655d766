#include "api/progress.h"

#include "base/units.h"

/* Between these the bytes tell how fast it goes; before and behind them nobody knows. */
enum { PERMILLE_TELLING = 100, PERMILLE_READ = 890 };

static void expect(struct load_progress *progress, int64_t last_load_us)
{
	if (last_load_us > progress->elapsed_us) {
		progress->expected_us = last_load_us;
	} else if (progress->permille >= PERMILLE_TELLING && progress->permille < PERMILLE_READ) {
		/* It takes longer than last time, or there was none: as fast as up to now. */
		progress->expected_us = progress->elapsed_us * 1000 / progress->permille;
	} else {
		progress->left_us = -1;
		return;
	}
	progress->left_us = progress->expected_us - progress->elapsed_us;
}

bool load_progress(const struct supervisor *supervisor, const struct model_view *model, int64_t now_us,
                   struct load_progress *out)
{
	if (model->state != MODEL_LOADING)
		return false;
	*out = (struct load_progress){ .permille = model->permille };
	if (model->loading_since_us && now_us > model->loading_since_us)
		out->elapsed_us = now_us - model->loading_since_us;
	supervisor_load_bytes(supervisor, model->instance, &out->bytes, &out->total_bytes);
	expect(out, model->last_load_us);
	return true;
}

void load_progress_text(const struct load_progress *progress, struct buf *out)
{
	char done[UNITS_TEXT], total[UNITS_TEXT], left[UNITS_TEXT];

	/* A share beside bytes is theirs. That of the whole load, which has more to do than to read, contradicts them. */
	if (progress->total_bytes == 0)
		buf_printf(out, "%u %%", progress->permille / 10);
	else if (progress->bytes >= progress->total_bytes)
		buf_printf(out, "all %s read", units_size(total, progress->total_bytes));
	else
		buf_printf(out, "%d %%, %s of %s", (int)((double)progress->bytes * 100 / (double)progress->total_bytes),
		           units_size(done, progress->bytes), units_size(total, progress->total_bytes));
	if (progress->left_us >= 0)
		buf_printf(out, ", %s left", units_duration(left, progress->left_us));
}
