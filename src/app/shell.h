#ifndef APP_SHELL_H
#define APP_SHELL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

#include "api/api.h"
#include "app/baseline.h"
#include "app/catalogue.h"
#include "app/dirs.h"
#include "app/given_back.h"
#include "app/journal.h"
#include "app/leaks.h"
#include "app/leftovers.h"
#include "app/lengths.h"
#include "app/recorder.h"
#include "app/sampler.h"
#include "app/unsaved.h"
#include "app/warmer.h"
#include "base/list.h"
#include "conf/conf.h"
#include "core/arbiter.h"
#include "engine/supervisor.h"
#include "gateway/gateway.h"
#include "io/keeper.h"
#include "probe/danger.h"
#include "store/store.h"

/*
 * shell - the arbiter's hands and senses.
 *
 * Everything that happens (a request, a sample, an engine's end, a timer)
 * becomes an event in one queue; callbacks do nothing else. Once per turn of
 * the loop shell_turn() steps the arbiter through the queue and carries out the
 * actions in their order. So the arbiter is never re-entered, and what it knew
 * at each decision is exactly the events before it: that is what --record
 * keeps.
 *
 * Life cycle: shell_open() -> the loop runs -> EVENT_SHUTDOWN (a signal) ->
 * ACTION_DRAINED -> shell_close() closes what is left and the loop ends.
 */

/* On the disk, since an engine was started. */
enum replaced { REPLACED_NOT, REPLACED_FILE, REPLACED_ENGINE };

/* One engine we started, from the spawn action until its bytes were seen back. */
struct instance_row {
	struct id id;
	uint64_t sequence;
	uint32_t model;
	const struct conf *conf; /* that it was started under */
	bool live;
	bool gone;                          /* its group ended: samples say so */
	double speed;                       /* tokens a second, smoothed; 0 = not known */
	bool woke;                          /* the machine slept since its speed was known */
	bool unobserved;                    /* it is ready, and no sample has seen it so */
	bool stop_wanted;                   /* before it was started: its engine is asked what it takes */
	int64_t unowned_bytes;              /* at its start: see leaks.h; -1 = not known */
	bool loaded_alone;                  /* nobody else came or went while it loaded */
	bool end_noted;                     /* shell_given_back.c: */
	int64_t beside_bytes;               /* nobody's, that it took while it loaded */
	int64_t served_bytes, apart_bytes;  /* in all, and of that may stay behind; as it last served */
	int64_t unowned_last_bytes;         /* and what was nobody's then */
	int64_t spawned_at_us, ready_at_us; /* 0 = not yet */
	struct kept_talk *kept;             /* NULL: its KV does not follow use */
	uint64_t file_key, build_key;       /* of what it was started with */
	enum replaced replaced;
	int64_t hot_most_bytes;             /* of its mapped file that count as used; 0 = all (`experts:`) */
	char file[DIR_PATH_MAX];            /* the mapped model file, for the probe */
};

struct shell_options {
	const char *conf_path;
	const char *record_path; /* NULL */
	bool paranoid;           /* arbiter_check() after every step */
};

/* What the machine had when we started: the room for models follows from it and the configuration. */
struct room_facts {
	int64_t total_bytes;
	int64_t baseline_bytes;
	int64_t default_reserve_bytes;
	int64_t group_bytes; /* that a control group's limit leaves; INT64_MAX = none */
};

enum shell_phase {
	PHASE_SERVING,
	PHASE_DRAINING, /* told to end: running requests finish */
	PHASE_ENDING,   /* told again: they are cut, and engines killed */
	PHASE_CLOSING,  /* everything is being closed; the loop ends by itself */
};

enum { LEFT_BEHIND_MAX = 4 };

struct left_behind {
	struct given_back g;
	char model[MODEL_NAME_BYTES];
	const char *holder; /* who may have it, and what helps */
	char text[300];     /* "" = it is not late yet */
};

