#include "../cmocka_all.h"

#include <string.h>

#include "files.h"

/* Each file, and all that is said of it, less the "c.yaml:" before each line. */
struct bad {
	const char *yaml;
	const char *said;
};

#define MODEL "models: {m: {file: m.gguf}}\n"

static const struct bad bad_files[] = {
	{ "lisen: 127.0.0.1:1\n" MODEL,
	  "1:1: error: unknown key 'lisen'; try: listen" },
	{ "priority: batch\n" MODEL,
	  "1:1: error: 'priority' does not stand here; try: move it to defaults or models.NAME" },
	{ "models:\n"
	  "  m: {file: m.gguf, contxt: 4096}\n",
	  "2:21: error: models.m: unknown key 'contxt'; try: context" },
	{ "models:\n"
	  "  m: {file: m.gguf, qqqqqqqq: 1}\n",
	  "2:21: error: models.m: unknown key 'qqqqqqqq'; try: remove it, or x-qqqqqqqq for a "
	  "note of your own" },
	{ "memory: {limt: 1GiB}\n" MODEL,
	  "1:10: error: memory: unknown key 'limt'; try: limit" },
	{ "memory: {speed: 3}\n" MODEL,
	  "1:10: error: memory: unknown key 'speed'; try: remove it, or x-speed for a note of "
	  "your own" },
	{ "models:\n"
	  "  m: {file: m.gguf, queue: 1, queue: 2}\n",
	  "2:31: error: 'queue' is given twice, first in line 2; try: keep one of them" },
	{ "models:\n"
	  "  a: {file: a.gguf}\n"
	  "  a: {file: b.gguf}\n",
	  "3:3: error: 'a' is given twice, first in line 2; try: keep one of them" },
	{ "a: {b: 1}\n" MODEL,
	  "1:1: error: unknown key 'a'; try: remove it, or x-a for a note of your own" },
	{ "model: {}\n" MODEL,
	  "1:1: error: unknown key 'model'; try: models" },
	{ "- a\n",
	  "1:1: error: a list stands here; try: a map of keys and values" },
	{ "just text\n",
	  "1:1: error: a single value stands here; try: a map of keys and values" },
	{ "models: [a, b]\n",
	  "1:9: error: models: a list stands here; try: names with a map under each" },
	{ "models: {m: x.gguf}\n",
	  "1:13: error: models.m: a single value stands here; try: a map of keys and values" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: [1]}\n",
	  "2:28: error: models.m.slots: a list stands here; try: a single value" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: {a: 1}}\n",
	  "2:28: error: models.m.slots: a map stands here; try: a single value" },
	{ "models:\n"
	  "  m: {file: m.gguf, args: {a: b}}\n",
	  "2:27: error: models.m.args: a map stands here; try: a list, such as [a, b]" },
	{ "models:\n"
	  "  m: {file: m.gguf, env: [A]}\n",
	  "2:26: error: models.m.env: a list stands here; try: a map, such as {NAME: value}" },
	{ "models:\n"
	  "  m: {file: m.gguf, env: {A: [1]}}\n",
	  "2:30: error: models.m.env.A: a list stands here; try: a text" },
	{ "a: b: c\n",
	  "1:5: error: not valid YAML: mapping values are not allowed in this context; try: one key a line "
	  "with its colon, and quotes around a value that holds ': '" },
	{ "models:\n"
	  "\tm: {file: m.gguf}\n",
	  "2:1: error: not valid YAML: found character that cannot start any token while scanning for the "
	  "next token; try: blanks instead of the tab" },
	{ "models:\n"
	  "  m: {file: \"m.gguf}\n",
	  "3:1: error: not valid YAML: found unexpected end of stream while scanning a quoted scalar that "
	  "began in line 2; try: close the quote that was opened there" },
	{ "memory: {limit: 5}\n" MODEL,
	  "1:17: error: memory.limit: '5' has no unit; try: 5GiB" },
	{ "models: {m: {file: m.gguf, weight: -1}}\n",
	  "1:36: error: models.m.weight: '-1' is out of range; try: a value from 0.001 to 1000" },
	{ "listen: 8080\n" MODEL,
	  "1:9: error: listen: '8080' is not host:port; try: 127.0.0.1:8080" },
	{ MODEL "aliases: {a: {model: b}, b: {model: a}}\n",
	  "2:22: error: aliases.a: 'b' is an alias itself; try: the name of a model, such as m\n"
	  "2:37: error: aliases.b: 'a' is an alias itself; try: the name of a model, such as m" },
	{ "models: {m: {file: /}}\n",
	  "1:20: error: models.m: '/' is a folder; try: one of the files in it" },
	{ "a: [1, 2\n",
	  "2:1: error: not valid YAML: did not find expected ',' or ']' while parsing a flow "
	  "sequence that began in line 1; try: close the [ that was opened there, or put a comma between its items" },
	{ "{[a]: 1}\n",
	  "1:2: error: a key must be a word, not a list or a map" },
	{ MODEL
	  "---\n" MODEL,
	  "2:1: error: a second document; try: one file for each" },
	{ "listen: {a: 1}\n" MODEL,
	  "1:9: error: listen: a map stands here; try: an address, such as 127.0.0.1:8778" },
	{ "memory: 4GiB\n" MODEL,
	  "1:9: error: memory: a single value stands here; try: a map of keys and values" },
	{ "api_keys: {a: 1}\n" MODEL,
	  "1:11: error: api_keys: a map stands here; try: a list of maps" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: many}\n",
	  "2:28: error: models.m.slots: 'many' is not a whole number; try: 1" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: 0}\n",
	  "2:28: error: models.m.slots: '0' is out of range; try: a value from 1 to 65536" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: -3}\n",
	  "2:28: error: models.m.slots: '-3' is out of range; try: a value from 1 to 65536" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: 99999999999999999999}\n",
	  "2:28: error: models.m.slots: '99999999999999999999' is out of range; try: a value from "
	  "1 to 65536" },
	{ "models:\n"
	  "  m: {file: m.gguf, slots: 1.5}\n",
	  "2:28: error: models.m.slots: '1.5' is not a whole number; try: 1" },
	{ "models:\n"
	  "  m: {file: m.gguf, pin: yes}\n",
	  "2:26: error: models.m.pin: 'yes' is neither true nor false; try: true or false" },
	{ "models:\n"
	  "  m: {file: m.gguf, footprint: 12Gb/s}\n",
	  "2:32: error: models.m.footprint: '12Gb/s' is not a size; try: 8GiB or 512MiB" },
	{ "models:\n"
	  "  m: {file: m.gguf, footprint: -1}\n",
	  "2:32: error: models.m.footprint: '-1' is out of range; try: a value from 0 to 1024TiB" },
	{ "models:\n"
	  "  m: {file: m.gguf, unload_after: 30}\n",
	  "2:35: error: models.m.unload_after: '30' has no unit; try: 30s" },
	{ "models:\n"
	  "  m: {file: m.gguf, unload_after: soon}\n",
	  "2:35: error: models.m.unload_after: 'soon' is not a duration; try: 30s, 5m, 2h or "
	  "never" },
	{ "models:\n"
	  "  m: {file: m.gguf, drain_timeout: never}\n",
	  "2:36: error: models.m.drain_timeout: 'never' is not a duration; try: 30s, 5m or 2h" },
	{ "models:\n"
	  "  m: {file: m.gguf, weight: heavy}\n",
	  "2:29: error: models.m.weight: 'heavy' is not a number; try: 1, 2 or 0.5" },
	{ "models:\n"
	  "  m: {file: m.gguf, weight: 0}\n",
	  "2:29: error: models.m.weight: '0' is out of range; try: a value from 0.001 to 1000" },
	{ "models:\n"
	  "  m: {file: m.gguf, weight: 1.2345}\n",
	  "2:29: error: models.m.weight: '1.2345' is not a number; try: 1, 2 or 0.5" },
	{ "models:\n"
	  "  m: {file: m.gguf, priority: hihg}\n",
	  "2:31: error: models.m.priority: 'hihg' is no choice here; try: one of interactive, "
	  "normal, background, batch" },
	{ "models:\n"
	  "  m: {file: m.gguf, priority: urgentest}\n",
	  "2:31: error: models.m.priority: 'urgentest' is no choice here; try: one of "
	  "interactive, normal, background, batch" },
	{ "models:\n"
	  "  m: {file: m.gguf, kv_type: q8}\n",
	  "2:30: error: models.m.kv_type: 'q8' is no choice here; try: q8_0" },
	{ "memory: {margin: 15}\n" MODEL,
	  "1:18: error: memory.margin: '15' is not a percentage; try: 15%, or auto" },
	{ "memory: {margin: 95%}\n" MODEL,
	  "1:18: error: memory.margin: '95%' is out of range; try: a value from 0% to 90%" },
	{ "memory: {limit: 0}\n" MODEL,
	  "1:17: error: memory.limit: '0' is out of range; try: a value from 1 to 1024TiB" },
	{ "defaults: {drain_timeout: 106751990d}\n" MODEL,
	  "1:27: error: defaults.drain_timeout: '106751990d' is out of range; try: a value from 0s to 36525d" },
	{ "memory: {limit: 4Gx}\n" MODEL,
	  "1:17: error: memory.limit: '4Gx' is not a size; try: 8GiB, 512MiB or auto" },
	{ "policy: lur\n" MODEL,
	  "1:9: error: policy: 'lur' is no choice here; try: lru" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: {min: 8192, max: 4096}}\n",
	  "2:30: error: models.m.context: min 8192 is more than max 4096; try: {min: 4096, max: "
	  "8192}" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: {mn: 1}}\n",
	  "2:31: error: models.m.context: unknown key 'mn'; try: min or max" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: big}\n",
	  "2:30: error: models.m.context: 'big' is not a whole number; try: 8192" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: 0}\n",
	  "2:30: error: models.m.context: '0' is out of range; try: a value from 1 to 268435456" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: {min: auto}}\n",
	  "2:36: error: models.m.context.min: 'auto' is not a whole number; try: 8192" },
	{ "models:\n"
	  "  m: {file: m.gguf, context: [1]}\n",
	  "2:30: error: models.m.context: a list stands here; try: a number, auto, or {min: 4096, "
	  "max: 32768}" },
	{ "listen: 8778\n" MODEL,
	  "1:9: error: listen: '8778' is not host:port; try: 127.0.0.1:8778" },
	{ "listen: 127.0.0.1:99999\n" MODEL,
	  "1:9: error: listen: '127.0.0.1:99999' has no such port; try: a port from 0 to 65535" },
	{ "listen: \"::1:8778\"\n" MODEL,
	  "1:9: error: listen: '::1:8778' is not host:port; try: an IPv6 address in brackets, "
	  "such as [::1]:8778" },
	{ "listen: example.com:80\n" MODEL,
	  "1:9: error: listen: 'example.com:80' is not an address of this machine; try: "
	  "127.0.0.1, or 0.0.0.0 for all; names are not looked up" },
	{ "listen: 0.0.0.0:8778\n" MODEL,
	  "1:9: error: listen: 0.0.0.0 can be reached from other machines, and there are no "
	  "api_keys; try: 127.0.0.1:8778, or add api_keys" },
	{ "listen: [\"127.0.0.1:1\", \"[::]:8778\"]\n" MODEL,
	  "1:25: error: listen: :: can be reached from other machines, and there are no api_keys; "
	  "try: 127.0.0.1:8778, or add api_keys" },
	{ "listen: \"unix:rel.sock\"\n" MODEL,
	  "1:9: error: listen: 'unix:rel.sock' is not an absolute path; try: "
	  "unix:/run/cotenant/http.sock" },
	{ "listen: [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n" MODEL,
	  "1:25: error: listen: the same address twice; try: keep one" },
	{ "listen: \"[::1:1\"\n" MODEL,
	  "1:9: error: listen: '[::1:1' is not host:port; try: 127.0.0.1:8778" },
	{ "hosts: [\"http://x\"]\n" MODEL,
	  "1:9: error: hosts: 'http://x': not a host name; try: a name or address alone, such as "
	  "ai.lan" },
	{ "cors: [\"*\"]\n" MODEL,
	  "1:8: error: cors: '*': not an origin; try: scheme and host alone, such as "
	  "https://app.lan or http://localhost:3000" },
	{ "cors: [\"https://a/b\"]\n" MODEL,
	  "1:8: error: cors: 'https://a/b': not an origin; try: scheme and host alone, such as "
	  "https://app.lan or http://localhost:3000" },
	{ "models:\n"
	  "  m: {file: m.gguf, routes: {work: [/tts]}}\n",
	  "2:37: error: models.m.routes.work: '/tts': not a route; try: a method and a path, such "
	  "as \"POST /tts\"" },
	{ "models:\n"
	  "  m: {file: m.gguf, routes: {look: [get /x]}}\n",
	  "2:37: error: models.m.routes.look: 'get /x': not a route; try: the method in capitals, "
	  "such as \"POST /tts\"" },
	{ "models:\n"
	  "  m: {file: m.gguf, health: health}\n",
	  "2:29: error: models.m.health: 'health': not a path; try: one that begins with /, such "
	  "as /health" },
	{ "models:\n"
	  "  m: {file: m.gguf, env: {1A: x}}\n",
	  "2:27: error: models.m.env: '1A': not the name of an environment variable; try: "
	  "letters, digits and _, such as HIP_VISIBLE_DEVICES" },
	{ "models:\n"
	  "  \"\": {file: a.gguf}\n",
	  "2:3: error: models: '': a name must not be empty; try: a word, such as chat" },
	{ "models:\n"
	  "  \"a*\": {file: a.gguf}\n",
	  "2:3: error: models: 'a*': a name must not hold *; try: put the pattern under a model's "
	  "aliases" },
	{ "models:\n"
	  "  \"a\\tb\": {file: a.gguf}\n",
	  "2:3: error: models: 'a?b': a name must not hold control characters, nor begin or end "
	  "with a blank; try: a word, such as chat" },
	{ "models:\n"
	  "  \"a\\u0085b\": {file: a.gguf}\n",
	  "2:3: error: models: 'a\xC2\x85" "b': a name must not hold control characters, nor begin or end "
	  "with a blank; try: a word, such as chat" },
	{ "models:\n"
	  "  \"a\\u202Eb\": {file: a.gguf}\n",
	  "2:3: error: models: 'a\xE2\x80\xAE" "b': a name must not hold control characters, nor begin or end "
	  "with a blank; try: a word, such as chat" },
	{ "models:\n"
	  "  ..: {file: a.gguf}\n",
	  "2:3: error: models: '..': a name is part of paths: between its slashes must stand something, and not . or ..; "
	  "try: a word, such as chat" },
	{ "models:\n"
	  "  a/./b: {file: a.gguf}\n",
	  "2:3: error: models: 'a/./b': a name is part of paths: between its slashes must stand something, and not . or "
	  "..; try: a word, such as chat" },
	{ "models:\n"
	  "  /b: {file: a.gguf}\n",
	  "2:3: error: models: '/b': a name is part of paths: between its slashes must stand something, and not . or ..; "
	  "try: a word, such as chat" },
	{ "models:\n"
	  "  -b: {file: a.gguf}\n",
	  "2:3: error: models: '-b': a name must not begin with -, which begins an option of a command; try: a word, such "
	  "as chat" },
	{ "models:\n"
	  "  m: {file: a.gguf, device: --evil}\n",
	  "2:29: error: models.m.device: '--evil': a name must not begin with -, which begins an option of a command; try: "
	  "a word, such as chat" },
	{ "models:\n"
	  "  m: {file: a.gguf, aliases: [\"a/../*\"]}\n",
	  "2:31: error: models.m.aliases: 'a/../*': a name is part of paths: between its slashes must stand something, "
	  "and not . or ..; try: a word, such as chat" },
	{ "models:\n"
	  "  m: {url: \"http://user:s3cret@127.0.0.1:9\"}\n",
	  "2:12: error: models.m.url: a name or password before an '@' is not sent to a server; try: http://HOST:PORT "
	  "alone" },
	{ "cors: [\"https://user:s3cret@app.lan\"]\n" MODEL,
	  "1:8: error: cors: not an origin; try: scheme and host alone, such as https://app.lan or http://localhost:3000" },
	{ "models:\n"
	  "  nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
	  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
	  "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn: {file: a.gguf}\n",
	  "2:3: error: models: 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...': "
	  "a name may have 200 bytes at most; try: a shorter one" },
	{ "models:\n"
	  "  m: {file: m.gguf, aliases: [\"\"]}\n",
	  "2:31: error: models.m.aliases: '': a name must not be empty; try: a word, such as "
	  "chat" },
	{ "macros: {PORT: x}\n" MODEL,
	  "1:10: error: macros: 'PORT': PORT, SOCKET, FILE and MODEL are filled in when an engine "
	  "starts; try: another name" },
	{ "macros: {\"a b\": x}\n" MODEL,
	  "1:10: error: macros: 'a b': not a macro's name; try: letters, digits, - and _" },
	{ "models:\n"
	  "  m: {file: m.gguf, args: \"${env.NOT_SET_AT_ALL}\"}\n",
	  "2:27: error: models.m.args: the environment has no 'NOT_SET_AT_ALL'; try: set "
	  "NOT_SET_AT_ALL where the daemon starts" },
	{ "macros: {llama: x}\n"
	  "models:\n"
	  "  m: {file: m.gguf, args: \"${lama}\"}\n",
	  "3:27: error: models.m.args: no macro 'lama'; try: ${llama}" },
	{ "models:\n"
	  "  m: {file: m.gguf, device: \"${PORT}\"}\n",
	  "2:29: error: models.m.device: ${PORT} is known only when an engine starts; try: it in "
	  "cmd or args" },
	{ "models:\n"
	  "  m: {file: m.gguf, device: \"${unclosed\"}\n",
	  "2:29: error: models.m.device: ${ without }; try: close it, or $${ for the characters "
	  "themselves" },
	{ "models:\n"
	  "  m: {file: m.gguf, args: \"--name 'a b\"}\n",
	  "2:27: error: models.m.args: a quote is not closed; try: close it, or write a list of "
	  "words" },
	{ "models:\n"
	  "  m: {file: m.gguf, device: \"${nothing}\"}\n",
	  "2:29: error: models.m.device: no macro 'nothing'; try: ${env.nothing}, an entry of "
	  "macros, or $${ for the characters themselves" },
	{ "tls: {cert: a, key: b}\n" MODEL,
	  "1:1: error: tls: not built yet in this version; try: remove it" },
	{ "cluster: {etcd: []}\n" MODEL,
	  "1:1: error: cluster: not built yet in this version; try: remove it" },
	{ "peers: [a]\n" MODEL,
	  "1:1: error: peers: not built yet in this version; try: remove it" },
	{ "sets: {a: {models: [m]}}\n" MODEL,
	  "1:20: error: sets.a: 1 models; try: two to 8" },
	{ "sets: {a: {models: [m, n]}}\n" MODEL,
	  "1:24: error: sets.a: no model 'n'; try: a name under models, such as m" },
	{ "sets: {a: {models: [m, m]}}\n" MODEL,
	  "1:24: error: sets.a: 'm' is in the set a already; try: one set a model" },
	{ "side_traffic: [x]\n" MODEL,
	  "1:16: error: side_traffic[0]: a single value stands here; try: a map of keys and values" },
	{ "side_traffic: [{name: x}]\n" MODEL,
	  "1:16: error: side_traffic 'x': every short request is meant; try: says: [\"...\"], or max_tokens" },
	{ "side_traffic: [{name: x, says: [\"*a *\"]}]\n" MODEL,
	  "1:33: error: side_traffic[0].says: '*a *': not words to look for; try: 3 to 200 bytes, such as \"concise*title\"" },
	{ "side_traffic: [{name: x, max_tokens: 9, alias: n}]\n" MODEL,
	  "1:48: error: side_traffic 'x': no model 'n'; try: a name under models, such as m" },
	{ "inhibit_sleep: while-busy\n" MODEL,
	  "1:16: error: inhibit_sleep: while-busy is not built yet in this version; try: never" },
	{ "adopt_window: 5s\n" MODEL,
	  "1:1: error: adopt_window: not built yet in this version; try: remove it" },
	{ "memory: {compact: {quiet: \"1-2\"}}\n" MODEL,
	  "1:27: error: memory.compact.quiet: '1-2': not a span of the day; try: \"03:00-05:00\"" },
	{ "models:\n"
	  "  m: {file: m.gguf, container: {image: x}}\n",
	  "2:21: error: models.m.container: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {file: m.gguf, normalise: [x]}\n",
	  "2:21: error: models.m.normalise: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {url: \"https://a\"}\n",
	  "2:12: error: models.m.url: https to a server is not built yet in this version; try: http://HOST:PORT" },
	{ "models:\n"
	  "  m: {url: \"http://a/v1\"}\n",
	  "2:12: error: models.m.url: 'http://a/v1': not the address of a server; try: http://127.0.0.1:8080, without a path" },
	{ "models:\n"
	  "  m: {url: \"http://[::1\"}\n",
	  "2:12: error: models.m.url: 'http://[::1': not the address of a server; try: http://127.0.0.1:8080, without a path" },
	{ "models:\n"
	  "  m: {url: \"http://a:70000\"}\n",
	  "2:12: error: models.m.url: 'http://a:70000': not the address of a server; try: http://127.0.0.1:8080, without a path" },
	{ "listen: [127.0.0.1:7000, \"[::1]:7001\"]\n"
	  "models:\n"
	  "  m: {url: \"http://localhost:7000\"}\n"
	  "  n: {url: \"http://[::1]:7001/\"}\n",
	  "3:12: error: models.m.url: port 7000 is where this daemon itself listens, so requests would come back to "
	  "it; try: the port of the server that has the model\n"
	  "4:12: error: models.n.url: port 7001 is where this daemon itself listens, so requests would come back to "
	  "it; try: the port of the server that has the model" },
	{ "models:\n"
	  "  m: {cmd: my-server --port 9000}\n",
	  "2:12: error: models.m.cmd: the program is not told where to listen; try: ${PORT} or ${SOCKET} in it, as in "
	  "\"my-server --port ${PORT}\"" },
	{ "models:\n"
	  "  m: {file: m.gguf, args: --flash-attn on --port 9000}\n",
	  "2:27: error: models.m.args: '--port' is chosen for each start; try: leave it out" },
	{ "models:\n"
	  "  m: {file: m.gguf, args: [-m, x]}\n"
	  "  n: {engine: whisper-server, file: n.bin, args: --inference-path /x}\n"
	  "  o: {file: o.safetensors, args: \"--listen-port 1\"}\n",
	  "2:27: error: models.m.args: '-m' is chosen for each start; try: leave it out\n"
	  "3:50: error: models.n.args: '--inference-path' is chosen for each start; try: leave it out\n"
	  "4:34: error: models.o.args: '--listen-port' is chosen for each start; try: leave it out" },
	{ "models:\n"
	  "  m: {url: \"http://a\", cmd: x}\n",
	  "2:12: error: models.m.url: cmd starts it on this machine, so it listens on 127.0.0.1; try: "
	  "http://127.0.0.1:80" },
	{ "models:\n"
	  "  m: {file: m.gguf, normalise: [a]}\n",
	  "2:21: error: models.m.normalise: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {file: m.gguf, filters: {strip: [a], set: {b: [1, {c: \"x\"}, null, 1.5, 007]}}}\n",
	  "2:31: error: models.m.filters.strip: not built yet in this version; try: remove it\n"
	  "2:43: error: models.m.filters.set: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {file: m.gguf, on_disconnect: finish}\n",
	  "2:36: error: models.m.on_disconnect: finish is not built yet in this version; try: "
	  "cancel" },
	{ "models:\n"
	  "  m: {file: m.gguf, models_dir: x}\n",
	  "2:21: error: models.m.models_dir: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {file: m.gguf, listen: 127.0.0.1:1}\n",
	  "2:21: error: models.m.listen: not built yet in this version; try: remove it" },
	{ "tls: {}\n" MODEL, "1:6: error: tls: not built yet in this version; try: remove it" },
	{ "peers: []\n" MODEL, "1:8: error: peers: not built yet in this version; try: remove it" },
	{ "policy: treshold\n" MODEL,
	  "1:9: error: policy: 'treshold' is no choice here; try: threshold" },
	{ "models:\n"
	  "  m: {engine: vllm, file: x}\n",
	  "2:15: error: models.m.engine: vllm is not built yet in this version; try: engine: "
	  "command" },
	{ "models:\n"
	  "  m: {engine: whisper-server, file: x, slots: 2}\n",
	  "2:47: error: models.m.slots: whisper-server computes one request at a time; try: slots: 1" },
	{ "api_keys: [{key: k, name: n, requests_per_min: 5, parallel: 1, tokens_per_day: 9, "
	  "lease_max: 10%}]\n" MODEL,
	  "1:83: error: api_keys[0].lease_max: not built yet in this version; try: remove it" },
	{ "models:\n"
	  "  m: {}\n",
	  "2:3: error: models.m: neither file, cmd nor url; try: file: ~/models/NAME.gguf" },
	{ "models:\n"
	  "  m: {file: a.bin}\n",
	  "2:13: error: models.m: the file does not tell which engine runs it; try: engine: "
	  "llama-server" },
	{ "models:\n"
	  "  m: {engine: command}\n",
	  "2:15: error: models.m: engine: command without cmd; try: cmd: \"my-server --port "
	  "${PORT}\"" },
	{ "models:\n"
	  "  m: {engine: llama-server}\n",
	  "2:15: error: models.m: llama-server without file; try: file: ~/models/NAME.gguf" },
	{ "models:\n"
	  "  m: {engine: lama-server, file: a.gguf}\n",
	  "2:15: error: models.m.engine: no engine 'lama-server'; try: llama-server" },
	{ "models:\n"
	  "  m: {engine: llama-server, file: a.gguf, cmd: x}\n",
	  "2:48: error: models.m.cmd: llama-server is started by its engine, not by a command; "
	  "try: args, or engine: command" },
	{ "engines: {stable: {kind: llama-server, path: /l}}\n"
	  "models:\n"
	  "  m: {engine: stabel, file: a}\n",
	  "3:15: error: models.m.engine: no engine 'stabel'; try: stable" },
	{ "engines: {stable: {kind: llama-server}}\n" MODEL,
	  "1:19: error: engines.stable: path is missing; try: add path: ..." },
	{ "engines: {stable: {path: /l}}\n" MODEL,
	  "1:19: error: engines.stable: kind is missing; try: add kind: llama-server" },
	{ "engines: {command: {kind: llama-server, path: x}}\n" MODEL,
	  "1:27: error: engines.command: 'command' is a kind of its own; try: another name" },
	{ "engines: {x: {kind: command, path: x}}\n" MODEL,
	  "1:21: error: engines.x.kind: a command is given by each model's cmd; try: remove it" },
	{ "models:\n"
	  "  a: {file: a.gguf, aliases: [b]}\n"
	  "  b: {file: b.gguf}\n",
	  "3:3: error: 'b' is an alias already, in line 2; try: another name" },
	{ "models:\n"
	  "  a: {file: a.gguf, aliases: [x, y]}\n"
	  "  b: {file: b.gguf, aliases: y}\n",
	  "3:30: error: 'y' is an alias already, in line 2; try: another name" },
	{ "aliases: {m: {model: m}}\n" MODEL,
	  "2:10: error: 'm' is an alias already, in line 1; try: another name" },
	{ "aliases: {q: {model: n}}\n" MODEL,
	  "1:22: error: aliases.q: no model 'n'; try: a name under models, such as m" },
	{ "aliases: {q: {models: [m, mm]}}\n" MODEL,
	  "1:27: error: aliases.q: no model 'mm'; try: a name under models, such as m" },
	{ "aliases: {q: {}}\n" MODEL,
	  "1:11: error: aliases.q: it stands for no model; try: model: NAME" },
	{ "aliases: {q: {model: m, models: [m]}}\n" MODEL,
	  "1:22: error: aliases.q: both model and models; try: models alone" },
	{ "memory: {limit: 8GiB}\n"
	  "models:\n"
	  "  a: {file: a.gguf, pin: true, footprint: 5GiB}\n"
	  "  b: {file: b.gguf, pin: true, footprint: 4GiB}\n",
	  "1:17: error: memory.limit: 8.00 GiB is less than the 9.00 GiB that pinned models take "
	  "by their footprint; try: a higher limit, or fewer pins" },
	{ "limits: {models: 1}\n"
	  "models:\n"
	  "  a: {file: a.gguf}\n"
	  "  b: {file: b.gguf}\n",
	  "3:3: error: models: 2 models are more than limits.models allows; try: limits: {models: "
	  "2}" },
	{ "bodies: {each: 10MiB, memory: 1MiB, spill: 2MiB}\n" MODEL,
	  "1:16: error: bodies: one body of `each` fits neither `memory` nor `spill`; try: spill "
	  "of at least 10.0 MiB" },
	{ "api_keys: [{name: n}]\n" MODEL,
	  "1:12: error: api_keys[0]: key is missing; try: add key: ..." },
	{ "api_keys: [{key: a, name: n}, {key: a, name: n}]\n" MODEL,
	  "1:37: error: api_keys[1].key: the same secret as in api_keys[0]; try: another one\n"
	  "1:46: error: api_keys[1].name: the same name as in api_keys[0]; try: another one" },
	{ "api_keys: [{key: a, name: n, models: [x]}]\n" MODEL,
	  "1:39: error: api_keys[0]: no model 'x'; try: a name under models, such as m" },
	{ "api_keys: [{key: \"***\", name: n}]\n" MODEL,
	  "1:18: error: api_keys[0].key: the secret was hidden when this file was printed; try: "
	  "\"${env.COTENANT_KEY}\"" },
	{ "api_keys: [{key: a, name: n, role: root}]\n" MODEL,
	  "1:36: error: api_keys[0].role: 'root' is no choice here; try: one of use, admin" },
};

