/* The tables of a sketch, and what no single value of it tells. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/units.h"
#include "conf/document.h"
#include "sim/sketch.h"

#define MEMBER(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define SKETCH(member) MEMBER(struct sketch, member)
#define MODEL(member) MEMBER(struct sketch_model, member)
#define ASKS(member) MEMBER(struct sketch_asks, member)
#define END { .key = NULL }

#define LARGEST (INT64_C(1) << 50)
#define HOUR (INT64_C(3600) * US_PER_S)
#define LONGEST (240 * HOUR) /* of what is simulated */

static const struct choice classes[] = {
	{ "interactive", 0, NULL, NULL }, { "normal", 1, NULL, NULL }, { "batch", 2, NULL, NULL },
	{ NULL, 0, NULL, NULL },
};

static const struct field asks_fields[] = {
	{ "every", FIELD_DURATION, .flags = FIELD_REQUIRED, ASKS(every_us), .min = 1000, .max = LONGEST,
	  .help = "From one arrival to the next, on average; each independent of the others." },
	{ "priority", FIELD_CHOICE, ASKS(class), .choices = classes, .fallback = "normal",
	  .help = "Whose requests go first." },
	{ "weight", FIELD_DECIMAL, ASKS(weight_milli), .min = CONF_WEIGHT_MIN_MILLI,
	  .max = CONF_WEIGHT_MAX_MILLI, .fallback = "1",
	  .help = "How much a request counts within its priority." },
	{ "at_once", FIELD_INT, ASKS(at_once), .min = 1, .max = 1000, .fallback = "1",
	  .help = "Requests that come together." },
	{ "turns", FIELD_DECIMAL, ASKS(turns_milli), .min = 1000, .max = 1000000, .fallback = "1",
	  .help = "Requests one after the other, on average: the turns of a conversation." },
	{ "think", FIELD_DURATION, ASKS(think_us), .max = LONGEST, .fallback = "25s",
	  .help = "From an answer to the next turn, on average." },
	{ "work", FIELD_DURATION, .flags = FIELD_AUTO, ASKS(work_us), .min = 1, .max = LONGEST,
	  .fallback = "auto", .help = "As the model's `work`, of these alone. auto: the model's." },
	END,
};
static const struct section asks_section = {
	.title = "models.NAME.requests", .fields = asks_fields, .bytes = sizeof(struct sketch_asks),
};

static const char *refuse_name(struct str name)
{
	if (name.length == 0 || name.length >= SCENE_NAME_BYTES)
		return "a name has 1 to 31 characters; try: a shorter one";
	for (size_t i = 0; i < name.length; i++)
		if (name.data[i] == ',' || (unsigned char)name.data[i] <= ' ')
			return "a name has no spaces and no commas; try: a-b_c.d";
	return NULL;
}

