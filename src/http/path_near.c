#include "http/path_near.h"

#include <stdint.h>
#include <string.h>

#include "http/api_shape.h"

/* 0 = the same; UINT32_MAX = nobody would take one for the other. */
static unsigned path_distance(struct str path, struct str candidate)
{
	/* A prefix too many ("/api/v1/chat/completions"), or an end too few ("/v1/chat"). */
	bool has_end = path.length > candidate.length &&
	               str_equal((struct str){ path.data + path.length - candidate.length, candidate.length }, candidate);
	bool is_begun = path.length > 3 && candidate.length > path.length && candidate.data[path.length] == '/' &&
	                str_equal((struct str){ candidate.data, path.length }, path);
	if (has_end || is_begun)
		return 1;
	unsigned distance = str_distance(path, candidate);
	size_t shorter = path.length < candidate.length ? path.length : candidate.length;
	return distance <= 1 + shorter / 5 ? distance : UINT32_MAX;
}

const char *path_nearer(struct str path, const char *best, const char *candidate)
{
	unsigned of_candidate = candidate ? path_distance(path, str_from(candidate)) : UINT32_MAX;

	if (of_candidate == UINT32_MAX)
		return best;
	return best && path_distance(path, str_from(best)) <= of_candidate ? best : candidate;
}

/* What programs look at that know another manager (llama-swap, LM Studio), and where that stands here. */
static const char *path_elsewhere(struct str path)
{
	static const char *const places[][2] = {
		{ "/running", "/api/v1/models?loaded=1" },
		{ "/logs", "/api/v1/models/MODEL/logs" },
		{ "/logs/stream", "/api/v1/models/MODEL/logs?follow=1" },
		{ "/api/events", "/api/v1/events" },
		{ "/api/v0/models", "/api/v1/models" },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (str_is(path, places[i][0]))
			return places[i][1];
	return NULL;
}

const char *path_near(struct str path, const char *best)
{
	const char *pattern, *elsewhere = path_elsewhere(path);

	if (elsewhere)
		return elsewhere;

	for (size_t i = 0; (pattern = api_shape_pattern(i)); i++)
		if (!strchr(pattern, '*'))
			best = path_nearer(path, best, pattern);
	return best;
}
