#include "sim/scene.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void scene_free(struct scene *scene)
{
	free(scene->session);
	free(scene->step);
	scene->session = NULL;
	scene->step = NULL;
	scene->sessions = scene->steps = scene->sessions_room = scene->steps_room = 0;
}

void scene_add_session(struct scene *scene, double start_s)
{
	if (scene->sessions == scene->sessions_room) {
		scene->sessions_room = scene->sessions_room ? 2 * scene->sessions_room : 256;
		scene->session = xrealloc(scene->session,
		                          scene->sessions_room * sizeof(*scene->session));
	}
	scene->session[scene->sessions++] =
		(struct scene_session){ .start_s = start_s, .first = scene->steps };
}

void scene_add_step(struct scene *scene, const struct scene_step *step)
{
	if (scene->steps == scene->steps_room) {
		scene->steps_room = scene->steps_room ? 2 * scene->steps_room : 1024;
		scene->step = xrealloc(scene->step, scene->steps_room * sizeof(*scene->step));
	}
	scene->step[scene->steps++] = *step;
	scene->session[scene->sessions - 1].count++;
}

static int by_start(const void *x, const void *y)
{
	const struct scene_session *a = x, *b = y;

	if (a->start_s != b->start_s)
		return a->start_s < b->start_s ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

void scene_sort(struct scene *scene)
{
	if (scene->sessions)
		qsort(scene->session, scene->sessions, sizeof(*scene->session), by_start);
}
