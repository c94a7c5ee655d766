#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/*
 * conf - cotenant.yaml as values.
 *
 * A configuration is immutable once loaded: a reload makes a new one and the
 * daemon compares. Every key is a row of one table (conf/schema.c): name, type,
 * default, what a reload does with it, help. The table is what parses, prints
 * (`cotenant config`), documents (doc/config.md) and spells ("did you mean").
 *
 * Ownership: everything hangs on the struct conf and dies with conf_free().
 * Strings are never NULL unless the field says so; `~/` in paths is expanded,
 * `${env.NAME}` and `${PORT}`-like macros are replaced after splitting, and
 * secrets (api_keys[].key) are never printed or logged.
 */

enum conf_engine {
	CONF_ENGINE_UNSET, /* to be told from the file */
	CONF_ENGINE_LLAMA_SERVER,
	CONF_ENGINE_WHISPER_SERVER,
	CONF_ENGINE_SD_SERVER,
	CONF_ENGINE_COMFYUI,
	CONF_ENGINE_VLLM,
	CONF_ENGINE_OLLAMA,
	CONF_ENGINE_COMMAND,
	CONF_ENGINE_COUNT,
};

enum conf_kv { CONF_KV_LAZY, CONF_KV_ELASTIC, CONF_KV_FIXED };
enum conf_role { CONF_ROLE_USE, CONF_ROLE_ADMIN };

#define CONF_AUTO INT64_C(-1)   /* sizes, margins: `auto` */
#define CONF_NEVER INT64_C(-1)  /* durations: `never` */
#define CONF_BY_POWER INT64_C(-2) /* durations: `auto`, by where the power comes from */

/* A weight, of a model, a key or a request (X-Cotenant-Weight), in thousandths. */
enum { CONF_WEIGHT_MIN_MILLI = 1, CONF_WEIGHT_MAX_MILLI = 1000000 };

struct conf_strings {
	char **items;
	size_t count;
};

struct conf_listen {
	char *host;     /* "127.0.0.1", "::1"; NULL for a unix socket */
	uint16_t port;
	char *path;     /* unix socket; NULL for TCP */
	bool loopback;  /* only this machine can reach it */
};

struct conf_pair {
	char *name;
	char *value;
};

struct conf_pairs {
	struct conf_pair *items;
	size_t count;
};

struct conf_named_engine { /* engines: {stable: {kind, path}} */
	char *name;
	enum conf_engine kind;
	char *path;
};

struct conf_place {             /* from 1; 0 = the file as a whole */
	uint32_t line, column;
};