struct shell {
	uv_loop_t loop;
	struct shell_options options;
	enum shell_phase phase;
	char owner[LEFTOVERS_MARK]; /* in the environment of engines; "" = nowhere to keep it */
	char boot_id[9];
	char socket_path[SOCKET_PATH_MAX];
	char state_dir[DIR_PATH_MAX];
	char runtime_dir[DIR_PATH_MAX];
	uint64_t next_sequence;

	struct conf *conf;
	struct retired_conf
	        *retired; /* configurations that engines or exchanges may still refer to */
	struct catalogue catalogue;
	struct recheck *rechecks; /* files that are being looked at again */
	struct reload *reloads;   /* the first is being read */
	struct outside *outsides; /* servers that we do not run */
	struct room_facts room_facts;
	int64_t room_bytes;       /* what models may take at most, for `auto` contexts */
	char lazy_library[DIR_PATH_MAX], lazy_missing[200]; /* the preload library, or why there is none */
	struct saved *saved;      /* conversations in files */
	struct unsaved unsaved; /* what a full disk cost */
	uint64_t *conversation_of; /* by the ticket's index */
	char save_dir[DIR_PATH_MAX + 16]; /* where engines save conversations; ours */

	struct arbiter *arbiter;
	struct arbiter_limits limits;
	struct actions actions;
	struct event *queue; /* ring */
	uint32_t queue_start, queue_count, queue_capacity;
	struct action *deferred; /* verdicts of the shell's own, carried out in the next turn */
	uint32_t deferred_count, deferred_capacity;
	int64_t last_step_us;

	struct instance_row *instances;
	uint32_t instance_capacity;
	uint32_t instances_used; /* rows beyond were never live */
	struct compaction *compaction; /* NULL: none is under way */
	int64_t compacted_us;          /* by itself; 0 = not yet */
	int64_t compact_looked_us;
	int64_t remedy_at_us;    /* memory was last made free for a load */
	bool remedy_runs;
	bool remedy_missed;      /* what may not be done for it was said */
	struct words_kept *words; /* what engines said of themselves */
	struct learned_rows *learned_rows; /* of the arbiter, of this life and earlier ones */
	struct leak *leaks;      /* per model */
	int64_t orphan_bytes;    /* of the GPUs', that no process owns, as was told */
	int64_t orphans_since_us, orphans_looked_us;
	struct left_behind left_behind[LEFT_BEHIND_MAX]; /* of those that ended */
	int64_t replaced_at_us;  /* the last look whether files and engines are still what runs */
	bool replaced_looking;
	struct programs *programs; /* who else is there, as somebody last asked */
	int64_t programs_at_us;    /* 0 = never */
	bool programs_looking;
	struct list programs_askers;
	struct journal journal;
	char (*last_error)[512]; /* per model: what its last failure said */

	struct sample sample;    /* the last one; total_bytes 0 until there is one */
	int64_t group_cap_told_bytes; /* of the control group, as the arbiter knows it; 0 = none */
	uint64_t caps_told;      /* shell_caps() of the machine that the arbiter knows */
	struct topology topology; /* read with it */
	int64_t sampled_at_us;
	struct baseline baseline;
	int64_t baseline_bytes; /* what it says: of the foreign use, the system's own */
	int64_t reserve_bytes;
	int64_t unread_since_us; /* the machine cannot be read since this sample; 0 = it can */
	char unread_text[160];   /* ... why */
	char blocked[INPUT_NAME_BYTES]; /* ... what gives no answer; "" = it gives one that is no use */
	char programs_blocked[INPUT_NAME_BYTES]; /* the same of those who else is there */
	uv_timer_t last_wait;    /* for threads that are still at work */
	bool lost;               /* one is, and will be: nothing that it may touch is freed */
	struct inputs told_inputs; /* shell_inputs.c */
	struct danger_watch danger;
	bool on_battery;
	int64_t asleep_us; /* all that the machine has slept, as far as it was noticed */
	enum pressure pressure;
	struct stall_watch {     /* PSI tells of stalls: on the machine, and in the control group that bounds us */
		uv_poll_t poll;  /* first: the watch is found by it */
		int fd;          /* -1: the kernel has none, or we may not ask */
	} stalls[2];

