#include "conf/schema.h"

#include "conf/rules.h"

/*
 * The tables. Order matters in one way: what others refer to while being read
 * (macros, engines, defaults) stands before them.
 */
#define MEMBER(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define CONF(member) MEMBER(struct conf, member)
#define MODEL(member) MEMBER(struct conf_model, member)
#define ALIAS(member) MEMBER(struct conf_alias, member)
#define KEY(member) MEMBER(struct conf_key, member)
#define SET(member) MEMBER(struct conf_set, member)
#define SIDE(member) MEMBER(struct conf_side, member)
#define ENGINE(member) MEMBER(struct conf_named_engine, member)
#define ARRAY(items, count) CONF(items), .also = offsetof(struct conf, count)
#define LIVE EFFECT_LIVE
#define DRAIN EFFECT_DRAIN
#define RESTART EFFECT_RESTART

/* Beyond all sense, and far from where sums would overflow: a hundred years, a pebibyte. */
#define LONGEST (INT64_C(36525) * 86400 * 1000000)
#define LARGEST (INT64_C(1) << 50)
#define END { .key = NULL }

enum { TOKENS_MAX = 1 << 28 };

static const struct choice policies[] = {
	{ "cotenant", 0, NULL, NULL },
	{ "threshold", 1, NULL, NULL },
	{ "hysteresis", 2, NULL, NULL },
	{ "cost-benefit", 3, NULL, NULL },
	{ "lru", 4, NULL, NULL },
	{ "one-at-a-time", 5, NULL, NULL },
	{ NULL, 0, NULL, NULL },
};

static const struct choice priorities[] = {
	{ "interactive", 0, NULL, NULL }, { "normal", 1, NULL, NULL }, { "background", 2, NULL, NULL },
	{ "batch", 3, NULL, NULL },       { NULL, 0, NULL, NULL },
};

const struct choice schema_engine_kinds[] = {
	{ "llama-server", CONF_ENGINE_LLAMA_SERVER, NULL, NULL },
	{ "whisper-server", CONF_ENGINE_WHISPER_SERVER, NULL, NULL },
	{ "sd-server", CONF_ENGINE_SD_SERVER, NULL, NULL },
	{ "comfyui", CONF_ENGINE_COMFYUI, "engine: command", NULL },
	{ "vllm", CONF_ENGINE_VLLM, "engine: command", NULL },
	{ "ollama", CONF_ENGINE_OLLAMA, "engine: command", NULL },
	{ "command", CONF_ENGINE_COMMAND, NULL, NULL },
	{ NULL, 0, NULL, NULL },
};

static const struct choice kv_ways[] = {
	{ "lazy", CONF_KV_LAZY, NULL, "where the engine computes on the CPU, else elastic" },
	{ "elastic", CONF_KV_ELASTIC, NULL, "where `context` leaves room" },
	{ "fixed", CONF_KV_FIXED, NULL, NULL },
	{ NULL, 0, NULL, NULL },
};

static const struct choice kv_types[] = {
	{ "f32", 0, NULL, NULL },  { "f16", 0, NULL, NULL },  { "bf16", 0, NULL, NULL },   { "q8_0", 0, NULL, NULL },
	{ "q5_1", 0, NULL, NULL }, { "q5_0", 0, NULL, NULL }, { "iq4_nl", 0, NULL, NULL }, { "q4_1", 0, NULL, NULL },
	{ "q4_0", 0, NULL, NULL }, { NULL, 0, NULL, NULL },
};

static const struct choice disconnects[] = {
	{ "cancel", 0, NULL, NULL }, { "finish", 1, "cancel", NULL }, { NULL, 0, NULL, NULL },
};

static const struct choice sleeps[] = {
	{ "never", 0, NULL, NULL }, { "while-busy", 1, "never", NULL }, { NULL, 0, NULL, NULL },
};

static const struct choice compact_when[] = {
	{ "auto", 0, NULL, NULL }, { "never", 1, NULL, NULL }, { NULL, 0, NULL, NULL },
};

static const struct choice roles[] = {
	{ "use", CONF_ROLE_USE, NULL, NULL }, { "admin", CONF_ROLE_ADMIN, NULL, NULL }, { NULL, 0, NULL, NULL },
};

