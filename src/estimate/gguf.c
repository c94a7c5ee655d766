#include "estimate/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "estimate/bounded.h"

/* The numbers of `enum gguf_type` in gguf.h. */
enum {
	RAW_U8, RAW_I8, RAW_U16, RAW_I16, RAW_U32, RAW_I32, RAW_F32, RAW_BOOL, RAW_TEXT, RAW_ARRAY,
	RAW_U64, RAW_I64, RAW_F64, RAW_COUNT,
};

static const uint8_t raw_bytes[RAW_COUNT] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

enum {
	ALIGNMENT_DEFAULT = 32,
	ALIGNMENT_MOST = 1024 * 1024,
	PROBES_MOST = 1024, /* names made to collide end the walk, not the patience */
};

/* What upstream takes as the longest sensible length: beyond it the file lies, it is not cut. */
#define LENGTH_MOST (UINT64_C(1) << 30)
#define EXTENT_MOST (INT64_C(1) << 40)

/* Keys are unique in their file, tensors over all parts: this keeps the keys of files apart. */
#define KEY_SALT UINT64_C(0x9E3779B97F4A7C15)

struct gguf_walk {
	const struct byte_source *source;
	uint64_t position;      /* of the next byte in the file */
	uint64_t window_start;
	uint32_t window_length;
	uint64_t bytes_read;
	int64_t alignment;
	uint32_t files;         /* walked so far */
	uint32_t names;         /* entries and tensors announced so far, over all files */
	struct gguf_entry entry;
	char key[GGUF_TEXT_KEPT];
	char text[GGUF_TEXT_KEPT];
	char name[GGUF_TENSOR_NAME_MOST + 1];
	unsigned char window[GGUF_WINDOW];
	uint64_t slot[GGUF_NAME_SLOTS]; /* hashes of names, 0 = free */
};

_Static_assert(sizeof(struct gguf_walk) <= GGUF_WALK_BYTES, "the promise of the header");

struct gguf_walk *gguf_walk_new(void)
{
	return xcalloc(1, sizeof(struct gguf_walk));
}

static uint64_t remaining(const struct gguf_walk *walk)
{
	return walk->source->size - walk->position;
}

static int cut_short(const struct gguf_walk *walk, uint64_t wanted, struct err *err)
{
	return err_set(err, -ENODATA, "cut short in its header: at least %" PRIu64 " bytes are missing",
	               wanted - remaining(walk));
}

/* Have the byte at `position` in the window. */
static int refill(struct gguf_walk *walk, struct err *err)
{
	uint64_t length = remaining(walk);
	if (length > GGUF_WINDOW)
		length = GGUF_WINDOW;
	walk->bytes_read += length;
	if (walk->bytes_read > GGUF_READ_MOST)
		return err_set(err, -EFBIG, "its header is over %d MiB", GGUF_READ_MOST / 1024 / 1024);
	int rc = walk->source->read(walk->source->ctx, walk->position, walk->window, (uint32_t)length);
	if (rc == -ENODATA)
		return err_set(err, rc, "became shorter while it was read");
	if (rc < 0)
		return err_set(err, rc, "cannot be read: %s", strerror(-rc));
	walk->window_start = walk->position;
	walk->window_length = (uint32_t)length;
	return 0;
}

static int take(struct gguf_walk *walk, void *out, uint32_t count, struct err *err)
{
	unsigned char *to = out;
	if (count > remaining(walk))
		return cut_short(walk, count, err);
	while (count > 0) {
		uint64_t offset = walk->position - walk->window_start;
		if (walk->position < walk->window_start || offset >= walk->window_length) {
			int rc = refill(walk, err);
			if (rc < 0)
				return rc;
			offset = 0;
		}
		uint32_t part = walk->window_length - (uint32_t)offset;
		if (part > count)
			part = count;
		memcpy(to, walk->window + offset, part);
		to += part;
		walk->position += part;
		count -= part;
	}
	return 0;
}

static int skip(struct gguf_walk *walk, uint64_t count, struct err *err)
{
	if (count > remaining(walk))
		return cut_short(walk, count, err);
	walk->position += count;
	return 0;
}

