/* A recorded load, one request a line. Nothing in it is trusted beyond its type and its bounds. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "sim/scene.h"

enum { LINE_BYTES = 256, LINES_MAX = 1 << 20, COLUMNS = 4 };

static const uint64_t time_most_ms = UINT64_C(366) * 86400000;

static bool model_named(const struct scene *scene, struct str name, uint32_t *out)
{
	for (uint32_t m = 0; m < scene->models; m++) {
		if (!str_is(name, scene->model[m].name))
			continue;
		*out = m;
		return true;
	}
	return false;
}

static bool class_named(struct str name, uint32_t *out)
{
	static const char *const names[SCENE_CLASSES] = { "interactive", "normal", "batch" };

	for (uint32_t class = 0; class < SCENE_CLASSES; class++) {
		if (!str_is(name, names[class]))
			continue;
		*out = class;
		return true;
	}
	return false;
}

/* NULL, or what is wrong with it. */
static const char *read_line(struct scene *scene, struct str line)
{
	struct scene_step step = { .weight = 1 };
	struct str column[COLUMNS], rest = line;
	uint64_t at_ms, takes_ms;

	for (uint32_t i = 0; i < COLUMNS; i++)
		column[i] = str_trim(str_cut(rest, ',', &rest));
	if (!str_to_u64(column[0], &at_ms) || at_ms > time_most_ms)
		return "t_ms is no time in milliseconds (a year at most)";
	if (!model_named(scene, column[1], &step.model))
		return "there is no such model on this machine";
	if (!class_named(column[2], &step.class))
		return "the class is interactive, normal or batch";
	if (!str_to_u64(column[3], &takes_ms) || takes_ms == 0 || takes_ms > time_most_ms)
		return "service_ms is no time in milliseconds";
	step.work_s = step.hint_s = (double)takes_ms / 1000;
	scene_add_session(scene, (double)at_ms / 1000);
	scene_add_step(scene, &step);
	if (scene->horizon_s < (double)at_ms / 1000 + 1)
		scene->horizon_s = (double)at_ms / 1000 + 1;
	return NULL;
}

static int read_lines(struct scene *scene, FILE *file, const char *path, struct err *err)
{
	char text[LINE_BYTES];

	for (uint32_t number = 1; fgets(text, sizeof(text), file); number++) {
		size_t length = strcspn(text, "\r\n");
		struct str line = str_trim((struct str){ text, length });
		if (line.length == 0 || text[0] == '#' || (number == 1 && str_starts(line, "t_ms")))
			continue;
		const char *wrong = read_line(scene, line);
		if (length + 1 >= sizeof(text))
			wrong = "the line is too long";
		if (number > LINES_MAX)
			wrong = "there are too many lines";
		if (wrong)
			return err_set(err, -EBADMSG, "%s:%u: %s", path, number, wrong);
	}
	scene_sort(scene);
	return 0;
}

int scene_arrivals(struct scene *scene, const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	scene->sessions = scene->steps = 0;
	scene->horizon_s = 0;
	int code = read_lines(scene, file, path, err);
	fclose(file);
	return code;
}