static const struct field compact_fields[] = {
	{ "when", FIELD_CHOICE, LIVE, CONF(compact_when), .choices = compact_when, .fallback = "auto",
	  .help = "Gather broken up free memory into large blocks by itself, in the quiet hours and when "
	          "nobody asked for ten minutes: idle models leave and come back. Takes root." },
	{ "quiet", FIELD_STRING, LIVE, CONF(compact_quiet), .refuse = rule_hours,
	  .fallback = "03:00-05:00", .help = "The hours in which that may be, local time." },
	END,
};
static const struct section compact_section = { .title = "memory.compact", .fields = compact_fields };

static const struct field memory_fields[] = {
	{ "limit", FIELD_SIZE, LIVE, FIELD_AUTO, CONF(memory_limit_bytes), .min = 1, .max = LARGEST,
	  .fallback = "auto",
	  .help = "Claim no more than this for models; one that is alone may be tried on less than "
	          "its estimate. auto: what the machine has." },
	{ "margin", FIELD_PERCENT, LIVE, FIELD_AUTO, CONF(memory_margin_permille), .max = 900,
	  .fallback = "auto",
	  .help = "Kept free when a model is let in. auto: as much as measurements have been off." },
	{ "reserve", FIELD_SIZE, LIVE, FIELD_AUTO, CONF(memory_reserve_bytes), .max = LARGEST,
	  .fallback = "auto", .help = "Bytes that always stay free; under a control group's limit at most an eighth of it. "
	          "auto: by the kind of machine (doc/memory.md has the table)." },
	{ "compact", FIELD_GROUP, LIVE, .section = &compact_section,
	  .help = "Gathering memory into large pages." },
	END,
};
static const struct section memory_section = { .title = "memory", .fields = memory_fields };

static const struct field limits_fields[] = {
	{ "models", FIELD_INT, RESTART, CONF(limit_models), .min = 1, .max = 65536,
	  .fallback = "1024", .help = "Models the catalogue may hold." },
	{ "requests", FIELD_INT, RESTART, CONF(limit_requests), .min = 1, .max = 1048576,
	  .fallback = "16384", .help = "Requests under way or waiting, over all models." },
	{ "leases", FIELD_INT, RESTART, CONF(limit_leases), .min = 1, .max = 65536,
	  .fallback = "1024", .help = "Leases held or asked for." },
	END,
};
static const struct section limits_section = { .title = "limits", .fields = limits_fields };

static const struct field bodies_fields[] = {
	{ "each", FIELD_SIZE, LIVE, CONF(body_each_bytes), .min = 1024, .max = INT64_C(1) << 40,
	  .fallback = "64MiB", .help = "The largest request body that is taken." },
	{ "memory", FIELD_SIZE, LIVE, CONF(body_memory_bytes), .max = INT64_C(1) << 40,
	  .fallback = "64MiB", .help = "Waiting bodies kept in memory, over all requests." },
	{ "spill", FIELD_SIZE, LIVE, CONF(body_spill_bytes), .max = INT64_C(1) << 44,
	  .fallback = "4GiB",
	  .help = "Past `memory`, and from 4 MiB each on, bodies go to unlinked files: of so much in all at most." },
	{ "within", FIELD_DURATION, LIVE, FIELD_NEVER, CONF(body_within_us), .min = 1000000, .max = LONGEST,
	  .fallback = "15m",
	  .help = "A body must be there so long after its head, however it trickles; a minute without a byte "
	          "ends it in any case." },
	END,
};
static const struct section bodies_section = { .title = "bodies", .fields = bodies_fields };

static const struct field socket_fields[] = {
	{ "group", FIELD_STRING, RESTART, CONF(socket_group),
	  .help = "Members of this group may use the socket. Left out: only its owner and root." },
	{ "admin_group", FIELD_STRING, RESTART, CONF(socket_admin_group),
	  .help = "Members of this group are admin on the socket." },
	END,
};
static const struct section socket_section = { .title = "socket", .fields = socket_fields };

static const struct field engine_fields[] = {
	{ "kind", FIELD_CHOICE, DRAIN, FIELD_REQUIRED, ENGINE(kind), .choices = schema_engine_kinds,
	  .help = "Which kind of server it is; may be left out where NAME is the kind." },
	{ "path", FIELD_PROGRAM, DRAIN, FIELD_REQUIRED, ENGINE(path), .help = "The program to run." },
	END,
};
static const struct section engine_section = {
	.title = "engines.NAME", .fields = engine_fields, .bytes = sizeof(struct conf_named_engine),
	.name = offsetof(struct conf_named_engine, name), .refuse_name = rule_name,
};

