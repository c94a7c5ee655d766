# The verbs. How things are built stands in the meson.build files, what a verb does in its tool;
# everything that is made lies in build*/ or in the cache (COTENANT_CACHE, else ~/.cache/cotenant).

.PHONY: all deps demo check sim sim-report soak estimator-report e2e e2e-long fuzz bench asan tsan fmt lint install clean help

all: ## build the program: build/cotenant
	@tools/install-deps build
	@tools/build build

deps: ## install everything that any verb needs (apt; as root or with sudo)
	@tools/install-deps all

check: ## unit tests, corpora, simulator and the checks of the sources; again under ASan and UBSan
	@tools/check

sim-report: all ## the levels of the default policy in the simulator (SEEDS=A-B; minutes)
	@nice tools/sim-report $(SEEDS)

sim: all ## one random, hostile world, every step as a line on stderr (SEED=1)
	@build/cotenant lab sim random --seeds $(or $(SEED),1) --trace

soak: all ## so many hostile worlds, no invariant broken (N=10000); a broken one is named with its seed
	@nice tools/soak $(or $(N),10000)

demo: ## five kinds of model share one memory (MODELS=DIR: your own; KEEP=1 leaves it running; PICTURE=F.svg)
	@KEEP="$(KEEP)" PICTURE="$(PICTURE)" MODELS="$(if $(filter command,$(origin MODELS)),$(MODELS))" demo/run

estimator-report: all ## the levels of the estimator against the engine's allocator and people's logs
	@nice tools/estimator-report

e2e: ## end to end with real engines, real clients and faults (ARGS= goes to pytest)
	@tests/e2e/run -m "not long" $(ARGS)

e2e-long: ## storms, cycles and soaks on top; the HTTP tests with a newer llhttp
	@tools/try-newer-llhttp
	@tools/install-deps images && tools/fetch-sd-server >/dev/null
	@tests/e2e/run -m long $(ARGS)

fuzz: ## libFuzzer: T=target (default: each in turn), SECS=60
	@tools/fuzz $(or $(T),all) $(or $(SECS),60)

bench: ## what a request, a chunk, a parked request, a swap cost; writes bench/results.md
	@bench/run

asan tsan: ## build-asan/cotenant, build-tsan/cotenant: clang with the sanitizers
	@tools/install-deps build test
	@CC=clang tools/build build-$@ -Db_lundef=false \
		-Db_sanitize=$(if $(filter asan,$@),address$(comma)undefined,thread)
comma := ,

lint: ## sizes of functions and files, clang-tidy, shellcheck, where they are installed
	@tools/lint

fmt: ## clang-format over the sources
	@find src tests -name '*.[ch]' -exec clang-format -i {} +

install: all ## install the program (DESTDIR= and meson's prefix)
	@meson install -C build --no-rebuild

clean: ## remove everything that was built here
	rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z0-9 -]*\):[^#]*## /make \1: /p' Makefile
