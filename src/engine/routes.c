#include "engine/routes.h"

#include <stdio.h>

#include "conf/conf.h"
#include "engine/adapter.h"

static bool matches(struct str pattern, struct str method, struct str path)
{
	struct str wanted_path;
	struct str wanted_method = str_cut(pattern, ' ', &wanted_path);

	wanted_path = str_trim(wanted_path);
	if (!str_equal(wanted_method, method))
		return false;
	if (!str_ends(wanted_path, "*"))
		return str_equal(wanted_path, path);
	wanted_path.length--;
	return path.length > wanted_path.length &&
	       str_equal(wanted_path, (struct str){ path.data, wanted_path.length });
}

static bool any_matches(const struct conf_strings *patterns, struct str method, struct str path)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (matches(str_from(patterns->items[i]), method, path))
			return true;
	return false;
}

struct route_row route_find(const struct conf_model *model, struct str method, struct str path)
{
	struct str query;
	const struct adapter *adapter = adapter_of(model);

	path = str_cut(path, '?', &query);
	if (any_matches(&model->routes_work, method, path))
		return (struct route_row){ .route = ROUTE_WORK };
	if (any_matches(&model->routes_look, method, path))
		return (struct route_row){ .route = ROUTE_LOOK };
	if (any_matches(&model->routes_change, method, path))
		return (struct route_row){ .route = ROUTE_CHANGE };
	for (size_t i = 0; adapter && i < adapter->route_count; i++)
		if (matches(str_from(adapter->routes[i].pattern), method, path))
			return adapter->routes[i];
	bool reads = str_is(method, "GET") || str_is(method, "HEAD") || str_is(method, "OPTIONS");
	return (struct route_row){ .route = reads ? ROUTE_LOOK : ROUTE_CHANGE, .unknown = true };
}

enum route route_of(const struct conf_model *model, struct str method, struct str path)
{
	return route_find(model, method, path).route;
}

bool route_is_background(const struct conf_model *model, struct str method, struct str path)
{
	struct route_row row = route_find(model, method, path);

	return row.route == ROUTE_WORK && row.background;
}

struct str route_target(const struct conf_model *model, struct str method, struct str path)
{
	struct route_row row = route_find(model, method, path);

	return row.target ? str_from(row.target) : path;
}

bool route_is_work_somewhere(struct str method, struct str path)
{
	static const struct adapter *const adapters[] = { &adapter_llama, &adapter_whisper, &adapter_sd };

	for (size_t i = 0; i < sizeof(adapters) / sizeof(adapters[0]); i++)
		for (size_t j = 0; j < adapters[i]->route_count; j++)
			if (adapters[i]->routes[j].route == ROUTE_WORK &&
			    matches(str_from(adapters[i]->routes[j].pattern), method, path))
				return true;
	return false;
}

static const char *const methods[] = { "GET", "POST", "PUT", "PATCH", "DELETE" };
enum { METHODS = sizeof(methods) / sizeof(methods[0]) };

uint32_t route_methods(const struct conf_model *model, struct str path)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < METHODS; i++)
		if (!route_find(model, str_from(methods[i]), path).unknown)
			set |= 1u << i;
	return set;
}

const char *route_methods_text(char out[ROUTE_METHODS_TEXT], uint32_t set)
{
	size_t length = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < METHODS; i++)
		if (set & 1u << i)
			length += (size_t)snprintf(out + length, ROUTE_METHODS_TEXT - length, "%s%s",
			                           length ? ", " : "", methods[i]);
	return out;
}
