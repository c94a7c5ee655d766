/*
 * Estimates that learn. What the loads of earlier lives of the daemon taught is
 * folded once at the start and corrects the estimates that the arbiter is given;
 * what loads of this life show is kept for the next one, since within a life the
 * arbiter itself tracks how far estimates are off, and no error is to be
 * corrected twice. One thing acts at once: a load that was killed for memory
 * takes more than it was granted.
 */
#include <stdlib.h>
#include <string.h>

#include "app/shell.h"
#include "app/stored_learned.h"
#include "base/alloc.h"
#include "base/units.h"
#include "engine/told.h"
#include "estimate/calibration.h"

enum { KEPT_MOST = 4096 };

/* The key under which they are stored, beside the arbiter's rows. */
static const uint64_t kept_key = UINT64_C(0x6f62736572766564);

struct kept {
	uint64_t sequence;
	int64_t at_ms;
	uint64_t version;
	struct observation observation;
};
_Static_assert(sizeof(struct kept) != sizeof(struct stored_learned) &&
                       sizeof(struct kept) != sizeof(struct numbered_learned) && sizeof(struct kept) != 96,
               "stored rows are told apart by their size; 96 bytes are what an engine said (shell_asking.c)");

enum { KEPT_VERSION = 1, NAMES_KEPT = 16, NAME_VERSION = 1 };

/* What a build is called, for people. */
struct kept_name {
	uint64_t version;
	uint64_t build;
	char name[CALIBRATION_NAME];
};
_Static_assert(sizeof(struct kept_name) != sizeof(struct stored_learned) &&
                       sizeof(struct kept_name) != sizeof(struct numbered_learned) &&
                       sizeof(struct kept_name) != sizeof(struct kept) &&
                       sizeof(struct kept_name) != sizeof(struct lengths) && sizeof(struct kept_name) != 96,
               "as the store tells them apart");

static const uint64_t name_key = UINT64_C(0x6275696c64206e61);

struct learning {
	struct kept *kept; /* a ring, by sequence */
	uint64_t next;     /* sequence of the next one */
	uint64_t life;     /* the first of this life of the daemon */
	struct kept_name name[NAMES_KEPT]; /* the newest overwrite the oldest */
	uint32_t next_name;
	struct corrector *earlier; /* what the loads of earlier lives taught; NULL: there were none */
};

static void on_kept(void *ctx, const void *row)
{
	struct learning *learning = ctx;
	struct kept kept;

	memcpy(&kept, row, sizeof(kept));
	if (kept.version != KEPT_VERSION)
		return;
	learning->kept[kept.sequence % KEPT_MOST] = kept;
	if (kept.sequence >= learning->next)
		learning->next = kept.sequence + 1;
}

static struct kept_name *find_name(struct learning *learning, uint64_t build)
{
	for (uint32_t i = 0; i < NAMES_KEPT; i++)
		if (learning->name[i].version == NAME_VERSION && learning->name[i].build == build)
			return &learning->name[i];
	return NULL;
}

static void remember_name(struct shell *shell, const struct kept_name *name)
{
	struct learning *learning = shell->learning;
	struct kept_name *place = find_name(learning, name->build);

	if (!place) {
		place = &learning->name[learning->next_name++ % NAMES_KEPT];
		if (place->version == NAME_VERSION && shell->store)
			store_forget_learned(shell->store, place->build, name_key, sizeof(*place));
	}
	*place = *name;
}

static void on_name(void *ctx, const void *row)
{
	struct kept_name name;

	memcpy(&name, row, sizeof(name));
	name.name[sizeof(name.name) - 1] = '\0';
	if (name.version == NAME_VERSION)
		remember_name(ctx, &name);
}

/* Its kind, and its build as it names it; else where it lies. */
static void name_build(struct shell *shell, uint32_t model)
{
	const struct conf_model *conf = &shell->conf->models[model];
	struct kept_name name = { .version = NAME_VERSION, .build = shell->catalogue.rows[model].keys.build };
	struct str build = told_build(supervisor_log(shell->supervisor, conf));
	const struct kept_name *known = find_name(shell->learning, name.build);

	if (build.length == 0)
		build = str_from(conf->engine_path);
	snprintf(name.name, sizeof(name.name), "%s%s%.*s", conf_engine_name(conf->engine), build.length ? " " : "",
	         STR_ARG(build));
	if (known && strcmp(known->name, name.name) == 0)
		return;
	remember_name(shell, &name);
	if (shell->store)
		store_save_learned(shell->store, name.build, name_key, &name, sizeof(name));
}

