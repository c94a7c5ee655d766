#ifndef ENGINE_ROUTES_H
#define ENGINE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * routes - what a request to an engine means.
 *
 * work loads the model and counts as use; look never loads, wakes, keeps or
 * counts; change alters the engine itself and is ours to do or to refuse. A
 * path that nobody knows is a look with GET, HEAD and OPTIONS, else a change:
 * so what is not understood can neither load a model nor alter an engine.
 *
 * The model's own `routes` come first, then the table of its engine's adapter.
 * A pattern is METHOD PATH; the path may end in a "*" that stands for anything
 * (not for nothing).
 */
enum route {
	ROUTE_WORK,
	ROUTE_LOOK,
	ROUTE_CHANGE,
};

/* How an engine tells of work that goes on behind its answer (gateway/job.h). */
struct job_rule {
	const char *path;     /* behind it the job's number; GET tells how it is */
	const char *cancel;   /* behind the number: POST gives the job up; NULL: it cannot be */
	const char *runs;     /* is in the beginning of that answer until the job is over */
	const char *has_none; /* ... and of one whose job left no result */
};

/* What an answer is made of, where one program serves models of more kinds than one. */
enum makes {
	MAKES_TEXT = 1,    /* an encoder cannot */
	MAKES_VECTORS = 2, /* others do where they were started for it */
	MAKES_SPEECH_TEXT = 4, /* of what it hears: only with a projector */
};

struct route_row {
	const char *pattern;
	enum route route;
	uint32_t makes;     /* enum makes: what the model must be able to; 0 = nothing that is known */
	bool background;    /* work that stands back behind what people wait for */
	bool unknown;       /* nobody knows whether the engine has it */
	bool acts;          /* a look (it loads nothing) that no foreign web page may take */
	bool tells_context; /* a look whose answer says "n_ctx", in its default_generation_settings */
	const char *target; /* the path it has at the engine; NULL: the same */
	const char *counts; /* POST there with the same body tells "input_tokens"; NULL: nobody counts */
	bool counts_texts;  /* ... with the prompt's texts alone, as "content", and tells the tokens themselves */
	bool plain_texts;   /* ... and a special token's name in them is but words to the engine */
	const char *field;  /* "name=value": a field that is put before a form's own; NULL: none */
	const struct job_rule *begins; /* a 202 of it names a job; NULL: it ends with its answer */
	const struct job_rule *shows;  /* a look at one */
};

struct conf_model;

/* What is known of it; `path` as the client sent it, with or without its query. */
struct route_row route_find(const struct conf_model *model, struct str method, struct str path);
enum route route_of(const struct conf_model *model, struct str method, struct str path);
/* The path to ask the engine for, without a query: `path`, or the engine's own name for it. */
struct str route_target(const struct conf_model *model, struct str method, struct str path);
/* Is it work of class background (tokenizing, counting)? */
bool route_is_background(const struct conf_model *model, struct str method, struct str path);

/* Does the adapter of any kind of engine have this as work? A plain command's does not count: it has everything. */
bool route_is_work_somewhere(struct str method, struct str path);

/* By which methods the model's engine knows the path, a set of bits; 0: it does not know it at all. */
uint32_t route_methods(const struct conf_model *model, struct str path);
/* Such a set as text, "GET, POST"; returns `out`. */
enum { ROUTE_METHODS_TEXT = 32 };
const char *route_methods_text(char out[ROUTE_METHODS_TEXT], uint32_t methods);

#endif