/* What is only not built yet is told behind what is wrong, and keeps none of it back. */
static void mistakes_come_before_what_is_not_built(void **state)
{
	struct buf said = BUF_INIT, text = BUF_INIT;
	(void)state;

	assert_null(files_load_text("tls: {cert: a, key: b}\n"
	                            "engines: {pictures: {kind: comfyui, path: /c}}\n"
	                            "models:\n"
	                            "  a: {file: a.gguf, normalise: [x], aliases: [b]}\n"
	                            "  b: {file: b.gguf, on_disconnect: finish, context: {min: 8, max: 4}}\n"
	                            "  c: {engine: pictures, url: \"https://far\"}\n", &said));
	assert_string_equal(buf_cstr(&said),
	                    "c.yaml:5:3: error: 'b' is an alias already, in line 4; try: another name\n"
	                    "c.yaml:5:53: error: models.b.context: min 8 is more than max 4; try: {min: 4, max: 8}\n"
	                    "c.yaml:1:1: error: tls: not built yet in this version; try: remove it\n"
	                    "c.yaml:2:28: error: engines.pictures.kind: comfyui is not built yet in this version; try: "
	                    "engine: command\n"
	                    "c.yaml:4:21: error: models.a.normalise: not built yet in this version; try: remove it\n"
	                    "c.yaml:5:36: error: models.b.on_disconnect: finish is not built yet in this version; try: "
	                    "cancel\n"
	                    "c.yaml:6:30: error: models.c.url: https to a server is not built yet in this version; try: "
	                    "http://HOST:PORT\n");
	buf_release(&said);
	said = BUF_INIT;
	for (int i = 0; i < 40; i++)
		buf_printf(&text, i ? "  m%d: {file: a.gguf, normalise: [x]}\n" : "models:\n", i);
	buf_append_str(&text, STR("  x: {file: a.gguf, contxt: 1}\n"));
	assert_null(files_load_text(buf_cstr(&text), &said));
	assert_true(str_starts(buf_str(&said), "c.yaml:41:21: error: models.x: unknown key 'contxt'; try: context\n"));
	assert_non_null(strstr(buf_cstr(&said), "\nc.yaml: and 8 more\n"));
	buf_release(&text);
	buf_release(&said);
}

