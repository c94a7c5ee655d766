#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/memory.h"
#include "api/value.h"
#include "app/cli.h"
#include "app/cli_dial.h"
#include "app/cli_json.h"
#include "app/patience.h"
#include "app/cli_table.h"
#include "app/doctor_quants.h"
#include "base/alloc.h"
#include "probe/doctor.h"
#include "probe/doctor_service.h"
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

/*
 * The configuration that is meant, or found where it is this machine that is looked at; NULL: none. One that was asked
 * for and cannot be used is an error, one that is only found is told.
 */
static int load(const struct cli_args *args, struct conf **out)
{
	const struct cli_value *file = cli_value(args, "file");
	char *path = file->given || !cli_value(args, "root")->given ? conf_find(file->given ? file->text : NULL) : NULL;
	struct buf problems = BUF_INIT;
	char command[300];
	int code = CLI_DONE;

	*out = path ? conf_load(path, &problems) : NULL;
	if (path && !*out) {
		fprintf(stderr, "%s", buf_cstr(&problems));
		snprintf(command, sizeof command, "cotenant check -f %.200s", path);
		code = cli_fail(CLI_FAILED, command, "%s cannot be used", path);
	}
	buf_release(&problems);
	free(path);
	return file->given ? code : CLI_DONE;
}

/* Who serves at the socket where a command would look for it; 0: nobody. */
static pid_t find_daemon(void)
{
	struct ucred peer = { 0 };
	struct dial_target target;
	struct err ignored;
	socklen_t bytes = sizeof peer;

	if (dial_resolve(NULL, NULL, &target, &ignored) < 0 || !target.path[0])
		return 0;
	int fd = dial(&target, &ignored);
	if (fd < 0)
		return 0;
	bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 1;
	close(fd);
	return known ? peer.pid : 0;
}

static void add_models(struct doctor_service *service, const struct conf *conf)
{
	for (size_t i = 0; conf && i < conf->model_count; i++)
		for (size_t j = 0; j < conf->models[i].env.count; j++)
			doctor_service_add(service, conf->models[i].name, conf->models[i].env.items[j].name,
			                   conf->models[i].env.items[j].value);
}

/* What is asked with `conf`, and what is told. */
struct visit {
	const char *root, *record;
	const struct conf *conf; /* or NULL */
	struct findings *findings;
	const char *topology;
	json_t *advice, *inputs;
};

static void look(struct visit *visit, struct topology *topology)
{
	struct programs *programs = xcalloc(1, sizeof(*programs));
	struct doctor_service *service = xcalloc(1, sizeof(*service));

	doctor_service_open(service, visit->root, visit->root[0] ? 0 : find_daemon());
	add_models(service, visit->conf);
	programs_complete(visit->root, topology, programs);
	doctor_examine(visit->root, topology, programs, service, visit->findings);
	patience_end(); /* models' files may take their time */
	if (topology_knows_ram(topology) && visit->conf)
		visit->advice = doctor_quants(visit->conf, topology, visit->findings);
	visit->topology = topology_name(topology->kind);
	visit->inputs = inputs_json(&topology->inputs);
	doctor_service_close(service);
	free(service);
	free(programs);
}

static int examine(struct visit *visit)
{
	struct topology *topology = xcalloc(1, sizeof(*topology));
	struct err err;
	patience_begin("cotenant doctor");
	int code = topology_find(visit->root, topology, &err);

	if (code == 0 || topology_has_proc(visit->root)) {
		code = 0;
		look(visit, topology);
		if (visit->record)
			code = recording_save(visit->root, visit->record, topology, &err);
	}
	patience_end();
	free(topology);
	return code < 0 ? cli_fail(CLI_FAILED, "cotenant doctor --help", "%s", err.text) : CLI_DONE;
}

static void print_visit(const struct visit *visit, bool as_json)
{
	if (as_json) {
		json_print(json_pack("{s:s, s:o, s:O, s:o}", "topology", visit->topology, "checks", findings_json(visit->findings),
		                     "inputs", visit->inputs, "quantisation",
		                     visit->advice ? json_incref(visit->advice) : json_array()));
		return;
	}
	print_findings(visit->findings);
	print_advice(visit->advice, doctor_quants_fit(visit->findings));
	if (!visit->record)
		return;
	printf("\nsaved to ");
	cli_put(visit->record);
	putchar('\n');
}

static int run_doctor(const struct cli_args *args)
{
	const struct cli_value *root = cli_value(args, "root"), *record = cli_value(args, "record");
	struct visit visit = { .root = root->given ? root->text : "", .record = record->given ? record->text : NULL, .topology = "" };
	struct conf *conf = NULL;

	if (root->given && record->given)
		return cli_fail(CLI_USAGE, "cotenant doctor --help", "--root reads a recording, --record makes one");
	int code = load(args, &conf);
	visit.conf = conf;
	visit.findings = xcalloc(1, sizeof(*visit.findings));
	if (code == CLI_DONE)
		code = examine(&visit);
	if (code == CLI_DONE)
		print_visit(&visit, args->json);
	json_decref(visit.advice);
	json_decref(visit.inputs);
	free(visit.findings);
	conf_free(conf);
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
	        "code 0 whatever is found. Where a daemon runs, its environment, limits and rights are\n"
	        "looked at; else those of who asks.\n\n"
	        "Examples:\n"
	        "  cotenant doctor\n"
	        "  cotenant doctor --record my-machine   # for a bug report\n"
	        "  cotenant doctor --json | jq '.checks[] | select(.status == \"problem\")'",
	.options = doctor_options,
	.reads = true,
	.run = run_doctor,
};