struct conf_model {
	char *name;
	bool absent;                /* went with a reload: keeps its index, nothing else (conf_align) */
	struct conf_place at;       /* where it stands in the file, for messages; its key */
	struct conf_place file_at;  /* its file, and what names its program; as `at` where it has none */
	struct conf_place program_at;
	enum conf_engine engine;
	char *engine_name;          /* as written: a kind or a name of `engines` */
	char *engine_path;          /* program to run; NULL = the kind's own name, looked up in PATH */
	char *file;                 /* NULL where there is none */
	char *mmproj;               /* NULL */
	char *draft;                /* NULL */
	struct conf_strings lora;
	int64_t context_min;        /* tokens; 0 = not given */
	int64_t context_max;        /* tokens; CONF_AUTO = the model's own, as far as it fits */
	bool context_fixed;         /* a plain number was given */
	int64_t slots;
	bool slots_given;
	char *kv_type;              /* "f16", "q8_0", ... */
	enum conf_kv kv;
	int64_t kv_keep_bytes;      /* 0 = not given */
	struct conf_strings args;   /* split, not expanded by any shell */
	char *device;               /* auto, cpu, gpu or a name */
	uint32_t priority;          /* enum priority of core/event.h, same order */
	uint32_t weight_milli;
	bool pin;
	bool preload;
	bool autoload;
	int64_t unload_after_us;    /* CONF_NEVER, CONF_BY_POWER */
	int64_t stall_timeout_us;   /* CONF_NEVER */
	int64_t start_timeout_us;   /* CONF_NEVER */
	int64_t drain_timeout_us;
	int64_t queue;
	int64_t reply_tokens;
	int64_t early_headers_after_us;
	struct conf_strings aliases; /* a trailing or embedded * matches anything */
	struct conf_pairs env;
	char *filters_set;          /* JSON object as text, "{}" where none */
	struct conf_strings filters_strip;
	int64_t experts_resident_bytes; /* 0 = not given */
	bool on_disconnect_finish;  /* false: cancel */
	struct conf_strings normalise;
	struct conf_strings routes_work;   /* "POST /tts" */
	struct conf_strings routes_look;
	struct conf_strings routes_change;
	bool local;
	bool forward_auth;
	char *cmd;                  /* engine command; NULL */
	struct conf_strings cmd_argv; /* cmd split as a shell would, ${PORT} left in place */
	char *url;                  /* "http://host[:port]": a server already running; NULL */
	char *url_authority;        /* of url: "host[:port]"; NULL */
	char *url_host;             /* ... without port and brackets; NULL */
	uint16_t url_port;          /* ... 80 where it names none */
	char *health;               /* path, "/health" by default */
	int64_t footprint_bytes;    /* declared; 0 = not given */
	char *models_dir;           /* comfyui; NULL */
};

struct conf_alias {             /* aliases: {fast: {models: [...]}, coder: {model: ..., filters: ...}} */
	char *name;
	struct conf_strings models; /* one or more, first choice first */
	char *model;                /* NULL once loaded: it is in `models` */
	char *filters_set;          /* JSON text, "{}" where none */
	struct conf_strings filters_strip;
};

struct conf_set {               /* sets: {voice: {models: [stt, chat, tts], first_byte: 1.5s}} */
	char *name;
	struct conf_strings models; /* two or more, each in this set alone */
	int64_t first_byte_us;      /* the target; 0 = none */
};

struct conf_side {              /* side_traffic: what makes a request background */
	char *name;
	struct conf_strings says;   /* one of these stands in the body; * is up to 60 bytes of anything */
	int64_t prompt_max_bytes;
	int64_t max_tokens;         /* the request asks for no more; 0 = not looked at */
	struct conf_strings alias;  /* whichever of these is resident answers; empty = as asked */
};

struct conf_key {
	char *key;                  /* secret: never printed */
	char *name;
	enum conf_role role;
	struct conf_strings models; /* empty = all */
	uint32_t priority_max;
	uint32_t weight_max_milli;
	int64_t lease_max_permille;
	int64_t requests_per_min;   /* 0 = unlimited */
	int64_t parallel;
	int64_t tokens_per_day;     /* 0 = unlimited */
};

struct conf_written;            /* how strings with ${env.NAME} stood in the file (conf/written.h) */

struct conf {
	char *path;                 /* the file it came from */
	bool is_blank;              /* the file says nothing: it is empty, or holds comments alone */
	struct conf_written *written; /* so that print shows no secret */
	size_t written_count;
	struct conf_pairs macros;   /* used up: their texts stand where they were named */
	struct conf_model defaults; /* `defaults:`; only the numbers it has keys for */

	struct conf_listen *listen;
	size_t listens;

	int64_t memory_limit_bytes;   /* CONF_AUTO */
	int64_t memory_margin_permille; /* CONF_AUTO */
	int64_t memory_reserve_bytes; /* CONF_AUTO */

	uint32_t compact_when;        /* 0 auto, 1 never */
	char *compact_quiet;          /* "03:00-05:00" */