static void every_bad_file_is_refused_with_place_and_remedy(void **state)
{
	size_t wrong = 0;
	(void)state;

	for (size_t i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		struct buf said = BUF_INIT, wanted = BUF_INIT;
		struct str rest = str_from(bad_files[i].said);
		struct conf *conf = files_load_text(bad_files[i].yaml, &said);
		while (rest.length) {
			struct str line = str_cut(rest, '\n', &rest);
			buf_printf(&wanted, "c.yaml:%.*s\n", STR_ARG(line));
		}
		if (conf || strcmp(buf_cstr(&said), buf_cstr(&wanted)) != 0) {
			print_error("case %zu:\n%s\nsaid\n%s\nwanted\n%s\n", i, bad_files[i].yaml,
			            buf_cstr(&said), buf_cstr(&wanted));
			wrong++;
		}
		conf_free(conf);
		buf_release(&said);
		buf_release(&wanted);
	}
	assert_int_equal(wrong, 0);
}

static void no_more_than_32_problems_are_told(void **state)
{
	struct buf text = BUF_INIT, said = BUF_INIT;
	size_t lines = 0;
	(void)state;

	for (int i = 0; i < 50; i++)
		buf_printf(&text, "zzzzzzzzzz%d: 1\n", i);
	files_write(text.data, buf_length(&text));
	assert_null(files_load(&said));
	for (const char *c = buf_cstr(&said); *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 33);
	assert_non_null(strstr(buf_cstr(&said), "\nc.yaml: and 18 more\n"));
	buf_release(&text);
	buf_release(&said);
}

static void a_secret_is_not_in_the_message(void **state)
{
	struct buf said = BUF_INIT;
	(void)state;

	assert_null(files_load_text("api_keys: [{key: 'my secret', name: a}]\n", &said));
	assert_null(strstr(buf_cstr(&said), "my secret"));
	assert_non_null(strstr(buf_cstr(&said), "c.yaml:1:18: error: api_keys[0].key: a key is"));
	buf_release(&said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bad_file_is_refused_with_place_and_remedy),
		cmocka_unit_test(mistakes_come_before_what_is_not_built),
		cmocka_unit_test(no_more_than_32_problems_are_told),
		cmocka_unit_test(a_secret_is_not_in_the_message),
	};

	return cmocka_run_group_tests_name("conf, bad files", tests, files_setup, files_teardown);
}
