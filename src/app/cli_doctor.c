#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/memory.h"
#include "api/value.h"
#include "app/cli.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "app/doctor_quants.h"
#include "base/alloc.h"
#include "probe/doctor.h"
#include "probe/recording.h"

enum { SHOWN_FIRST = 3 };

static const struct cli_option doctor_options[] = {
	{ "root", 0, CLI_TEXT, "DIR",
	  "look at a recorded machine (DIR/proc, DIR/sys) instead of this one" },
	{ "file", 'f', CLI_TEXT, "FILE", "the configuration whose models are judged (else searched)" },
	{ "record", 0, CLI_TEXT, "DIR",
	  "save what --root reads, for a bug report, with nothing private in it" },
	{ 0 },
};

static json_t *finding_json(const struct finding *f)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:s, s:o}", "id", f->id, "status",
	                 finding_status_name(f->status), "found", json_lossy(str_from(f->found)),
	                 "wanted", json_lossy(str_from(f->wanted)), "why", f->why, "fix",
	                 json_lossy(str_from(f->fix)));
}

static json_t *findings_json(const struct findings *findings)
{
	json_t *checks = json_array();

	for (uint32_t i = 0; i < findings->count; i++)
		json_array_append_new(checks, finding_json(&findings->list[i]));
	return checks;
}

static void print_finding(const struct finding *f)
{
	printf("%-8s %s: ", finding_status_name(f->status), f->id);
	cli_put(f->found);
	if (f->status == FINDING_OK || f->status == FINDING_UNKNOWN) {
		putchar('\n');
		return;
	}
	printf("\n         wanted: ");
	cli_put(f->wanted);
	printf("\n         why:    ");
	cli_put(f->why);
	if (f->fix[0]) {
		printf("\n         fix:    ");
		cli_put(f->fix);
	}
	putchar('\n');
}

/* Those that matter most, then the rest by how bad they are. */
static void print_findings(const struct findings *findings)
{
	uint32_t order[FINDINGS_MAX];
	uint32_t bad = doctor_foremost(findings, order, FINDINGS_MAX);

	for (uint32_t i = 0; i < bad; i++) {
		if (i == SHOWN_FIRST)
			printf("\nalso:\n");
		print_finding(&findings->list[order[i]]);
	}
	if (bad == 0)
		printf("nothing stands in the way\n");
	putchar('\n');
	for (uint32_t i = 0; i < findings->count; i++) {
		enum finding_status status = findings->list[i].status;
		if (status == FINDING_OK || status == FINDING_UNKNOWN)
			print_finding(&findings->list[i]);
	}
}

/* Which quantisation of each lets all of them stay. */
static void print_advice(const json_t *advice, bool fits)
{
	static const char *const columns[] = { "MODEL", "NOW", ">WEIGHTS", "ADVISED", ">WEIGHTS", ">REST", ">PERPLEXITY", NULL };
	struct buf out = BUF_INIT;
	struct table table;
	const json_t *row;
	size_t i;

	if (json_array_size(advice) == 0)
		return;
	table_begin(&table, columns);
	json_array_foreach(advice, i, row)
	{
		const json_t *loss = json_object_get(row, "perplexity_percent");
		table_add(&table, "%s", json_text(row, "model"));
		table_add(&table, "%s", json_text(row, "now"));
		table_add_size(&table, json_int(row, "now_bytes"));
		table_add(&table, "%s", json_text(row, "advised"));
		table_add_size(&table, json_int(row, "advised_bytes"));
		table_add_size(&table, json_int(row, "rest_bytes"));
		if (json_is_number(loss))
			table_add(&table, "+%.2g %%", json_number_value(loss));
		else
			table_add(&table, "-");
	}
	table_end(&table, &out);
	printf("\n%s:\n\n%s", fits ? "All resident at once, with the least loss" : "Not enough, but the most that quantisation can do",
	       buf_cstr(&out));
	printf("\nPerplexity is above 16 bits, as llama.cpp's authors measured it of Llama 3 8B; larger models lose less.\n");
	buf_release(&out);
}