/* Those before `end`, and when they were where `at_ms` is not NULL. */
static uint32_t in_order(const struct learning *learning, uint64_t end, struct observation **out, int64_t *at_ms)
{
	uint64_t first = learning->next > KEPT_MOST ? learning->next - KEPT_MOST : 1;
	struct observation *all = xcalloc(KEPT_MOST, sizeof(*all));
	uint32_t count = 0;

	for (uint64_t i = first; i < end; i++) {
		const struct kept *kept = &learning->kept[i % KEPT_MOST];
		if (kept->sequence != i)
			continue;
		if (at_ms)
			at_ms[count] = kept->at_ms;
		all[count++] = kept->observation;
	}
	*out = all;
	return count;
}

/* One that nobody estimated, or that is someone else's, teaches nothing. */
static bool is_estimated(const struct shell *shell, uint32_t model)
{
	return model < shell->catalogue.count && !shell->conf->models[model].absent &&
	       shell->catalogue.rows[model].estimate.base_bytes > 0 &&
	       !(shell->catalogue.rows[model].spec.flags & MODEL_DECLARED);
}

void shell_correct_model(struct shell *shell, uint32_t model)
{
	struct catalogue_row *row = &shell->catalogue.rows[model];
	struct correction correction;

	if (!shell->learning->earlier || row->error[0] || !is_estimated(shell, model))
		return;
	correct(shell->learning->earlier, &row->keys, &row->formula, &correction);
	catalogue_correct(row, &correction);
}

static struct corrector *earlier_lives(const struct learning *learning)
{
	struct observation *all;
	uint32_t count = in_order(learning, learning->life, &all, NULL);
	struct corrector *corrector = count > 0 ? corrector_new() : NULL;

	for (uint32_t i = 0; i < count; i++)
		corrector_observe(corrector, &all[i], NULL);
	free(all);
	return corrector;
}

void shell_open_learning(struct shell *shell)
{
	struct learning *learning = xcalloc(1, sizeof(*learning));

	learning->kept = xcalloc(KEPT_MOST, sizeof(*learning->kept));
	learning->next = 1;
	shell->learning = learning;
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct kept), on_kept, learning);
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct kept_name), on_name, shell);
	learning->life = learning->next;
	learning->earlier = earlier_lives(learning);
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		shell_correct_model(shell, i);
}

void shell_close_learning(struct shell *shell)
{
	if (!shell->learning)
		return;
	free(shell->learning->kept);
	if (shell->learning->earlier)
		corrector_free(shell->learning->earlier);
	free(shell->learning);
	shell->learning = NULL;
}

static void keep(struct shell *shell, const struct observation *observation)
{
	struct learning *learning = shell->learning;
	struct kept kept = { .sequence = learning->next++,
		             .at_ms = (shell_now_us() + shell_wall_offset_us()) / US_PER_MS,
		             .version = KEPT_VERSION,
		             .observation = *observation };

	learning->kept[kept.sequence % KEPT_MOST] = kept;
	if (shell->store)
		store_save_learned(shell->store, kept.sequence % KEPT_MOST, kept_key, &kept, sizeof(kept));
}

/* A second context's buffers would be taken for the model's. */
static bool is_alone(const struct conf_model *model)
{
	return !model->draft && !model->mmproj;
}

void shell_learn_load(struct shell *shell, uint32_t model, int64_t measured_bytes)
{
	if (!is_estimated(shell, model) || measured_bytes <= 0)
		return;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	const struct conf_model *conf = &shell->conf->models[model];
	struct observation observation = { .keys = row->keys,
		                           .formula = row->formula,
		                           .total_bytes = measured_bytes };
	if (conf->engine == CONF_ENGINE_LLAMA_SERVER && is_alone(conf))
		observation.compute_bytes = told_compute_bytes(supervisor_log(shell->supervisor, conf));
	keep(shell, &observation);
	name_build(shell, model);
}

void shell_learn_killed(struct shell *shell, uint32_t model)
{
	if (!is_estimated(shell, model))
		return;
	struct catalogue_row *row = &shell->catalogue.rows[model];
	int64_t granted = amount_total(&row->spec.peak);
	struct observation observation = { .keys = row->keys, .formula = row->formula, .killed_bytes = granted };

	keep(shell, &observation);
	catalogue_raise(row, granted + granted / 20);
	shell_push_model(shell, model, false);
}

void shell_calibration(const struct shell *shell, struct calibration *out)
{
	struct observation *all;
	int64_t *at_ms = xcalloc(KEPT_MOST, sizeof(*at_ms));
	uint32_t count = in_order(shell->learning, shell->learning->next, &all, at_ms);

	calibrate(all, at_ms, count, out);
	for (uint32_t i = 0; i < out->builds; i++) {
		const struct kept_name *name = find_name(shell->learning, out->build[i].build);
		if (name)
			str_copy(out->build_name[i], sizeof(out->build_name[i]), str_from(name->name));
	}
	free(all);
	free(at_ms);
}