static const struct field model_filter_fields[] = {
	{ "set", FIELD_JSON, LIVE, FIELD_UNBUILT, MODEL(filters_set), .fallback = "{}",
	  .help = "Values put into each request's body." },
	{ "strip", FIELD_STRINGS, LIVE, FIELD_UNBUILT, MODEL(filters_strip),
	  .help = "Keys taken out of each request's body." },
	END,
};
static const struct section model_filter_section = {
	.title = "models.NAME.filters", .fields = model_filter_fields,
};

static const struct field alias_filter_fields[] = {
	{ "set", FIELD_JSON, LIVE, FIELD_UNBUILT, ALIAS(filters_set), .fallback = "{}",
	  .help = "Values put into the body of a request by this name." },
	{ "strip", FIELD_STRINGS, LIVE, FIELD_UNBUILT, ALIAS(filters_strip),
	  .help = "Keys taken out of the body of a request by this name." },
	END,
};
static const struct section alias_filter_section = {
	.title = "aliases.NAME.filters", .fields = alias_filter_fields,
};

static const struct field alias_fields[] = {
	{ "models", FIELD_STRINGS, LIVE, ALIAS(models), .refuse = rule_name,
	  .help = "The models it stands for, first choice first." },
	{ "model", FIELD_STRING, LIVE, FIELD_HIDDEN, ALIAS(model), .refuse = rule_name,
	  .help = "The same for one model." },
	{ "filters", FIELD_GROUP, LIVE, .section = &alias_filter_section,
	  .help = "Changes to the requests that come by this name." },
	END,
};
static const struct section alias_section = {
	.title = "aliases.NAME", .fields = alias_fields, .bytes = sizeof(struct conf_alias),
	.name = offsetof(struct conf_alias, name), .refuse_name = rule_name,
};

static const struct field experts_fields[] = {
	{ "resident", FIELD_SIZE, DRAIN, 0, MODEL(experts_resident_bytes),
	  .max = LARGEST,
	  .help = "llama-server: bytes of expert weights that are counted as used. The experts are mapped from the file; "
	          "those beyond lie in memory that the kernel takes back and are read again: plan tells how much slower. A "
	          "control group of its own bounds the engine where one is left to the daemon (systemd: Delegate=memory, "
	          "DelegateSubgroup=daemon)." },
	END,
};
static const struct section experts_section = {
	.title = "models.NAME.experts", .fields = experts_fields,
};

static const struct field routes_fields[] = {
	{ "work", FIELD_STRINGS, LIVE, MODEL(routes_work), .refuse = rule_route,
	  .help = "Paths that are work: they load the model and count as use." },
	{ "look", FIELD_STRINGS, LIVE, MODEL(routes_look), .refuse = rule_route,
	  .help = "Paths that only look: they never load, wake or keep the model." },
	{ "change", FIELD_STRINGS, LIVE, MODEL(routes_change), .refuse = rule_route,
	  .help = "Paths that change the engine: for admins." },
	END,
};
static const struct section routes_section = {
	.title = "models.NAME.routes", .fields = routes_fields,
};