	struct keeper *keeper;
	struct supervisor *supervisor;
	struct tickets *tickets;
	struct gateway *gateway;
	struct api *api;
	struct store *store;
	struct sampler *sampler;
	struct warmer *warmer;       /* NULL: nothing is warmed here */
	struct warm_orders *warm;    /* being put together */
	bool warm_given;             /* of what it was told last something may still be under way */
	int64_t warm_free_least_bytes;
	int64_t watched_at_us, watched_mapped_at_us;
	uint32_t watch_from;         /* of the models: the next whose file is looked at */
	enum sampler_pace pace;
	struct recorder *recorder;
	struct learning *learning;
	struct lengths_table lengths; /* how long conversations get */
	struct asking *askings;   /* engines that are asked what they will take */

	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;    /* runs while events are left for the next turn */
	uv_timer_t timer;  /* the arbiter's */
	uv_async_t posted; /* functions from other threads: api_host.post */
	uv_mutex_t posted_lock;
	struct posted *posted_first;
	bool posted_closed;
	uv_timer_t hard_stop;
	uv_signal_t signals[3];
};

/* 0, or a negative errno with a text for the person who started it. `keeper` is taken over. */
int shell_open(struct shell *shell, const struct shell_options *options, struct conf *conf,
               struct keeper *keeper, struct err *err);
/* Runs until it was told to end. The exit status. With `lost` the process is to end without more ado. */
int shell_run(struct shell *shell);

/* ---- between the shell's own files ---- */

int64_t shell_now_us(void);         /* CLOCK_BOOTTIME */
int64_t shell_asleep_us(void);      /* since the machine started */
int64_t shell_wall_offset_us(void); /* wall clock = boot time + this */

/* shell.c: the queue and the turn */
struct event shell_event(enum event_type type); /* zeroed, with its time */
void shell_push(struct shell *shell, const struct event *event);
void shell_defer(struct shell *shell, const struct action *action);
void shell_turn(struct shell *shell);
int shell_make_arbiter(struct shell *shell, struct err *err);
void shell_free_arbiter(struct shell *shell); /* the queue too */
void shell_start_turns(struct shell *shell);
void shell_arm(struct shell *shell, int64_t at_us);
void shell_set_pace(struct shell *shell);
bool shell_plan(struct shell *shell, uint32_t model, struct plan *out);
struct instance_row *shell_instance(struct shell *shell, struct id id);

/* shell_actions.c */
void shell_carry_out(struct shell *shell, const struct action *action);

/* shell_hosts.c: what the layers below ask for */
void shell_gateway_host(struct shell *shell, struct gateway_host *out);
void shell_api_host(struct shell *shell, struct api_host *out);
void shell_supervisor_events(struct shell *shell, struct supervisor_events *out);
void shell_explain(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes);
void shell_run_posted(struct shell *shell);
void shell_tell_secrets(struct shell *shell); /* what no engine's log may show */
void shell_push_arrived(struct shell *shell, struct id ticket, const struct request_spec *spec);

/* shell_warm.c: files in the page cache */
void shell_warm_open(struct shell *shell);
bool shell_is_mapped(const struct shell *shell, uint32_t model); /* its file, by a live engine */
int64_t shell_warm_bytes(const struct shell *shell, uint32_t model); /* of its file; 0 = it is not to be warmed */
void shell_warm_order(struct shell *shell, const struct action *action);
void shell_warm_commit(struct shell *shell); /* all of a sample's orders were given */
void shell_warm_decided(struct shell *shell, const struct decision *decision);

/* shell_recheck.c: the request goes on, or is refused, once the model's file was looked at again.
 */
