#include "app/cli_calibration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calibration_json.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "base/alloc.h"

enum { STREAM_MOST = 1 << 20, FIELDS = 9 };

static bool parse_bytes(struct str text, int64_t *out)
{
	uint64_t number;

	if (!str_to_u64(text, &number) || number > INT64_C(1) << 60)
		return false;
	*out = (int64_t)number;
	return true;
}

static bool parse_line(struct str line, struct observation *out)
{
	struct str field[FIELDS], rest = line;
	int64_t device = 0;

	for (int i = 0; i < FIELDS; i++) {
		if (!rest.data)
			return false;
		field[i] = str_cut(rest, '\t', &rest);
	}
	*out = (struct observation){
		.keys = { str_hash(field[0]), str_hash(field[1]), str_hash(field[2]) },
		.touched = true,
	};
	bool good = parse_bytes(field[3], &out->formula.fixed_bytes) &&
	            parse_bytes(field[4], &out->formula.compute_bytes) &&
	            parse_bytes(field[5], &out->compute_bytes) && parse_bytes(field[6], &out->total_bytes) &&
	            parse_bytes(field[7], &out->killed_bytes) && parse_bytes(field[8], &device);
	out->formula.on_device = device != 0;
	return good && (out->total_bytes > 0 || out->killed_bytes > 0);
}

/* The count, or -1 with the line that is wrong in `line`. */
static int read_stream(FILE *in, struct observation **out, int *line)
{
	struct observation *all = NULL;
	size_t count = 0, capacity = 0, size = 0;
	char *text = NULL;
	ssize_t length;

	*line = 0;
	while ((length = getline(&text, &size, in)) >= 0 && count < STREAM_MOST) {
		(*line)++;
		struct str end, bytes = str_cut((struct str){ text, (size_t)length }, '\n', &end);
		if (bytes.length == 0 || bytes.data[0] == '#')
			continue;
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : 256;
			all = xrealloc(all, capacity * sizeof(*all));
		}
		if (!parse_line(bytes, &all[count])) {
			free(text);
			free(all);
			return -1;
		}
		count++;
	}
	free(text);
	*out = all;
	return (int)count;
}

static void add_part(struct table *table, const char *what, const json_t *part)
{
	long long loads = json_int(part, "loads");
	bool few = loads < CALIBRATION_FEW;
	double covered = json_real_of(part, "coverage");

	table_add(table, "%s", what);
	table_add(table, "%lld", loads);
	if (few)
		table_add(table, "%.0f of %lld", covered * (double)loads, loads);
	else
		table_add(table, "%.1f %%", 100 * covered);
	table_add(table, "%+.2f %%", 100 * json_real_of(part, "off_median"));
	if (few)
		table_add(table, "-");
	else
		table_add(table, "%.2f %%", 100 * json_real_of(part, "off_p95"));
	table_add(table, "%.2f %%", 100 * json_real_of(part, "above_median"));
}

/* "from 2 h 4 m ago on", or its first load's number where nobody knows when it was. */
static void name_span(char *out, size_t out_bytes, const json_t *part)
{
	char when[JSON_WHEN_BYTES];
	int64_t at_ms = json_int(part, "at_ms");

	if (at_ms)
		snprintf(out, out_bytes, "from %s on", json_when(when, at_ms));
	else
		snprintf(out, out_bytes, "from %lld", (long long)json_int(part, "first") + 1);
}

static void name_build(char *out, size_t out_bytes, const json_t *part)
{
	const char *name = json_text(part, "name");

	/* One name may be of several builds: other libraries, another device. */
	const char *hash = json_text(part, "build");
	if (name[0])
		snprintf(out, out_bytes, "%s (%.8s)", name, hash);
	else
		snprintf(out, out_bytes, "engine %.8s", hash);
}

static void print_calibration(const json_t *json)
{
	static const char *const titles[] = { "LOADS", ">NUMBER", ">COVERED", ">OFF", ">OFF P95",
		                              ">BOUND OVER", NULL };
	const json_t *spans = json_object_get(json, "over_time"), *builds = json_object_get(json, "builds");
	struct buf out = BUF_INIT;
	struct table table;
	char what[192];

	if (json_int(json, "loads") == 0) {
		printf("no loads were measured yet\n");
		return;
	}
	table_begin(&table, titles);
	for (size_t i = 0; json_array_size(spans) > 1 && i < json_array_size(spans); i++) {
		const json_t *part = json_array_get(spans, i);
		name_span(what, sizeof(what), part);
		add_part(&table, what, part);
	}
	for (size_t i = 0; i < json_array_size(builds); i++) {
		const json_t *part = json_array_get(builds, i);
		name_build(what, sizeof(what), part);
		add_part(&table, what, part);
	}
	add_part(&table, "all", json);
	table_end(&table, &out);
	printf("%s", buf_cstr(&out));
	buf_release(&out);
	puts("\neach load is judged by what was said before it. COVERED: took no more than the bound.\n"
	     "OFF: the best estimate over (+) or under (-) what was measured as soon as it was ready;\n"
	     "engines touch a part of their buffers later, so somewhat over is as it should be.\n"
	     "BOUND OVER: so much more than was measured the bound allowed. OFF and this are medians.");
	if (json_int(json, "loads") < CALIBRATION_FEW)
		printf("so few loads are no statistics yet: a share and OFF P95 are told from %d on\n", CALIBRATION_FEW);
	printf("bounds are stated for %.0f %%; %lld loads were killed for memory\n",
	       100 * json_real_of(json, "target"), (long long)json_int(json, "killed"));
}

static int calibrate_file(const char *path, json_t **out)
{
	struct observation *observations = NULL;
	struct calibration calibration;
	int line;

	FILE *in = fopen(path, "re");
	if (!in)
		return cli_fail(CLI_FAILED, "cotenant lab --help", "%s: %s", path, strerror(errno));
	int count = read_stream(in, &observations, &line);
	fclose(in);
	if (count < 0)
		return cli_fail(CLI_FAILED, "cotenant lab --help",
		                "%s:%d: a load is nine fields parted by tabs, sizes in bytes", path, line);
	calibrate(observations, NULL, (uint32_t)count, &calibration);
	free(observations);
	*out = calibration_json(&calibration);
	return CLI_DONE;
}

int run_calibration(const struct cli_args *args)
{
	json_t *json = NULL;
	int code = args->operands > 1 ? calibrate_file(args->operand[1], &json)
	                              : client_get(args, "/api/v1/calibration", &json);

	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(json);
	print_calibration(json);
	json_decref(json);
	return CLI_DONE;
}