static const struct field model_fields[] = {
	{ "footprint", FIELD_SIZE, .flags = FIELD_REQUIRED, MODEL(footprint_bytes), .min = 1, .max = LARGEST,
	  .help = "What it takes loaded and idle: base_bytes of `cotenant estimate FILE --json`." },
	{ "per_request", FIELD_SIZE, MODEL(per_request_bytes), .max = LARGEST, .fallback = "0",
	  .help = "What each running request takes on top: per_request_bytes there." },
	{ "slots", FIELD_INT, MODEL(slots), .min = 1, .max = 65536, .fallback = "1",
	  .help = "Requests at once in the engine." },
	{ "file", FIELD_SIZE, .flags = FIELD_AUTO, MODEL(file_bytes), .max = LARGEST, .fallback = "auto",
	  .help = "What a load reads. auto: as much as the footprint." },
	{ "startup", FIELD_DURATION, MODEL(startup_us), .max = HOUR, .fallback = "2s",
	  .help = "What a load takes beside the reading." },
	{ "load", FIELD_DURATION, .flags = FIELD_AUTO, MODEL(load_us), .min = 1, .max = HOUR, .fallback = "auto",
	  .help = "Instead of `startup`: how long a load from the disk takes in all. auto: by startup and file." },
	{ "work", FIELD_DURATION, MODEL(work_us), .min = 1, .max = LONGEST, .fallback = "10s",
	  .help = "How long a request runs, on average, when nothing else does." },
	{ "spread", FIELD_DECIMAL, MODEL(work_spread_milli), .max = 3000, .fallback = "0.7",
	  .help = "How much that differs: the sigma of its logarithm. 0: all alike." },
	{ "actual", FIELD_DECIMAL, MODEL(actual_milli), .min = 100, .max = 10000, .fallback = "1",
	  .help = "What it really takes over what is written here. No policy is told." },
	{ "swing", FIELD_SIZE, MODEL(swing_bytes), .max = LARGEST, .fallback = "0",
	  .help = "How far its memory swings while it runs (experts): one standard deviation." },
	{ "slows", FIELD_DECIMAL, MODEL(slows_milli), .max = 10000, .fallback = "1",
	  .help = "How much it slows the others while it runs: 1 as a large language model does, 0.3 as embeddings." },
	{ "batching", FIELD_DECIMAL, MODEL(batching_milli), .max = 10000, .fallback = "0.15",
	  .help = "How much each further request slows those in the same engine; 1: as if in turns." },
	{ "pin", FIELD_BOOL, MODEL(pin), .fallback = "false", .help = "true: never evicted." },
	{ "reservation", FIELD_BOOL, MODEL(reservation), .fallback = "false",
	  .help = "true: no model, but another program that asks for so much memory and gives it back after `work`." },
	{ "requests", FIELD_LIST, MODEL(asks), .also = offsetof(struct sketch_model, asks_count),
	  .section = &asks_section, .help = "Who asks for it." },
	END,
};
static const struct section model_section = {
	.title = "models.NAME", .fields = model_fields, .bytes = sizeof(struct sketch_model),
	.name = offsetof(struct sketch_model, name), .refuse_name = refuse_name,
};

static const struct field others_fields[] = {
	{ "use", FIELD_SIZE, .flags = FIELD_AUTO, SKETCH(others_bytes), .max = LARGEST, .fallback = "auto",
	  .help = "What everything but the models takes. auto: an eighth of the memory." },
	{ "most", FIELD_SIZE, .flags = FIELD_AUTO, SKETCH(others_most_bytes), .max = LARGEST, .fallback = "auto",
	  .help = "How far that wanders up. auto: twice as much." },
	{ "burst", FIELD_SIZE, SKETCH(burst_bytes), .max = LARGEST, .fallback = "0",
	  .help = "What a compilation or a browser takes on top, now and then." },
	{ "burst_every", FIELD_DURATION, SKETCH(burst_every_us), .min = US_PER_S, .max = LONGEST, .fallback = "30m",
	  .help = "How often, on average." },
	{ "burst_lasts", FIELD_DURATION, SKETCH(burst_lasts_us), .min = US_PER_S, .max = LONGEST, .fallback = "5m",
	  .help = "And for how long, on average." },
	END,
};
static const struct section others_section = { .title = "machine.others", .fields = others_fields };

static const struct field machine_fields[] = {
	{ "memory", FIELD_SIZE, .flags = FIELD_REQUIRED, SKETCH(memory_bytes), .min = 1, .max = LARGEST,
	  .help = "All there is: with more in use the machine is out of memory." },
	{ "disk", FIELD_SIZE, SKETCH(disk_bytes), .min = 1, .max = LARGEST, .fallback = "3GB",
	  .help = "Read from the disk in a second." },
	{ "cache", FIELD_SIZE, SKETCH(cache_bytes), .min = 1, .max = LARGEST, .fallback = "9GB",
	  .help = "The same of a file that lies in the page cache." },
	{ "others", FIELD_GROUP, .section = &others_section, .help = "The memory of everything else." },
	END,
};
static const struct section machine_section = { .title = "machine", .fields = machine_fields };

static const struct field sketch_fields[] = {
	{ "machine", FIELD_GROUP, .flags = FIELD_REQUIRED, .section = &machine_section, .help = "The machine." },
	{ "hours", FIELD_DURATION, SKETCH(hours_us), .min = 60 * US_PER_S, .max = LONGEST, .fallback = "6h",
	  .help = "How long new work comes." },
	{ "models", FIELD_TABLE, .flags = FIELD_REQUIRED, SKETCH(models),
	  .also = offsetof(struct sketch, models_count), .section = &model_section, .help = "The models, by name." },
	END,
};
static const struct section sketch_section = {
	.title = "the file", .fields = sketch_fields, .bytes = sizeof(struct sketch),
};