static uint64_t little_endian(const unsigned char *bytes, uint32_t count)
{
	uint64_t value = 0;
	for (uint32_t i = 0; i < count; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

static int take_number(struct gguf_walk *walk, uint32_t bytes, uint64_t *out, struct err *err)
{
	unsigned char raw[8];
	int rc = take(walk, raw, bytes, err);
	if (rc < 0)
		return rc;
	*out = little_endian(raw, bytes);
	return 0;
}

/* A length-prefixed text, of which the first `kept_most` bytes are kept and the rest passed over. */
static int take_text(struct gguf_walk *walk, char *kept, uint32_t kept_most, struct str *out,
                     struct err *err)
{
	uint64_t length = 0;
	int rc = take_number(walk, 8, &length, err);
	if (rc < 0)
		return rc;
	if (length > LENGTH_MOST)
		return err_set(err, -EBADMSG, "malformed: a text of %" PRIu64 " bytes at offset %" PRIu64,
		               length, walk->position - 8);
	if (length > remaining(walk))
		return cut_short(walk, length, err);
	uint32_t kept_length = length < kept_most ? (uint32_t)length : kept_most;
	rc = take(walk, kept, kept_length, err);
	if (rc < 0)
		return rc;
	*out = (struct str){ kept, kept_length };
	return skip(walk, length - kept_length, err);
}

/* Remember a name by its hash; refuse one that is known. */
static int remember(struct gguf_walk *walk, uint64_t hash, const char *what, struct str name,
                    struct err *err)
{
	uint32_t at = (uint32_t)(hash >> 7) % GGUF_NAME_SLOTS;
	if (hash == 0)
		hash = 1;
	for (uint32_t probe = 0; probe < PROBES_MOST; probe++) {
		uint64_t *slot = &walk->slot[(at + probe) % GGUF_NAME_SLOTS];
		if (*slot == hash)
			return err_set(err, -EBADMSG, "malformed: the %s '%.*s' is there twice", what,
			               STR_ARG(name));
		if (*slot == 0) {
			*slot = hash;
			return 0;
		}
	}
	return err_set(err, -EBADMSG, "malformed: names made to collide");
}

static enum gguf_kind kind_of(uint32_t raw)
{
	if (raw == RAW_TEXT)
		return GGUF_TEXT;
	if (raw == RAW_ARRAY)
		return GGUF_ARRAY;
	if (raw == RAW_F32 || raw == RAW_F64)
		return GGUF_REAL;
	return raw == RAW_BOOL ? GGUF_BOOL : GGUF_INTEGER;
}

static int64_t integer_of(uint32_t raw, uint64_t bits)
{
	switch (raw) {
	case RAW_I8:
		return (int8_t)bits;
	case RAW_I16:
		return (int16_t)bits;
	case RAW_I32:
		return (int32_t)bits;
	case RAW_I64:
		return (int64_t)bits;
	case RAW_BOOL:
		return bits != 0;
	default:
		return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
	}
}

static double real_of(uint32_t raw, uint64_t bits)
{
	if (raw == RAW_F64) {
		double wide;
		memcpy(&wide, &bits, sizeof wide);
		return wide;
	}
	uint32_t low = (uint32_t)bits;
	float narrow;
	memcpy(&narrow, &low, sizeof narrow);
	return (double)narrow;
}

static int walk_array(struct gguf_walk *walk, struct gguf_entry *entry, struct err *err)
{
	uint64_t raw = 0;
	int rc = take_number(walk, 4, &raw, err);
	if (rc == 0)
		rc = take_number(walk, 8, &entry->elements, err);
	if (rc < 0)
		return rc;
	if (raw >= RAW_COUNT || raw == RAW_ARRAY)
		return err_set(err, -EBADMSG, "malformed: '%.*s' is an array of type %" PRIu64,
		               STR_ARG(entry->key), raw);
	if (entry->elements > LENGTH_MOST)
		return err_set(err, -EBADMSG, "malformed: '%.*s' has %" PRIu64 " elements",
		               STR_ARG(entry->key), entry->elements);
	entry->element_kind = kind_of((uint32_t)raw);
	uint32_t size = raw == RAW_TEXT ? 8 : raw_bytes[raw];
	if (entry->elements * size > remaining(walk))
		return cut_short(walk, entry->elements * size, err);
	if (raw == RAW_TEXT) {
		struct str none;
		for (uint64_t i = 0; i < entry->elements; i++) {
			rc = take_text(walk, walk->text, 0, &none, err);
			if (rc < 0)
				return rc;
		}
		return 0;
	}
	bool keep = entry->element_kind == GGUF_INTEGER || entry->element_kind == GGUF_BOOL;
	uint64_t kept = !keep ? 0 : entry->elements < GGUF_ELEMENTS_KEPT ? entry->elements : GGUF_ELEMENTS_KEPT;
	for (; entry->elements_kept < kept; entry->elements_kept++) {
		uint64_t bits = 0;
		rc = take_number(walk, size, &bits, err);
		if (rc < 0)
			return rc;
		entry->element[entry->elements_kept] = integer_of((uint32_t)raw, bits);
	}
	return skip(walk, (entry->elements - kept) * size, err);
}

static int walk_value(struct gguf_walk *walk, struct gguf_entry *entry, struct err *err)
{
	if (entry->raw_type >= RAW_COUNT)
		return err_set(err, -EBADMSG, "malformed: '%.*s' has a value of type %u",
		               STR_ARG(entry->key), entry->raw_type);
	entry->kind = kind_of(entry->raw_type);
	if (entry->kind == GGUF_TEXT)
		return take_text(walk, walk->text, GGUF_TEXT_KEPT, &entry->text, err);
	if (entry->kind == GGUF_ARRAY)
		return walk_array(walk, entry, err);
	uint64_t bits = 0;
	int rc = take_number(walk, raw_bytes[entry->raw_type], &bits, err);
	if (rc < 0)
		return rc;
	if (entry->kind == GGUF_REAL)
		entry->real = real_of(entry->raw_type, bits);
	else
		entry->integer = integer_of(entry->raw_type, bits);
	return 0;
}

static int note_alignment(struct gguf_walk *walk, const struct gguf_entry *entry, struct err *err)
{
	int64_t value = entry->integer;
	if (entry->raw_type != RAW_U32)
		return err_set(err, -EBADMSG, "malformed: general.alignment is not a 32-bit number");
	if (value == 0 || (value & (value - 1)) != 0)
		return err_set(err, -EBADMSG, "malformed: general.alignment is %" PRId64
		               ", not a power of two", value);
	if (value > ALIGNMENT_MOST)
		return err_set(err, -EFBIG, "general.alignment is %" PRId64 ", over %d", value,
		               ALIGNMENT_MOST);
	walk->alignment = value;
	return 0;
}

static int walk_entry(struct gguf_walk *walk, const struct gguf_visitor *visitor, struct err *err)
{
	struct gguf_entry *entry = &walk->entry;
	uint64_t start = walk->position;
	uint64_t raw = 0;

	entry->text = (struct str){ "", 0 };
	entry->integer = 0;
	entry->real = 0;
	entry->elements = 0;
	entry->elements_kept = 0;
	int rc = take_text(walk, walk->key, GGUF_TEXT_KEPT, &entry->key, err);
	if (rc < 0)
		return rc;
	uint64_t length = walk->position - start - 8;
	if (length == 0 || length > GGUF_KEY_MOST)
		return err_set(err, -EBADMSG, "malformed: a key of %" PRIu64 " bytes", length);
	rc = take_number(walk, 4, &raw, err);
	if (rc < 0)
		return rc;
	entry->raw_type = (uint32_t)raw;
	/* A key longer than what is kept is told apart by its length as well: real ones are short. */
	uint64_t hash = str_hash(entry->key) ^ length << 48;
	rc = remember(walk, hash + walk->files * KEY_SALT, "key", entry->key, err);
	if (rc == 0)
		rc = walk_value(walk, entry, err);
	if (rc == 0 && str_is(entry->key, "general.alignment"))
		rc = note_alignment(walk, entry, err);
	return rc < 0 ? rc : visitor->entry(visitor->ctx, entry, err);
}

static int take_name(struct gguf_walk *walk, struct str *name, struct err *err)
{
	uint64_t start = walk->position;
	int rc = take_text(walk, walk->name, sizeof walk->name, name, err);
	if (rc < 0)
		return rc;
	uint64_t length = walk->position - start - 8;
	if (length == 0 || length > GGUF_TENSOR_NAME_MOST)
		return err_set(err, -EBADMSG, "malformed: a tensor's name of %" PRIu64 " bytes", length);
	for (size_t i = 0; i < name->length; i++) {
		unsigned char c = (unsigned char)name->data[i];
		if (c < 0x20 || c == 0x7f || c == '/')
			return err_set(err, -EBADMSG, "malformed: a tensor's name holds the byte 0x%02x", c);
	}
	return 0;
}

static int take_extents(struct gguf_walk *walk, struct gguf_tensor *tensor, struct err *err)
{
	uint64_t dimensions = 0;
	int rc = take_number(walk, 4, &dimensions, err);
	if (rc < 0)
		return rc;
	if (dimensions > 4)
		return err_set(err, -EBADMSG, "malformed: tensor '%.*s' has %" PRIu64 " dimensions",
		               STR_ARG(tensor->name), dimensions);
	tensor->dimensions = (uint32_t)dimensions;
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t extent = 1;
		if (i < dimensions) {
			rc = take_number(walk, 8, &extent, err);
			if (rc < 0)
				return rc;
		}
		if (extent > EXTENT_MOST)
			return err_set(err, -EBADMSG, "malformed: tensor '%.*s' has a dimension of %" PRIu64,
			               STR_ARG(tensor->name), extent);
		tensor->extent[i] = (int64_t)extent;
	}
	return 0;
}

/* Elements and bytes, every product checked: upstream's guard lets (2^32, 2^32) wrap to 0. */
static int measure(struct gguf_tensor *tensor, struct err *err)
{
	const struct type_info *type = tensor->type;
	if (tensor->extent[0] % type->block_elements != 0)
		return err_set(err, -EBADMSG, "malformed: tensor '%.*s' has rows of %" PRId64
		               " elements, which is no whole number of %s blocks",
		               STR_ARG(tensor->name), tensor->extent[0], type->name);
	int64_t elements = 1;
	int64_t bytes = tensor->extent[0] / type->block_elements * type->block_bytes;
	bool overflow = false;
	for (uint32_t i = 0; i < 4; i++) {
		overflow |= __builtin_mul_overflow(elements, tensor->extent[i], &elements);
		if (i > 0)
			overflow |= __builtin_mul_overflow(bytes, tensor->extent[i], &bytes);
	}
	if (overflow)
		return err_set(err, -EBADMSG, "malformed: the size of tensor '%.*s' overflows",
		               STR_ARG(tensor->name));
	tensor->elements = elements;
	tensor->bytes = bytes;
	return 0;
}

static int walk_tensor(struct gguf_walk *walk, const struct gguf_visitor *visitor,
                       struct gguf_summary *summary, struct err *err)
{
	struct gguf_tensor tensor = { 0 };
	uint64_t raw = 0;
	uint64_t offset = 0;

	int rc = take_name(walk, &tensor.name, err);
	if (rc == 0)
		rc = remember(walk, str_hash(tensor.name), "tensor", tensor.name, err);
	if (rc == 0)
		rc = take_extents(walk, &tensor, err);
	if (rc == 0)
		rc = take_number(walk, 4, &raw, err);
	if (rc == 0)
		rc = take_number(walk, 8, &offset, err);
	if (rc < 0)
		return rc;
	tensor.type = type_find((uint32_t)raw);
	if (!tensor.type)
		return err_set(err, -ENOTSUP, "tensor '%.*s' has type %" PRIu64 ", %s", STR_ARG(tensor.name),
		               raw, type_stranger((uint32_t)raw));
	rc = measure(&tensor, err);
	if (rc < 0)
		return rc;
	if (offset != (uint64_t)summary->data_bytes)
		return err_set(err, -EBADMSG, "malformed: tensor '%.*s' begins at %" PRIu64
		               " of the data, not at %" PRId64, STR_ARG(tensor.name), offset,
		               summary->data_bytes);
	summary->data_bytes = bounded_sum(summary->data_bytes, bounded_round(tensor.bytes, walk->alignment));
	if (summary->data_bytes >= BOUNDED_MOST)
		return err_set(err, -EFBIG, "its tensors are larger than any memory");
	return visitor->tensor(visitor->ctx, &tensor, err);
}

static int check_magic(struct gguf_walk *walk, struct err *err)
{
	unsigned char magic[4];
	if (walk->source->size == 0)
		return err_set(err, -ENODATA, "is empty");
	if (remaining(walk) < sizeof magic)
		return err_set(err, -EBADMSG, "is not a GGUF file");
	int rc = take(walk, magic, sizeof magic, err);
	if (rc < 0)
		return rc;
	if (memcmp(magic, "GGUF", sizeof magic) != 0)
		return err_set(err, -EBADMSG, "is not a GGUF file: it begins with %02x %02x %02x %02x",
		               magic[0], magic[1], magic[2], magic[3]);
	return 0;
}

static int check_version(uint64_t version, struct err *err)
{
	if (version != 0 && (version & 0xffff) == 0)
		return err_set(err, -ENOTSUP, "is a GGUF file for big-endian machines");
	if (version == 1)
		return err_set(err, -ENOTSUP, "is GGUF version 1, which no engine reads any more");
	if (version == 0)
		return err_set(err, -EBADMSG, "malformed: GGUF version 0");
	if (version > 3)
		return err_set(err, -ENOTSUP, "is GGUF version %" PRIu64 ", newer than 3", version);
	return 0;
}

static int walk_front(struct gguf_walk *walk, struct gguf_summary *summary, struct err *err)
{
	uint64_t version = 0;
	uint64_t tensors = 0;
	uint64_t entries = 0;

	int rc = check_magic(walk, err);
	if (rc == 0)
		rc = take_number(walk, 4, &version, err);
	if (rc == 0)
		rc = check_version(version, err);
	if (rc == 0)
		rc = take_number(walk, 8, &tensors, err);
	if (rc == 0)
		rc = take_number(walk, 8, &entries, err);
	if (rc < 0)
		return rc;
	if (tensors > INT64_MAX || entries > INT64_MAX)
		return err_set(err, -EBADMSG, "malformed: a negative count");
	if (tensors > GGUF_NAMES_MOST || entries > GGUF_NAMES_MOST ||
	    walk->names + tensors + entries > GGUF_NAMES_MOST)
		return err_set(err, -EFBIG, "has %" PRIu64 " tensors and %" PRIu64
		               " metadata entries, over %d in all", tensors, entries, GGUF_NAMES_MOST);
	walk->names += (uint32_t)(tensors + entries);
	summary->version = (uint32_t)version;
	summary->tensors = (int64_t)tensors;
	summary->entries = (int64_t)entries;
	return 0;
}

static int walk_tensors(struct gguf_walk *walk, const struct gguf_visitor *visitor,
                        struct gguf_summary *summary, struct err *err)
{
	for (int64_t i = 0; i < summary->tensors; i++) {
		int rc = walk_tensor(walk, visitor, summary, err);
		if (rc < 0)
			return rc;
	}
	summary->header_bytes = (int64_t)walk->position;
	if (summary->tensors == 0)
		return 0;
	uint64_t end = (uint64_t)bounded_round((int64_t)walk->position, walk->alignment);
	end += (uint64_t)summary->data_bytes;
	if (end > walk->source->size)
		summary->missing_bytes = (int64_t)(end - walk->source->size);
	return 0;
}

int gguf_walk_file(struct gguf_walk *walk, const struct byte_source *source,
                   const struct gguf_visitor *visitor, struct gguf_summary *summary, struct err *err)
{
	*summary = (struct gguf_summary){ 0 };
	walk->source = source;
	walk->position = 0;
	walk->window_length = 0;
	walk->bytes_read = 0;
	walk->alignment = ALIGNMENT_DEFAULT;
	walk->files++;

	int rc = walk_front(walk, summary, err);
	for (int64_t i = 0; rc == 0 && i < summary->entries; i++)
		rc = walk_entry(walk, visitor, err);
	if (rc == 0 && visitor->tensor)
		rc = walk_tensors(walk, visitor, summary, err);
	walk->source = NULL;
	return rc;
}
