#ifndef ENGINE_ADAPTER_H
#define ENGINE_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/conf.h"
#include "engine/endpoint.h"
#include "engine/routes.h"
#include "engine/tuning.h"
#include "engine/words.h"

/*
 * adapter - how to start, check, address, drain and stop one kind of engine.
 *
 * Mostly data: what differs between kinds is a row of values, and the two
 * functions that turn a model into a command line and an address. An adapter
 * knows no process and no loop; the supervisor does.
 */

enum address {
	ADDRESS_UNIX,          /* a socket in our folder: who cannot enter it cannot connect */
	ADDRESS_LOOPBACK,      /* a free port on 127.0.0.1 */
	ADDRESS_LOOPBACK_KEY,  /* the same, and the engine asks for a key that only we know */
};

/* A line of the log tells that loading came this far. */
struct load_stage {
	const char *pattern;
	uint32_t permille;
};

/* Patterns in lines of the log; NULL-terminated lists. */
struct log_patterns {
	const struct load_stage *stages;  /* ends with a NULL pattern */
	const char *const *ready_hints;   /* worth asking for its health at once */
	const char *const *telling;       /* such a line may say why it ended */
	const char *const *hopeless;      /* no other try would change it: the file or the flags */
};

struct drain_rule {
	uint32_t term_again_ms; /* after the first TERM; 0 = no second one */
	uint32_t kill_ms;       /* after the last TERM */
};

/* Everything that decides a command line. */
struct launch_request {
	const struct conf_model *model;
	uint32_t slots;
	uint32_t context_tokens;     /* per conversation; 0 = as the engine thinks */
	struct launch_tuning tuning;
	const struct endpoint *endpoint;
	const char *const *environment; /* the daemon's own; only harmless names are passed on */
	const char *lazy_library;    /* preloaded; NULL: nothing is */
	const char *lazy_socket;     /* where it is to listen */
	const char *save_folder;     /* where conversations may be saved; NULL: nowhere. Without it none can be erased either */
};

struct launch {
	struct words argv;
	struct words env;
};

struct adapter {
	enum conf_engine kind;
	const char *name;
	const char *health_path;     /* GET; 200 = ready. NULL: the model's `health`; "" = a connection is enough */
	const char *slots_path;      /* GET; tells slots and context. NULL: as asked for */
	struct drain_rule drain;
	struct log_patterns log;
	const char *takes;           /* the paths that clients use it by, for who tried another */
	const struct route_row *routes;
	size_t route_count;
	bool makes_pictures;         /* a request's size says what it takes */
	bool never_streams;          /* a wish to stream is not heard: nothing may be said ahead of its answer */
	/* How it is to be reached; -EINVAL where the model's settings leave no way. */
	int (*address)(const struct conf_model *model, enum address *out, struct err *err);
	/* argv only; -EINVAL with what is wrong in the model's settings. */
	int (*command)(const struct launch_request *request, struct words *argv, struct err *err);
};

/* NULL: this kind of engine cannot be started yet. */
const struct adapter *adapter_of(const struct conf_model *model);

/* argv and environment. On failure nothing is held. */
int adapter_launch(const struct adapter *adapter, const struct launch_request *request,
                   struct launch *out, struct err *err);
void launch_release(struct launch *launch);

/* ${PORT}, ${SOCKET}, ${FILE} and ${MODEL} in `text`; what else stands in ${} stays. The caller frees. */
char *launch_expand(const struct launch_request *request, const char *text);

/* All of `texts`, so replaced, at the end of `argv`. */
void launch_add(const struct launch_request *request, const struct conf_strings *texts,
                struct words *argv);

/* Has the user given one of these flags (separated by blanks) in `args`? */
bool args_have(const struct conf_strings *args, const char *flags);

/* `flag` and, where it is not NULL, `value`; unless the user has given one of `names` himself. */
void launch_unless_given(const struct conf_model *model, struct words *argv, const char *names,
                         const char *flag, const char *value);

/* llama-server's own physical batch, in tokens. */
enum { LLAMA_UBATCH = 512 };
/* The kind of drafting that a draft model of the usual form does, as llama-server calls it. */
#define LLAMA_DRAFTS "draft-simple"

extern const struct adapter adapter_llama;
extern const struct adapter adapter_whisper;
extern const struct adapter adapter_sd;
extern const struct adapter adapter_command;

#endif
