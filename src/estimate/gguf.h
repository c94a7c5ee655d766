#ifndef ESTIMATE_GGUF_H
#define ESTIMATE_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "estimate/estimate.h"
#include "estimate/types.h"

/*
 * gguf - a walk through the header of a GGUF file.
 *
 * The walk hands each metadata entry and each tensor to a visitor and keeps
 * nothing but hashes of the names (to refuse one that occurs twice). It holds
 * one block of memory of fixed size (GGUF_WALK_BYTES), reads through a window,
 * and reads at most GGUF_READ_MOST bytes whatever the file says of itself. It
 * is stricter than the engine's own reader (gguf_init_from_reader() in
 * gguf.cpp): every product is checked, dimensions that wrap are refused.
 *
 * Layout: "GGUF", version u32, tensors i64, entries i64; entries of
 * {key, type, value}; tensors of {name, dimensions, type, offset}; padding;
 * data. Version 3 differs from 2 only in allowing big-endian files, which are
 * refused here as they are by the engine.
 */
enum {
	GGUF_WINDOW = 32 * 1024,
	GGUF_NAMES_MOST = 32768,      /* entries and tensors, over all files of one walk */
	GGUF_NAME_SLOTS = 65536,
	GGUF_KEY_MOST = 65535,
	GGUF_TENSOR_NAME_MOST = 63,
	GGUF_TEXT_KEPT = 255,
	GGUF_ELEMENTS_KEPT = 512,     /* one for each layer an engine can have */
	GGUF_READ_MOST = 128 * 1024 * 1024,
};

enum gguf_kind { GGUF_INTEGER, GGUF_REAL, GGUF_BOOL, GGUF_TEXT, GGUF_ARRAY };

/* One metadata entry. Valid during the visit only. */
struct gguf_entry {
	struct str key;           /* cut at GGUF_TEXT_KEPT bytes; may hold any byte */
	enum gguf_kind kind;
	uint32_t raw_type;        /* as in the file */
	int64_t integer;          /* INTEGER (values over INT64_MAX become that) and BOOL */
	double real;
	struct str text;          /* cut at GGUF_TEXT_KEPT bytes */
	enum gguf_kind element_kind; /* of an ARRAY */
	uint64_t elements;
	uint32_t elements_kept;   /* the first ones, where they are integers or booleans */
	int64_t element[GGUF_ELEMENTS_KEPT];
};

struct gguf_tensor {
	struct str name;
	uint32_t dimensions;
	int64_t extent[4];        /* 1 where the file gives fewer */
	const struct type_info *type;
	int64_t elements;
	int64_t bytes;
};

/* A visitor returns 0, or a negative errno with its text to end the walk. */
struct gguf_visitor {
	void *ctx;
	int (*entry)(void *ctx, const struct gguf_entry *entry, struct err *err);
	int (*tensor)(void *ctx, const struct gguf_tensor *tensor, struct err *err); /* NULL: entries only */
};

struct gguf_summary {
	uint32_t version;
	int64_t entries;
	int64_t tensors;
	int64_t header_bytes;
	int64_t data_bytes;       /* of all tensors, padding included */
	int64_t missing_bytes;    /* of the data, where the file is shorter than it says */
};

struct gguf_walk; /* the window and the table of names */
enum { GGUF_WALK_BYTES = 576 * 1024 };

/* One block of less than GGUF_WALK_BYTES; free() it. Tensor names stay known over several files. */
struct gguf_walk *gguf_walk_new(void);

/*
 * Walk one file. 0 and `summary` filled, or a negative errno as estimate_gguf()
 * says. A header that is whole with data that is not is no failure: see
 * missing_bytes.
 */
int gguf_walk_file(struct gguf_walk *walk, const struct byte_source *source,
                   const struct gguf_visitor *visitor, struct gguf_summary *summary, struct err *err);

#endif