static const struct field model_fields[] = {
	{ "engine", FIELD_STRING, DRAIN, MODEL(engine_name),
	  .help = "A kind of server (llama-server, whisper-server, sd-server, command) or a name of `engines`. May be "
	          "left out where the file tells it (GGUF: llama-server, .safetensors: sd-server, whisper's .bin: "
	          "whisper-server), and with `cmd` or `url` (command)." },
	{ "file", FIELD_PATH, DRAIN, MODEL(file), .help = "The model file." },
	{ "mmproj", FIELD_PATH, DRAIN, MODEL(mmproj), .help = "The file for images and sound." },
	{ "draft", FIELD_PATH, DRAIN, MODEL(draft), .help = "A smaller model that drafts." },
	{ "lora", FIELD_PATHS, DRAIN, MODEL(lora), .help = "Adapter files." },
	{ "context", FIELD_CONTEXT, DRAIN, MODEL(context_min), .min = 1, .max = TOKENS_MAX,
	  .fallback = "auto",
	  .help = "Tokens of one conversation: a number, {min, max}, or auto: the model's own, as "
	          "far as it fits. min (4096 where it is not given) is what an elastic context starts with at least." },
	{ "slots", FIELD_INT, DRAIN, FIELD_NOTED, MODEL(slots),
	  .also = offsetof(struct conf_model, slots_given), .min = 1, .max = 65536, .fallback = "1",
	  .help = "Requests at once in the engine; the rest wait here, not there." },
	{ "kv_type", FIELD_WORD, DRAIN, MODEL(kv_type), .choices = kv_types, .fallback = "f16",
	  .help = "How the engine stores what it has read of a conversation." },
	{ "kv", FIELD_CHOICE, DRAIN, MODEL(kv), .choices = kv_ways, .fallback = "lazy",
	  .help = "lazy: memory follows what conversations fill, where the engine computes on the CPU, else elastic. "
	          "elastic: it starts with the context that conversations usually need and is started anew with "
	          "a larger one when a request needs it, where `context` leaves room for that. fixed: all of it at the "
	          "start." },
	{ "kv_keep", FIELD_SIZE, LIVE, 0, MODEL(kv_keep_bytes), .max = LARGEST,
	  .help = "Conversations saved in files when their memory or the model has to go, and brought back when "
	          "they go on, also by the next daemon; the newest within this size." },
	{ "args", FIELD_ARGS, DRAIN, MODEL(args),
	  .help = "Further arguments of the engine: a list, or a string split as a shell would, without "
	          "expansion." },
	{ "device", FIELD_STRING, DRAIN, MODEL(device), .refuse = rule_name, .fallback = "auto",
	  .help = "auto (a GPU where there is one; of a card that is too small for all, as many layers as "
	          "fit), cpu, gpu (all layers), or the name of one." },
	{ "priority", FIELD_CHOICE, LIVE, FIELD_INHERITED, MODEL(priority), .choices = priorities,
	  .fallback = "normal", .help = "Whose requests go first." },
	{ "weight", FIELD_DECIMAL, LIVE, MODEL(weight_milli), .min = CONF_WEIGHT_MIN_MILLI,
	  .max = CONF_WEIGHT_MAX_MILLI, .fallback = "1", .help = "How much it counts when something has to go." },
	{ "pin", FIELD_BOOL, LIVE, MODEL(pin), .fallback = "false", .help = "true: never evicted." },
	{ "preload", FIELD_BOOL, LIVE, MODEL(preload), .fallback = "false",
	  .help = "true: loaded at start, and again when room returns." },
	{ "autoload", FIELD_BOOL, LIVE, MODEL(autoload), .fallback = "true",
	  .help = "false: a request does not load it; only `cotenant load` does." },
	{ "unload_after", FIELD_DURATION, LIVE, FIELD_INHERITED | FIELD_NEVER | FIELD_AUTO, MODEL(unload_after_us),
	  .max = LONGEST, .fallback = "never",
	  .help = "Idle time after which it goes. never: only when its room is needed. auto: ten minutes "
	          "on battery, never on mains." },
	{ "stall_timeout", FIELD_DURATION, LIVE, FIELD_INHERITED | FIELD_NEVER,
	  MODEL(stall_timeout_us), .min = 1, .max = LONGEST, .fallback = "5m",
	  .help = "How long an engine may go without progress before it counts as stuck." },
	{ "start_timeout", FIELD_DURATION, LIVE, FIELD_INHERITED | FIELD_NEVER,
	  MODEL(start_timeout_us), .min = 1, .max = LONGEST, .fallback = "15m",
	  .help = "How long a load may take at most, whatever progress it makes. Its requests are answered 504 then; a "
	          "larger file on a slower disk needs more." },
	{ "drain_timeout", FIELD_DURATION, LIVE, FIELD_INHERITED, MODEL(drain_timeout_us),
	  .max = LONGEST, .fallback = "10m",
	  .help = "How long an unload waits for running requests." },
	{ "queue", FIELD_INT, LIVE, FIELD_INHERITED, MODEL(queue), .min = 1, .max = 1048576,
	  .fallback = "256", .help = "Requests that may wait for this model." },
	{ "reply", FIELD_INT, LIVE, FIELD_INHERITED, MODEL(reply_tokens), .min = 1, .max = TOKENS_MAX,
	  .fallback = "2048", .help = "Tokens an answer is expected to have where the request does not say." },
	{ "early_headers_after", FIELD_DURATION, LIVE, FIELD_INHERITED, MODEL(early_headers_after_us),
	  .max = LONGEST, .fallback = "10s",
	  .help = "A streaming request hears 200 and keep-alives from then on." },
	{ "aliases", FIELD_STRINGS, LIVE, MODEL(aliases), .refuse = rule_pattern,
	  .help = "Other names clients may use; * stands for anything." },
	{ "env", FIELD_PAIRS, DRAIN, MODEL(env), .refuse = rule_variable,
	  .help = "Environment of the engine." },
	{ "filters", FIELD_GROUP, LIVE, .section = &model_filter_section,
	  .help = "Changes to requests." },
	{ "experts", FIELD_GROUP, DRAIN, .section = &experts_section,
	  .help = "Models of many experts." },
	{ "on_disconnect", FIELD_CHOICE, LIVE, MODEL(on_disconnect_finish), .choices = disconnects,
	  .fallback = "cancel", .help = "What becomes of a request whose client left." },
	{ "normalise", FIELD_STRINGS, LIVE, FIELD_UNBUILT, MODEL(normalise),
	  .help = "Body filters that save prefix caches." },
	{ "routes", FIELD_GROUP, LIVE, .section = &routes_section,
	  .help = "What is not known of the engine's paths, as \"POST /tts\"." },
	{ "local", FIELD_BOOL, LIVE, MODEL(local), .fallback = "false",
	  .help = "true: never answered by another machine." },
	{ "container", FIELD_OPAQUE, DRAIN, FIELD_UNBUILT, .help = "Run it in a container." },
	{ "forward_auth", FIELD_BOOL, LIVE, MODEL(forward_auth), .fallback = "false",
	  .help = "true: the client's credentials reach the engine." },
	{ "cmd", FIELD_ARGS, DRAIN, MODEL(cmd_argv),
	  .help = "engine: command: what to run. ${PORT}, ${SOCKET}, ${FILE} and ${MODEL} are "
	          "filled in when it starts." },
	{ "url", FIELD_STRING, DRAIN, FIELD_ADDRESS, MODEL(url), .refuse = rule_url,
	  .help = "A server that runs already, as http://HOST:PORT: it is asked and measured, never "
	          "started or ended. With `cmd` it is started, and listens there." },
	{ "health", FIELD_STRING, DRAIN, MODEL(health), .refuse = rule_path, .fallback = "/health",
	  .help = "engine: command, url: the path that answers 200 once it is ready." },
	{ "footprint", FIELD_SIZE, LIVE, MODEL(footprint_bytes), .max = LARGEST,
	  .help = "The memory it takes, where you know better than the estimate." },
	{ "listen", FIELD_OPAQUE, DRAIN, FIELD_UNBUILT, .help = "comfyui: an address of its own." },
	{ "models_dir", FIELD_PATH, DRAIN, FIELD_UNBUILT, MODEL(models_dir),
	  .help = "comfyui: its folder of models." },
	END,
};
const struct section schema_model = {
	.title = "models.NAME", .fields = model_fields, .bytes = sizeof(struct conf_model),
	.name = offsetof(struct conf_model, name), .refuse_name = rule_name,
};
static const struct section defaults_section = {
	.title = "defaults", .fields = model_fields, .bytes = sizeof(struct conf_model),
	.only = FIELD_INHERITED,
};