	uint32_t policy;              /* enum policy of core/event.h, same order */
	int64_t limit_models;
	int64_t limit_requests;
	int64_t limit_leases;
	int64_t body_each_bytes;
	int64_t body_memory_bytes;
	int64_t body_spill_bytes;
	int64_t body_within_us;       /* CONF_NEVER */
	int64_t adopt_window_us;
	char *socket_group;           /* NULL */
	char *socket_admin_group;     /* NULL */
	struct conf_strings hosts;
	struct conf_strings cors;
	bool local_admin;
	bool inhibit_sleep;           /* while busy */
	char *state_dir;              /* resolved: $STATE_DIRECTORY or ~/.local/state/cotenant */

	struct conf_named_engine *engines;
	size_t engine_count;
	struct conf_model *models;
	size_t model_count;
	struct conf_alias *aliases;
	size_t alias_count;
	struct conf_set *sets;
	size_t set_count;
	struct conf_side *sides;
	size_t side_count;
	struct conf_key *keys;
	size_t key_count;
};

/*
 * Read and validate. Every problem found (up to 32) is written to `problems`,
 * one "file:line:column: error: what is wrong; try: what to write instead" a
 * line, in the order of the file; NULL is returned if any is an error, warnings
 * ("warning:") alone still return the configuration. The caller frees it.
 */
struct buf;
struct conf *conf_load(const char *path, struct buf *problems);
void conf_free(struct conf *conf);

/*
 * The file to load: `given` or $COTENANT_CONFIG as they are, else the first of
 * ./cotenant.yaml, ~/.config/..., /etc/... that exists. Caller frees; NULL = none.
 */
char *conf_find(const char *given);

/*
 * The model a client's name means: exact name, exact alias, then patterns. The
 * nearest names for a 404 go to `near` (comma-separated) where it is not NULL.
 * Returns its index, or -1.
 */
int conf_resolve(const struct conf *conf, struct str name, struct buf *near);

/* The kind of engine that runs this model file, by its name or how it begins; NULL: they do not tell. */
const char *conf_engine_of_file(const char *path);

/* The set that a model is in; NULL: none. */
const struct conf_set *conf_set_of(const struct conf *conf, const char *model);

/* The set of that name; NULL: none. A set is no model: its models are asked for by their own names. */
const struct conf_set *conf_set_named(const struct conf *conf, const char *name);

/* Print the effective configuration as YAML, secrets as "***". */
void conf_print(const struct conf *conf, struct buf *out);
/* ... as JSON. */
void conf_print_json(const struct conf *conf, struct buf *out);
/* The reference documentation (Markdown) from the schema table. */
void conf_print_docs(struct buf *out);

/*
 * What a reload from `old` to `new` means; a line for each difference goes to
 * `report` where it is not NULL. Secrets are not in it.
 */
enum conf_change {
	CONF_CHANGE_NONE,
	CONF_CHANGE_LIVE,    /* takes effect at once, models' own settings too */
	CONF_CHANGE_MODELS,  /* models came or went, or some must start anew */
	CONF_CHANGE_RESTART, /* something that only a restart can change */
};
enum conf_change conf_compare(const struct conf *old, const struct conf *new, struct buf *report);

/* The first of the model's `args` that is not the user's to give: it is chosen for each start. NULL: none. */
const char *conf_reserved_flag(const struct conf_model *model);

/* A server that somebody else runs: it is neither started nor ended. */
bool conf_is_outside(const struct conf_model *model);

/* The same in every value (where it stands in the file does not count). */
bool conf_model_equal(const struct conf_model *a, const struct conf_model *b);
/* NONE, LIVE, or MODELS where an engine that runs for `a` does not serve for `b`. */
enum conf_change conf_model_compare(const struct conf_model *a, const struct conf_model *b);

/*
 * Give every model of `next` the index it has in `old`, so that an index means
 * one model for as long as the daemon runs. New models come behind, or take a row
 * that was absent before and is not `in_use`; models that went stay as absent
 * rows, which no name resolves to and nothing prints.
 */
void conf_align(struct conf *next, const struct conf *old, bool (*in_use)(void *ctx, size_t index),
                void *ctx);

const char *conf_engine_name(enum conf_engine engine);

#endif