static const char preface[] =
	"# A machine of your own, for the simulator\n"
	"\n"
	"Every key of the file that `cotenant lab sim FILE.yaml` plays, generated from the table\n"
	"that reads it (`src/sim/sketch_read.c`). `my-machine.yaml` beside this page is one; what\n"
	"the simulator makes of it stands in `simulator.md`.\n"
	"\n"
	"- Sizes take KiB, MiB, GiB, TiB, KB, MB, GB, TB, or are bytes; times take us, ms, s, m, h, d.\n"
	"- A key that begins with `x-` is yours. Any other unknown key is an error.\n";

void sketch_docs(struct buf *out)
{
	buf_append_str(out, str_from(preface));
	section_docs(&sketch_section, false, out);
}

/* ---- what no single value tells ---- */

static void check_room(const struct sketch *sketch, const struct sketch_model *model,
                       const struct node *at, struct problems *problems)
{
	char takes[UNITS_TEXT], has[UNITS_TEXT];
	int64_t others = sketch->others_bytes < 0 ? sketch->memory_bytes / 8 : sketch->others_bytes;
	int64_t room = sketch->memory_bytes - others;
	double need = (double)(model->footprint_bytes + model->per_request_bytes) * (double)model->actual_milli / 1000;

	if (need <= (double)room)
		return;
	problem_error(problems, at->key->at,
	              "models.%s: it takes %s with one request, and %s is all that others leave; try: a "
	              "smaller footprint, or more memory",
	              model->name, units_size(takes, (int64_t)need), units_size(has, room));
}

static void check_load(const struct sketch *sketch, const struct sketch_model *model,
                       const struct node *at, struct problems *problems)
{
	const struct node *load = node_child(at, "load");
	int64_t file = model->file_bytes < 0 ? model->footprint_bytes : model->file_bytes;
	double reads_us = (double)file / (double)sketch->disk_bytes * (double)US_PER_S;
	char takes[UNITS_TEXT];

	if (model->load_us < 0 || reads_us <= (double)model->load_us)
		return;
	problem_error(problems, load->at,
	              "models.%s.load: the disk needs %s for its file alone; try: a larger machine.disk, or a "
	              "smaller file", model->name, units_duration(takes, (int64_t)reads_us));
}

static void check(const void *values, const struct node *root, struct problems *problems)
{
	const struct sketch *sketch = values;
	const struct node *models = node_child(root, "models");
	const struct place whole = { 0, 0 };

	if (!sketch->memory_bytes || !sketch->models_count) {
		problem_error(problems, whole,
		              "it says nothing of a machine and its models; try: machine: {memory: 64GiB} and models:");
		return;
	}
	if (sketch->models_count > SCENE_MODELS_MAX) {
		problem_error(problems, models->at, "models: more than %d; try: fewer", SCENE_MODELS_MAX);
		return;
	}
	for (size_t i = 0; i < sketch->models_count; i++) {
		const struct node *at = node_child(models, sketch->models[i].name);
		check_room(sketch, &sketch->models[i], at, problems);
		check_load(sketch, &sketch->models[i], at, problems);
	}
	if (sketch_requests(sketch, 1, 0) > SKETCH_REQUESTS_MAX)
		problem_error(problems, whole, "more than a million requests; try: a longer every, or fewer hours");
}

static const struct document document = {
	.root = &sketch_section, .instead = "cotenant lab sim FILE.yaml", .check = check,
};

struct sketch *sketch_read(const char *path, struct buf *told)
{
	struct sketch *sketch = xcalloc(1, sizeof(*sketch));
	const char *slash = strrchr(path, '/');
	struct str rest, title = str_cut(str_from(slash ? slash + 1 : path), '.', &rest);

	str_copy(sketch->title, sizeof(sketch->title), title);
	if (document_load(&document, path, sketch, told))
		return sketch;
	sketch_free(sketch);
	return NULL;
}

void sketch_free(struct sketch *sketch)
{
	if (!sketch)
		return;
	section_free(&sketch_section, sketch);
	free(sketch);
}
