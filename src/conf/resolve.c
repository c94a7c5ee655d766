#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "conf/conf.h"

enum { NEAR_MAX = 3 };

/* * matches any bytes, none too. Backtracks to the last * only, so it is quadratic at worst. */
static bool matches(const char *pattern, struct str name)
{
	const char *star = NULL;
	size_t i = 0, resume = 0;

	while (i < name.length) {
		if (*pattern == '*') {
			star = ++pattern;
			resume = i;
		} else if (*pattern == name.data[i] && *pattern) {
			pattern++;
			i++;
		} else if (star) {
			pattern = star;
			i = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

static int find_exact(const struct conf *conf, struct str name)
{
	for (size_t i = 0; i < conf->model_count; i++)
		if (!conf->models[i].absent && str_is(name, conf->models[i].name))
			return (int)i;
	return -1;
}

static int find_alias(const struct conf *conf, struct str name)
{
	for (size_t i = 0; i < conf->alias_count; i++)
		if (str_is(name, conf->aliases[i].name))
			return find_exact(conf, str_from(conf->aliases[i].models.items[0]));
	for (size_t i = 0; i < conf->model_count; i++) {
		const struct conf_strings *aliases = &conf->models[i].aliases;
		for (size_t j = 0; j < aliases->count; j++)
			if (str_is(name, aliases->items[j]))
				return (int)i;
	}
	return -1;
}

static int find_pattern(const struct conf *conf, struct str name)
{
	for (size_t i = 0; i < conf->model_count; i++) {
		const struct conf_strings *aliases = &conf->models[i].aliases;
		for (size_t j = 0; j < aliases->count; j++)
			if (strchr(aliases->items[j], '*') && matches(aliases->items[j], name))
				return (int)i;
	}
	return -1;
}

const struct conf_set *conf_set_of(const struct conf *conf, const char *model)
{
	for (size_t i = 0; i < conf->set_count; i++)
		for (size_t j = 0; j < conf->sets[i].models.count; j++)
			if (strcmp(conf->sets[i].models.items[j], model) == 0)
				return &conf->sets[i];
	return NULL;
}

const struct conf_set *conf_set_named(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->set_count; i++)
		if (strcmp(conf->sets[i].name, name) == 0)
			return &conf->sets[i];
	return NULL;
}

struct near_name {
	const char *name;
	unsigned distance;
};

/* Keep the nearest of what is near at all, first come first where they are as near. */
static void consider(struct near_name best[NEAR_MAX], struct str name, const char *candidate)
{
	struct near_name moved = { candidate, str_mistakes(name, str_from(candidate)) };

	if (moved.distance == UINT_MAX)
		return;
	for (size_t i = 0; i < NEAR_MAX; i++) {
		if (best[i].name && best[i].distance <= moved.distance)
			continue;
		struct near_name pushed = best[i];
		best[i] = moved;
		moved = pushed;
		if (!moved.name)
			return;
	}
}

static void find_near(const struct conf *conf, struct str name, struct buf *out)
{
	struct near_name best[NEAR_MAX] = { { NULL, 0 } };

	for (size_t i = 0; i < conf->model_count; i++) {
		const struct conf_strings *aliases = &conf->models[i].aliases;
		if (conf->models[i].absent)
			continue;
		consider(best, name, conf->models[i].name);
		for (size_t j = 0; j < aliases->count; j++)
			if (!strchr(aliases->items[j], '*'))
				consider(best, name, aliases->items[j]);
	}
	for (size_t i = 0; i < conf->alias_count; i++)
		consider(best, name, conf->aliases[i].name);
	for (size_t i = 0; i < NEAR_MAX && best[i].name; i++)
		buf_printf(out, "%s%s", i ? ", " : "", best[i].name);
}

int conf_resolve(const struct conf *conf, struct str name, struct buf *near)
{
	int found = find_exact(conf, name);

	if (found < 0)
		found = find_alias(conf, name);
	if (found < 0)
		found = find_pattern(conf, name);
	if (found < 0 && near)
		find_near(conf, name, near);
	return found;
}