/* Of the configuration that is meant, or found where it is this machine that is looked at. */
static json_t *judge_models(const struct cli_args *args, const struct topology *topology,
                            struct findings *findings)
{
	const struct cli_value *file = cli_value(args, "file");
	char *path = file->given || !cli_value(args, "root")->given ? conf_find(file->given ? file->text : NULL) : NULL;
	struct buf problems = BUF_INIT;
	struct conf *conf = path ? conf_load(path, &problems) : NULL;
	json_t *advice = conf ? doctor_quants(conf, topology, findings) : NULL;

	if (file->given && !conf)
		fprintf(stderr, "%s\n", buf_length(&problems) ? buf_cstr(&problems) : "the configuration cannot be read");
	if (conf)
		conf_free(conf);
	buf_release(&problems);
	free(path);
	return advice;
}

static int examine(const struct cli_args *args, const char *root, const char *record, struct findings *findings,
                   const char **topology_is, json_t **advice, json_t **inputs)
{
	struct topology *topology = xcalloc(1, sizeof(*topology));
	struct programs *programs = xcalloc(1, sizeof(*programs));
	struct err err;
	int code = topology_find(root, topology, &err);

	if (code == 0 || topology_has_proc(root)) {
		code = 0;
		programs_read(root, topology, NULL, programs);
		doctor_examine(root, topology, programs, findings);
		if (topology->pools > 0)
			*advice = judge_models(args, topology, findings);
		*topology_is = topology_name(topology->kind);
		*inputs = inputs_json(&topology->inputs);
		if (record)
			code = recording_save(root, record, topology, &err);
	}
	free(programs);
	free(topology);
	return code < 0 ? cli_fail(CLI_FAILED, "cotenant doctor --help", "%s", err.text) : CLI_DONE;
}

static int run_doctor(const struct cli_args *args)
{
	const struct cli_value *root = cli_value(args, "root"), *record = cli_value(args, "record");
	struct findings *findings = xcalloc(1, sizeof(*findings));
	const char *topology = "";
	json_t *advice = NULL, *inputs = NULL;

	if (root->given && record->given) {
		free(findings);
		return cli_fail(CLI_USAGE, "cotenant doctor --help",
		                "--root reads a recording, --record makes one");
	}
	int code = examine(args, root->given ? root->text : "", record->given ? record->text : NULL, findings,
	                   &topology, &advice, &inputs);
	if (code == CLI_DONE && args->json) {
		json_print(json_pack("{s:s, s:o, s:O, s:o}", "topology", topology, "checks", findings_json(findings),
		                     "inputs", inputs, "quantisation", advice ? json_incref(advice) : json_array()));
	} else if (code == CLI_DONE) {
		print_findings(findings);
		print_advice(advice, doctor_quants_fit(findings));
	}
	json_decref(advice);
	json_decref(inputs);
	if (code == CLI_DONE && record->given && !args->json) {
		printf("\nsaved to ");
		cli_put(record->text);
		putchar('\n');
	}
	free(findings);
	return code;
}

const struct cli_verb verb_doctor = {
	.name = "doctor",
	.operands = "",
	.summary = "what of this machine's settings stands in the way of models",
	.help = "Looks at the machine's settings, drivers and limits: what was found, what is "
	        "wanted,\n"
	        "why, and the command or file that changes it. What matters most stands first. "
	        "Exit\n"
	        "code 0 whatever is found.\n\n"
	        "Examples:\n"
	        "  cotenant doctor\n"
	        "  cotenant doctor --record my-machine   # for a bug report\n"
	        "  cotenant doctor --json | jq '.checks[] | select(.status == \"problem\")'",
	.options = doctor_options,
	.reads = true,
	.run = run_doctor,
};
