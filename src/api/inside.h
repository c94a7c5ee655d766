#ifndef API_INSIDE_H
#define API_INSIDE_H

#include <jansson.h>

#include "api/api.h"
#include "api/metrics.h"
#include "api/past.h"
#include "api/sentence.h"
#include "api/value.h"
#include "base/list.h"

/*
 * inside - what the files of this layer share: the api itself, who may see
 * what, and the JSON of what several of them show.
 */
struct api {
	struct api_options options;
	struct api_host host;
	struct names names;
	struct metrics metrics;
	struct past past;
	struct list followers; /* event streams */
	struct list log_followers;
	struct list sweeps;    /* unloads of all that are idle */
	struct list commands;  /* loads, unloads, stops that wait for a verdict */
	struct list queries;   /* history on the store's thread */
	struct list waiting;   /* callers whose answers need time */
	uint32_t follower_count, log_follower_count;
};

/* One endpoint; `name` is the decoded segment of the path where the route has one, else "". */
typedef void api_handler(struct api *api, struct call *call, const char *name);

api_handler handle_models, handle_model;                                  /* model.c */
api_handler handle_logs;                                                  /* logs.c */
api_handler handle_load, handle_unload, handle_stop, handle_pin, handle_unpin; /* command.c */
api_handler handle_eject, handle_eject_all, handle_eject_named, handle_load_named; /* eject.c */
api_handler handle_plan, handle_why, handle_decisions;                    /* why.c */
api_handler handle_conversations;                                         /* conversations.c */
api_handler handle_requests, handle_request, handle_cancel;               /* requests.c */
api_handler handle_events;                                                /* events.c */
api_handler handle_history;                                               /* history.c */
api_handler handle_memory, handle_compact, handle_calibration, handle_health, handle_root, handle_config, handle_reload;   /* daemon.c */
api_handler handle_openai_models, handle_openai_model, handle_ollama_version, handle_ollama_tags,
	handle_ollama_ps, handle_ollama_show;                                                 /* lists.c */
api_handler handle_metrics;                                               /* exposition.c */

/* ---- answers ---- */

/* Takes over the reference. */
void api_reply(struct call *call, int status, json_t *value);
/* 404 for a model, with the nearest names. */
void api_no_model(struct api *api, struct call *call, const char *name);

/* ---- who sees what ---- */

/* A key may be limited to some models. */
bool api_may_see(const struct api *api, const struct call *call, uint32_t model);
/* A caller with a key of role use sees its own requests alone. */
bool api_may_see_key(const struct call *call, const char *key_name);

/*
 * The model that `name` means, by name or alias, as far as the caller may see
 * it; MODEL_NONE after answering 404.
 */
uint32_t api_resolve(struct api *api, struct call *call, const char *name, struct model_view *out);
/* The configuration's row of a model of the arbiter; NULL where it is gone. */
const struct conf_model *api_conf_model(const struct api *api, uint32_t model);

/* ---- values ---- */

int64_t api_epoch_ms(const struct api *api, int64_t at_us); /* 0 stays 0 */
/* As the caller may read it: models that his key may not use have no name. */
json_t *api_decision_json(const struct api *api, const struct call *call, const struct decision *decision);
/* Names for a caller; lives as long as `seen`. */
struct seen {
	const struct api *api;
	const struct call *call;
};
struct names api_names_for(struct seen *seen);
/* "<boot>-<sequence>" of this boot. */
bool api_parse_id(const struct api *api, const char *text, uint64_t *out_sequence);
/* A live or lately ended request; NULL where there is none that the caller may see. requests.c */
json_t *api_request_json(struct api *api, const struct call *call, uint64_t sequence);
void api_no_request(struct call *call, const char *id);
/* The largest context that could be granted now: as launched; where KV follows use, as far as there is room. */
int64_t api_context_now(const struct api *api, const struct model_view *model, uint32_t index);
/* Where what it is reckoned with comes from: "formula", "engine", "memo", "learned", "declared"; "none". */
const char *api_estimate_source(const struct api *api, const struct model_view *model, uint32_t index);
/* "; its KV follows use: ..." or why it does not; nothing where there is no such cache. */
void api_replaced_text(const struct api *api, uint32_t index, struct buf *out); /* "; ...", or nothing */
void api_kv_text(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out);
/* A string, or null where its file and program are as they should be. */
json_t *fault_json(const struct api *api, uint32_t model);
json_t *api_model_json(const struct api *api, const struct model_view *model, uint32_t index);

/* Further parts of /metrics. exposition_use.c */
void put_sets(const struct api *api, const struct call *call, struct buf *out);
void put_pace(const struct arbiter *arbiter, struct buf *out);

/* Into the history, without waiting for it. keep.c */
void keep_decision(struct api *api, const struct decision *decision);
void keep_request(struct api *api, const struct past_request *row);

void events_publish(struct api *api, const struct decision *decision); /* events.c */
void events_end(struct api *api);
void logs_end(struct api *api);                                        /* logs.c */
/* `flags`: enum request_flag. command.c */
void command_begin(struct api *api, struct call *call, const char *name, enum request_kind kind,
                   uint32_t flags);
void sweeps_end(struct api *api);                                      /* eject.c */
bool commands_cancel(struct api *api, uint64_t sequence);              /* command.c */
void commands_end(struct api *api);                                    /* command.c */
void queries_end(struct api *api);                                     /* history.c */
void callers_end(struct api *api); /* daemon.c */

#endif