void shell_recheck(struct shell *shell, struct id ticket, const struct request_spec *spec);
/* One after the other, the engines of models that wait for it. */
void shell_try_engines(struct shell *shell);

/* shell_outside.c: servers that we do not run. */
void shell_look_outside(struct shell *shell); /* for those that the configuration names now */
void shell_outside_lost(struct shell *shell, uint32_t model);
bool shell_outside_is_up(const struct shell *shell, uint32_t model);
void shell_close_outside(struct shell *shell);

/* shell_actions.c: start the engine of a spawn action; it ended, or never began. */
void shell_spawn(struct shell *shell, const struct action *action);
/* What it takes, as the first sample since it was ready shows. */
void shell_observe_load(struct shell *shell, const struct instance_row *row, int64_t measured_bytes);
void shell_spawn_ended(struct shell *shell, struct id instance, enum fail fail);
/* shell_asking.c: true where its engine is asked first; shell_spawn() follows. */
bool shell_ask_engine(struct shell *shell, const struct action *action);
/* Of that load, or with NULL of all: soon over, without a word. */
void shell_give_up_asking(struct shell *shell, const struct instance_row *row);
void shell_open_words(struct shell *shell); /* what engines said in earlier lives; before the arbiter hears of the models */
void shell_recall_word(struct shell *shell, uint32_t model);

/* shell_makes.c */
uint32_t shell_lacks(void *ctx, uint32_t model); /* enum makes */
void shell_picture(void *ctx, uint32_t model, int64_t pixels, struct picture_need *out);

/* shell_usage.c: what keys used of their tokens of a day. */
void shell_open_usage(struct shell *shell); /* in earlier lives; behind the gateway */
void shell_on_tokens(void *ctx, uint64_t key, const struct quota_tokens *tokens);

/* shell_learned.c: what the arbiter learned, kept over lives of the daemon. */
void shell_open_learned(struct shell *shell); /* tells the arbiter; behind its models and pools */
void shell_close_learned(struct shell *shell);
/* The arbiter took it for what cannot be: it goes, and is told with all others once nothing waits to be heard. */
void shell_learned_impossible(struct shell *shell, const struct learned_row *row);
void shell_tell_impossible(struct shell *shell);
void shell_keep_learned(struct shell *shell, bool now); /* else where the last time is some seconds ago */
/* The model's row is new: all that is known of such a model goes into it; the arbiter is to be told. */
void shell_recall_model(struct shell *shell, uint32_t model);
/* The arbiter, which was told, gets what it learned of such a model before. */
void shell_recall_learned(struct shell *shell, uint32_t model);

/* shell_learning.c: what loads teach the estimates, kept over lives of the daemon. */
struct calibration;
void shell_open_learning(struct shell *shell); /* corrects the catalogue; before the arbiter hears of it */
void shell_close_learning(struct shell *shell);
void shell_correct_model(struct shell *shell, uint32_t model);
void shell_learn_load(struct shell *shell, uint32_t model, int64_t measured_bytes);
/* A load of it was killed for memory: it takes more than it was granted. */
void shell_learn_killed(struct shell *shell, uint32_t model);
void shell_calibration(const struct shell *shell, struct calibration *out);