static const struct field key_fields[] = {
	{ "key", FIELD_STRING, LIVE, FIELD_REQUIRED | FIELD_SECRET, KEY(key), .refuse = rule_key,
	  .help = "The secret; best as \"${env.NAME}\"." },
	{ "name", FIELD_STRING, LIVE, FIELD_REQUIRED, KEY(name), .refuse = rule_name,
	  .help = "What logs and history call it." },
	{ "role", FIELD_CHOICE, LIVE, KEY(role), .choices = roles, .fallback = "use",
	  .help = "use: requests, reading, leases of its own. admin: everything." },
	{ "models", FIELD_STRINGS, LIVE, KEY(models), .refuse = rule_name,
	  .help = "The models it may use. Left out: all." },
	{ "priority_max", FIELD_CHOICE, LIVE, KEY(priority_max), .choices = priorities,
	  .fallback = "interactive", .help = "The highest priority its requests may have." },
	{ "weight_max", FIELD_DECIMAL, LIVE, KEY(weight_max_milli), .min = CONF_WEIGHT_MIN_MILLI,
	  .max = CONF_WEIGHT_MAX_MILLI, .fallback = "1", .help = "The highest weight it may ask for." },
	{ "lease_max", FIELD_PERCENT, LIVE, FIELD_UNBUILT, KEY(lease_max_permille), .max = 1000,
	  .fallback = "50%", .help = "How much of the memory it may lease." },
	{ "requests_per_min", FIELD_INT, LIVE, KEY(requests_per_min), .max = INT32_MAX,
	  .fallback = "0", .help = "Requests for models a minute; 0: as many as it likes." },
	{ "parallel", FIELD_INT, LIVE, KEY(parallel), .max = INT32_MAX,
	  .fallback = "0", .help = "Requests for models at once, waiting ones too; 0: as many as it likes." },
	{ "tokens_per_day", FIELD_INT, LIVE, KEY(tokens_per_day), .max = INT64_MAX,
	  .fallback = "0", .help = "Tokens of prompts and answers a day, as engines count them (by its bytes, what a client broke "
	                           "off before they told); they come back evenly, and what is under way when they "
	                           "are used up may end. What was used stays used whatever becomes of the number, "
	                           "and over restarts; a daemon that is killed (`kill -9`) forgets what is under "
	                           "way at that moment, and of what just ended at most the last 0.25 s. 0: as "
	                           "many as it likes." },
	END,
};
static const struct section key_section = {
	.title = "api_keys[]", .fields = key_fields, .bytes = sizeof(struct conf_key),
};

