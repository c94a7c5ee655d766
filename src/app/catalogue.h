#ifndef APP_CATALOGUE_H
#define APP_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/elastic.h"
#include "conf/conf.h"
#include "core/event.h"
#include "engine/kv_shape.h"
#include "engine/lazy_check.h"
#include "engine/tuning.h"
#include "estimate/correct.h"
#include "estimate/estimate.h"

/*
 * catalogue - the configured models with what each will take.
 *
 * Made from a configuration by reading the header of every model file; that
 * blocks on the disk, so it runs before the loop or on a worker, never on the
 * loop. A file that is missing or malformed does not stop the daemon: the row
 * says what is wrong, requests for it are answered with that text, and nobody
 * is evicted for it. catalogue_refresh() looks at such a file again, and at one
 * that was replaced.
 *
 * Row i belongs to conf->models[i], and i is the arbiter's index of the model.
 */
struct own_word;

struct catalogue_row {
	struct model_spec spec;
	uint64_t launch_key;      /* of the program and of what it is started with, but for the context chosen */
	struct correction_keys keys; /* what was learned of such a load is found by */
	bool asked;               /* its engine was asked what it takes */
	struct formula_parts formula; /* the estimate before anything corrected it */
	struct estimate estimate; /* zeroed where the footprint is declared or unknown */
	int64_t file_bytes;       /* of the file named; 0 where there is none */
	bool whole_on_device;     /* nobody tells the device's share: it gets all */
	bool lazy;                /* started with the preload library: KV follows use */
	struct elastic elastic;   /* where not lazy: contexts it may be started with */
	int64_t corrected_bytes;  /* what earlier loads taught, in the estimate */
	int64_t corrected_compute_bytes; /* of those, in the compute buffers */
	struct kv_shape kv;       /* where lazy or elastic */
	bool no_effect;           /* the library had none in an engine that was launched like this: it is not tried again */
	bool drafts_when_told;    /* tuning.h */
	bool untried;             /* its engine is to be tried out before a load: until then as if it were not lazy */
	char not_lazy[200];       /* why it is not; "" where it is, or has no such cache */
	char error[512];          /* why the model cannot be loaded now; "" = it can */
};

struct catalogue {
	struct catalogue_row *rows;
	size_t count;
};

/* What the rows depend on besides the models. */
struct catalogue_ground {
	int64_t room_bytes; /* the most that models may take where they go; bounds a context of `auto` */
	bool files_alone;   /* programs are looked at by catalogue_check_program() */
	bool has_devices;   /* models go to a GPU unless they say otherwise */
	bool runs_cuda;     /* ... whose engines compute with CUDA */
	/* Where that GPU has a memory of its own: what they may take of the RAM beside it. 0: it is one memory. */
	int64_t host_room_bytes;
	struct lazy_check lazy;
};

void catalogue_build(const struct conf *conf, const struct catalogue_ground *ground, struct catalogue *out);
/* -ENOENT: the program that runs the model is not there. */
int catalogue_check_program(const struct conf_model *model, struct err *err);
/* The model's file, and the build of its engine, libraries included, as they are on the disk now. */
uint64_t catalogue_file_key(const struct conf_model *model);
/* When its file was last changed in any way, its rights too: a time that nobody sets back. 0 = not known. */
int64_t catalogue_file_changed_ns(const struct conf_model *model);
uint64_t catalogue_engine_build(const struct conf_model *model, const struct catalogue_ground *ground);
/* The same program runs both. */
bool catalogue_same_engine(const struct conf_model *model, const struct conf_model *other);
/* What was measured holds for this build of the engine started this way. */
uint64_t catalogue_build_key(const struct conf_model *model, uint64_t build);
/* Whether the row was made of the very file and program that are there now. */
bool catalogue_is_current(const struct conf_model *model, const struct catalogue_ground *ground,
                          const struct catalogue_row *row);
/* Its next load takes this step of its contexts. */
void catalogue_choose(struct catalogue_row *row, uint32_t step);
/* The start that the row stands for. */
void catalogue_tuning(const struct catalogue_row *row, struct launch_tuning *out);
/* Look at one model's file again. */
void catalogue_refresh(const struct conf_model *model, const struct catalogue_ground *ground,
                       struct catalogue_row *row);
/* Take over what earlier loads taught of such a model; nothing where they taught nothing. */
void catalogue_correct(struct catalogue_row *row, const struct correction *correction);
/* The engine's own word in the place of the formulas'. */
void catalogue_take_word(struct catalogue_row *row, const struct own_word *word);
/* Its load takes at least so much. */
void catalogue_raise(struct catalogue_row *row, int64_t peak_bytes);
void catalogue_release(struct catalogue *catalogue);

#endif