/* shell_context.c: contexts that are chosen, where KV cannot follow use. */
void shell_open_contexts(struct shell *shell); /* chooses those of the catalogue; before the arbiter hears of it */
/* The model's file was looked at: with what context it starts. */
void shell_context_start(struct shell *shell, uint32_t model);
/* How many tokens a request is expected to come to; 0 = that shows once it is sent. */
int64_t shell_context_tokens(const struct shell *shell, uint32_t model, const struct prompt_size *prompt);
/* Before the arbiter hears of the request: the context that it needs is to be there, or on its way. */
void shell_context_arrived(struct shell *shell, const struct request_spec *spec);
void shell_context_ended(struct shell *shell, const struct exchange_end *end);
void shell_context_stopped(struct shell *shell, const struct action *stop);
bool shell_context_is_elastic(void *ctx, uint32_t model);
/* See gateway_host.may_exceed, .counts_first, .outgrown, .allow. */
bool shell_context_may_exceed(void *ctx, uint32_t model, const struct prompt_size *prompt);
bool shell_context_counts_first(void *ctx, uint32_t model, const struct prompt_size *prompt);
bool shell_context_outgrown(void *ctx, const struct outgrown *request);
void shell_context_allow(void *ctx, uint32_t model, const struct prompt_size *prompt, struct allowance *out);
/* Larger than it would be started with. */
bool shell_context_is_grown(const struct shell *shell, uint32_t model, const struct catalogue_row *row);
/* The largest that could be granted now; 0 = the model's is not chosen here. */
int64_t shell_context_now(void *ctx, uint32_t model);

/* shell_kept.c: what conversations hold in engines whose KV follows use. */
void shell_find_lazy(struct shell *shell); /* the library, and the folder for conversations */
void shell_load_saved(struct shell *shell); /* what is in there of an earlier life; after the catalogue is made */
void shell_ground(struct shell *shell, struct catalogue_ground *out); /* valid as long as the shell */
/* The most tokens that a prompt and its answer come to. */
int64_t shell_most_tokens(const struct shell *shell, uint32_t model, const struct prompt_size *prompt);
/* See gateway_host.need. */
void shell_need(void *ctx, uint32_t model, const struct prompt_size *prompt, struct request_spec *out);
/* The same for a request that came before its model's engine was tried out. */
void shell_need_tried(const struct shell *shell, struct request_spec *spec);
void shell_kept_begin(struct shell *shell, struct instance_row *row); /* spawned */
void shell_kept_ask(struct shell *shell, struct id instance);         /* ready */
void shell_kept_ended(struct shell *shell, struct id instance, uint64_t conversation, int64_t tokens);
/* ACTION_DISCARD: EVENT_CONVERSATION_ERASED follows. */
void shell_kept_discard(struct shell *shell, struct id instance);
/* ACTION_STOP: what is to be kept (all, where it is only started anew) is saved, and what was asked is answered, before it is told to end. */
void shell_kept_stop(struct shell *shell, struct id instance, bool starts_anew);
/* True: the request's conversation is brought back first, then it is dispatched. */
bool shell_kept_restore(struct shell *shell, const struct action *dispatch);
struct conversation_view;
void shell_each_conversation(void *ctx, void (*each)(void *each_ctx, const struct conversation_view *view),
                             void *each_ctx);
void shell_kept_end(struct instance_row *row);

/* shell_samples.c */
void shell_sampler_events(struct shell *shell, struct sampler_events *out);

/* shell_unread.c: what the machine has is not told any more; it is again; at the end, of whom it was not told. */
void shell_unread_failed(struct shell *shell, const char *text);
void shell_unread_late(struct shell *shell, const char *what);
void shell_read_again(struct shell *shell);
void shell_tell_unseen(const struct shell *shell);

/* shell_inputs.c: into the log, what of them is no use any more, or again. */
void shell_tell_inputs(struct shell *shell, const struct inputs *inputs);

/* shell_baseline.c: from the first reading and what was kept; from each sample on. */
void shell_open_baseline(struct shell *shell);
void shell_note_baseline(struct shell *shell, const struct sample *sample);

/* What nobody's anonymous memory is: drivers' pages, files in tmpfs, the kernel's own. -1 = not known. */
int64_t shell_unowned_bytes(const struct shell *shell);

/* shell_given_back.c: with each sample; and whether something is awaited. */
void shell_judge_given_back(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners);
bool shell_awaits_bytes(const struct shell *shell);

/* shell_orphans.c: with each sample. */
void shell_look_orphans(struct shell *shell, const struct sample *sample);