static const struct field set_fields[] = {
	{ "models", FIELD_STRINGS, LIVE, SET(models), .refuse = rule_name,
	  .help = "The models, two or more; a model is in one set at most." },
	{ "first_byte", FIELD_DURATION, LIVE, SET(first_byte_us), .max = LONGEST,
	  .help = "How soon an answer of any of them is to begin; where it does not, /metrics counts it." },
	END,
};
static const struct section set_section = {
	.title = "sets.NAME", .fields = set_fields, .bytes = sizeof(struct conf_set),
	.name = offsetof(struct conf_set, name), .refuse_name = rule_name,
};

static const struct field side_fields[] = {
	{ "name", FIELD_STRING, LIVE, FIELD_REQUIRED, SIDE(name), .refuse = rule_name,
	  .help = "What lists and metrics call it." },
	{ "says", FIELD_STRINGS, LIVE, SIDE(says), .refuse = rule_says,
	  .help = "Texts of which one stands in the request; capitals do not count, * is up to 60 bytes of anything." },
	{ "prompt_max", FIELD_SIZE, LIVE, SIDE(prompt_max_bytes), .min = 1, .max = INT64_C(1) << 20,
	  .fallback = "16KiB", .help = "Its prompt is no longer than this." },
	{ "max_tokens", FIELD_INT, LIVE, SIDE(max_tokens), .min = 1, .max = TOKENS_MAX,
	  .help = "It asks for no more tokens than this. Left out: it need not say." },
	{ "alias", FIELD_STRINGS, LIVE, SIDE(alias), .refuse = rule_name,
	  .help = "Models that may answer: it goes to whichever is loaded, the first choice first." },
	END,
};
static const struct section side_section = {
	.title = "side_traffic[]", .fields = side_fields, .bytes = sizeof(struct conf_side),
};

/*
 * What chat programs ask beside the conversation, known by their words: Open WebUI, LibreChat, opencode,
 * Zed, Continue, Cherry Studio and others that copy them. Text to be read like the file.
 */
static const char usual_sides[] =
	"[{name: titles, says: [\"concise*title\", \"short title\", \"word title\", \"word-or-less title\", "
	"\"title generator\", \"title for th* conversation\", \"title for th* chat\", \"generate a*title\", "
	"\"session as a*title\", \"summarize in a*title\"]}, "
	"{name: tags, says: [\"tags categorizing\", \"generate*tags*conversation\", \"generate*tags*chat\"]}, "
	"{name: follow-ups, says: [\"suggest*follow-up questions\"]}, "
	"{name: summaries, max_tokens: 512, says: [\"summar* conversation\", \"summar* chat\"]}]";