/* shell_programs.c: see api_host.programs. */
void shell_open_programs(struct shell *shell);
void shell_close_programs(struct shell *shell); /* after the loop has ended */
void shell_ask_programs(void *ctx, void (*done)(void *arg, const struct programs *programs), void *arg);

/* shell_wake.c: after the machine slept; and where its power comes from. */
void shell_woke(struct shell *shell, int64_t slept_us);
void shell_on_unhealthy(void *ctx, struct id instance, const char *text);
void shell_note_speed(struct shell *shell, uint32_t model, int64_t tokens, int64_t us);
void shell_note_power(struct shell *shell, const struct sample *sample);
void shell_fill_idle_time(const struct shell *shell, const struct conf_model *model, struct model_spec *spec);

/* shell_oom.c: whom the kernel would kill follows from what each really holds. */
void shell_score_engines(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners);

/* shell_replaced.c */
void shell_note_start(const struct shell *shell, struct instance_row *row);
void shell_look_replaced(struct shell *shell); /* now and then */
const char *shell_replaced(void *ctx, uint32_t model); /* see api_host.replaced */

/* shell_compact.c: see api_host.compact; and whether now is the time for it. */
void shell_compact(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg);
void shell_consider_compaction(struct shell *shell);

/* shell_remedy.c: whether a load onto a GPU finds memory that is free, at each sample. */
void shell_consider_remedy(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners);
bool shell_amd_serves(const struct shell *shell, bool pinned); /* an engine holds memory of an AMD GPU, a pinned one */

/* shell_pressure.c: how near the memory is to running out. */
void shell_judge_pressure(struct shell *shell, const struct sample *sample,
                          const struct sampler_owner *owners);
void shell_watch_stalls(struct shell *shell); /* sample at once where the kernel tells of them */
void shell_unwatch_stalls(struct shell *shell);
/* A limit on our control group, as a cap on what models may take of it; false: none. */
bool shell_cgroup_cap(const struct shell *shell, const struct sample *sample, struct view_spec *out);
/* We get the processor when memory is short, are not the first to be killed for it, and keep none that is not used. */
void shell_stand_firm(void);

/* shell_open.c, shell_reload.c */
void shell_push_machine(struct shell *shell);

/* shell_pools.c: where GPUs have memory. */
bool shell_has_devices(const struct shell *shell);
void shell_fill_pools(const struct shell *shell, struct event_machine *machine);
/* Of the memory that models go to by default. */
void shell_device_facts(struct shell *shell, struct room_facts *out);
/* U of each pool, foreign use of each view; false where the caps are no longer those that were told. */
bool shell_fill_sample(const struct shell *shell, struct event *event);
uint64_t shell_caps(const struct event_machine *machine); /* a number that changes with the caps */
/* The device's share, which stands at pool 0, goes to the pool where that device's models lie. */
void shell_place(const struct shell *shell, struct model_spec *spec);
/* What models may take of the RAM beside a card that has a memory of its own; 0 = none has. */
int64_t shell_host_room(const struct shell *shell);

/* `renewed`: what runs of it was started under settings that hold no more. */
void shell_push_model(struct shell *shell, uint32_t model, bool renewed);
/* It has another context from its next start on; `request`: sequence of the one that needs it, or 0. */
void shell_push_resized(struct shell *shell, uint32_t model, uint64_t request);
/* What the arbiter is told of a row. */
void shell_fill_spec(const struct shell *shell, uint32_t model, const struct catalogue_row *row,
                     struct model_spec *spec);
void shell_drain(struct shell *shell);
void shell_close(struct shell *shell);
void shell_close_if_done(struct shell *shell);
int64_t shell_reserve(const struct room_facts *facts, const struct conf *conf);
int64_t shell_room(const struct room_facts *facts, const struct conf *conf);
/* See api_host.reload. */
void shell_reload(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg);
void shell_let_go_of_retired(struct shell *shell); /* of those that nobody refers to any more */
void shell_free_retired(struct shell *shell);      /* of all: where nobody is left */

#endif