static const struct field root_fields[] = {
	{ "macros", FIELD_PAIRS, LIVE, FIELD_HIDDEN, CONF(macros), .refuse = rule_macro,
	  .help = "Texts that stand elsewhere as ${name}." },
	{ "listen", FIELD_LISTEN, RESTART, ARRAY(listen, listens), .fallback = "127.0.0.1:8778",
	  .help = "host:port, [v6]:port or unix:/path, or a list of these. Beyond this machine only "
	          "with `api_keys`." },
	{ "memory", FIELD_GROUP, LIVE, .section = &memory_section, .help = "How much memory to use." },
	{ "policy", FIELD_CHOICE, LIVE, CONF(policy), .choices = policies, .fallback = "cotenant",
	  .help = "Which model goes when room is needed. cotenant weighs what a load brings against what its victims lose; lru: the longest unused goes. The others are what earlier programs do, to compare with, and bound no waiting: threshold loads below 70 % in use and unloads above 85 %; hysteresis looks at the trend too; cost-benefit ranks by priority and run time against size and load time, up to 85 %; one-at-a-time keeps one model." },
	{ "limits", FIELD_GROUP, RESTART, .section = &limits_section, .help = "Sizes of tables." },
	{ "bodies", FIELD_GROUP, LIVE, .section = &bodies_section, .help = "Request bodies." },
	{ "defaults", FIELD_GROUP, LIVE, CONF(defaults), .section = &defaults_section,
	  .help = "What models are given that do not say otherwise." },
	{ "adopt_window", FIELD_DURATION, LIVE, FIELD_UNBUILT, CONF(adopt_window_us),
	  .max = LONGEST, .fallback = "0s", .help = "How long engines outlive a daemon that died." },
	{ "socket", FIELD_GROUP, RESTART, .section = &socket_section,
	  .help = "Who else may reach the control socket." },
	{ "hosts", FIELD_STRINGS, LIVE, FIELD_ADDRESS, CONF(hosts), .refuse = rule_host,
	  .help = "Further Host names by which this machine may be called." },
	{ "cors", FIELD_STRINGS, LIVE, FIELD_ADDRESS, CONF(cors), .refuse = rule_origin,
	  .help = "Origins of web pages that may do more than look." },
	{ "local_admin", FIELD_BOOL, LIVE, CONF(local_admin), .fallback = "false",
	  .help = "true: programs on loopback may load, unload and reload without a key." },
	{ "engines", FIELD_TABLE, LIVE, ARRAY(engines, engine_count), .section = &engine_section,
	  .help = "Programs by name." },
	{ "aliases", FIELD_TABLE, LIVE, ARRAY(aliases, alias_count), .section = &alias_section,
	  .help = "Further names for models." },
	{ "sets", FIELD_TABLE, LIVE, ARRAY(sets, set_count), .section = &set_section,
	  .help = "Models used together: let in by their sum, kept and evicted as one; asking for one loads all." },
	{ "side_traffic", FIELD_LIST, LIVE, ARRAY(sides, side_count), .section = &side_section,
	  .fallback = usual_sides,
	  .help = "Rules that make a request background: it evicts nobody. A rule holds where all that it says is so. "
	          "[]: none." },
	{ "peers", FIELD_OPAQUE, LIVE, FIELD_UNBUILT, .help = "Other servers that may answer." },
	{ "inhibit_sleep", FIELD_CHOICE, LIVE, CONF(inhibit_sleep), .choices = sleeps,
	  .fallback = "never", .help = "Keep the machine awake while there is work." },
	{ "models", FIELD_TABLE, LIVE, ARRAY(models, model_count), .section = &schema_model,
	  .help = "The catalogue, by the names clients use." },
	{ "api_keys", FIELD_LIST, LIVE, ARRAY(keys, key_count), .section = &key_section,
	  .help = "Who may use it over the network." },
	{ "tls", FIELD_OPAQUE, RESTART, FIELD_UNBUILT, .help = "Certificate and key for HTTPS." },
	{ "cluster", FIELD_OPAQUE, RESTART, FIELD_UNBUILT, .help = "Several machines." },
	END,
};
const struct section schema_root = {
	.title = "the top level", .fields = root_fields, .bytes = sizeof(struct conf),
};

const char *conf_engine_name(enum conf_engine engine)
{
	for (const struct choice *kind = schema_engine_kinds; kind->name; kind++)
		if (kind->value == (int64_t)engine)
			return kind->name;
	return "unset";
}
