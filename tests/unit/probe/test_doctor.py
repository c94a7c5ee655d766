"""Each check of doctor on a machine where it finds something wrong and on one where it does not; and what it advises.

A row names what changes of a recorded machine, and what is then said of it. A fix is a command that can be run as it
stands, tells whether it lasts, and writes a file that no other fix overwrites.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
TREES = pathlib.Path(sys.argv[2]).resolve()
CARD = "sys/class/drm/card0/device/"
VM = "proc/sys/vm/"


def ask(verb, root, *words):
    done = subprocess.run([PROGRAM, verb, "--root", str(root), "--json", *words], capture_output=True, timeout=20, text=True,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, f"{root}: {verb} ended with {done.returncode}: {done.stderr[-800:]}"
    return json.loads(done.stdout)


def changed(tree, files, folder):
    """A copy: of each file its new text, what a function makes of the old one, or None: it is gone."""
    copy = pathlib.Path(folder) / "tree"
    shutil.copytree(TREES / tree, copy)
    for name, text in files.items():
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text(path.read_text()) if callable(text) else text)
    return copy


def line(name, value):
    return lambda text: re.sub(rf"^{re.escape(name)}.*\n", "", text, flags=re.M) + (f"{name} {value}\n" if value else "")


def vllm(environment):
    return {"proc/77/status": "Name:\tvllm\n", "proc/77/cmdline": "vllm\0serve\0", "proc/77/environ": environment}


def processes(*names):
    return {f"proc/{100 + i}/status": f"Name:\t{name}\nRssAnon:\t100000 kB\n" for i, name in enumerate(names)}


BOTH = [
    # check, machine, what is wrong there, what is right there
    ("nvidia_driver", "gb10", {"sys/module/nvidia/version": "570.86.10\n"}, {"sys/module/nvidia/version": "580.173.02\n"}),
    ("nvidia_driver", "gb10-loaded", {"sys/module/nvidia/version": None, "proc/driver/nvidia/version":
     "NVRM version: NVIDIA UNIX aarch64 Kernel Module  575.51 Release\n"}, {"sys/module/nvidia/version": "590.1\n"}),
    ("page_pool_size", "strix-halo-gtt", {"sys/module/ttm/parameters/page_pool_size": "31457280\n"},
     {"sys/module/ttm/parameters/page_pool_size": "4194304\n"}),
    ("largest_free_block", "jetson-orin-nano", {"proc/buddyinfo": "Node 0, zone Normal 90000 0 0 0 0 0 0 0 0 0 3\n"},
     {"proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 512\n"}),
    ("ray", "gb10", vllm("PATH=/bin\0RAY_memory_monitor_refresh_ms=250\0"), vllm("RAY_memory_monitor_refresh_ms=0\0HOME=/\0")),
    ("ray", "gb10", vllm("HOME=/\0"), processes("bash")),
    ("oom_daemons", "gb10", processes("bash", "earlyoom"), processes("bash")),
    ("desktop", "jetson-orin-nano", processes("gnome-shell"), processes("bash")),
    ("memlock", "gb10", {"proc/self/limits": "Max locked memory         8388608              8388608              bytes\n"},
     {"proc/self/limits": "Max locked memory         unlimited            unlimited            bytes\n"}),
    ("privileges", "lunar-lake-xe", {"proc/self/status": f"Name:\tx\nCapEff:\t{(1 << 38 ^ (1 << 41) - 1):016x}\n"},
     {"proc/self/status": "Name:\tx\nCapEff:\t000001ffffffffff\n"}),
    ("privileges", "gb10", {"proc/self/status": "Name:\tx\nCapEff:\t0000000000000000\n"},
     {"proc/self/status": f"Name:\tx\nCapEff:\t{(1 << 38 ^ (1 << 41) - 1):016x}\n"}),
    ("gpu_orphans", "strix-halo-leak", {}, {CARD + "mem_info_gtt_used": "63021056\n"}),
    ("wsl", "cpu", {"proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2\n"}, None),
    ("overcommit", "strix-halo-busy", {VM + "overcommit_memory": "2\n"}, {VM + "overcommit_memory": "1\n"}),
    ("swappiness", "strix-halo-zram-full", {VM + "swappiness": "60\n", "sys/block/zram0/disksize": "4294967296\n"},
     {VM + "swappiness": "120\n", "sys/block/zram0/disksize": "4294967296\n"}),
    ("swappiness", "strix-halo-zram-full", {VM + "swappiness": "60\n"}, {VM + "swappiness": "20\n"}),
    ("tuned", "cpu", {"etc/tuned/active_profile": "balanced\n"}, {"etc/tuned/active_profile": "accelerator-performance\n"}),
    ("iommu", "strix-halo-gtt", {"proc/cmdline": "quiet\n"}, {"proc/cmdline": "quiet iommu=pt\n"}),
    ("rocm_pool", "strix-halo-gtt", {},
     {"sys/module/ttm/parameters/pages_limit": f"{63959 * 256}\n"}),
    ("cma", "jetson-orin-nano", {"proc/meminfo": line("CmaFree:", "1048576 kB")}, {"proc/meminfo": line("CmaFree:", "65536 kB")}),
    ("huge_pages", "strix-halo-busy", {"proc/meminfo": lambda text: line("Hugetlb:", "2097152 kB")(line("HugePages_Total:", "1024")(text))}, {}),
    ("nvidia_settings", "gb10", {"proc/driver/nvidia/params": "EnableSystemMemoryPools: 1\n"},
     {"proc/driver/nvidia/params": "EnableSystemMemoryPools: 0\n"}),
    ("nvidia_settings", "rtx5090-rtx3090", {}, {"etc/modprobe.d/nvidia.conf": None}),
]

# What cannot be known is not taken for good: a check, a machine, what is gone.
UNKNOWN = [
    ("gpu_orphans", "strix-halo-leak", {CARD + "mem_info_gtt_used": None}),
    ("gpu_orphans", "strix-halo-gtt", {CARD + "mem_info_gtt_used": "no number\n"}),
    ("gpu_orphans", "lunar-lake-xe", {"calls.json": lambda text: re.sub(r'"used_bytes": \d+', '"used_bytes": 0', text)}),
    ("gpu_orphans", "gb10-loaded", {"calls.json": '{"cuda": {"integrated": true}, "page_bytes": 4096}'}),
    ("nvidia_driver", "gb10", {"sys/module/nvidia/version": "\n"}),
    ("psi", "strix-halo-busy", {"proc/pressure/memory": None}),
    ("ray", "gb10", {key: text for key, text in vllm("").items() if "environ" not in key}),
    ("largest_free_block", "jetson-orin-nano", {"proc/buddyinfo": "nothing\n"}),
]


def judged(tree, files, check, *words):
    with tempfile.TemporaryDirectory() as folder:
        told = ask("doctor", changed(tree, files, folder), *words)
    return next((row for row in told["checks"] if row["id"] == check), None)


def wrong_and_right(fixes):
    for check, tree, wrong, right in BOTH:
        bad, good = judged(tree, wrong, check), right is None or judged(tree, right, check)
        if not bad or bad["status"] not in ("advice", "problem"):
            yield f"{check} on {tree} with {wrong}: {bad}"
        if right is not None and (not good or good["status"] != "ok"):
            yield f"{check} on {tree} with {right}: {good}"
        fixes.append(bad)
    for check, tree, files in UNKNOWN:
        told = judged(tree, files, check)
        if not told or told["status"] != "unknown":
            yield f"{check} on {tree} without what tells it: {told}"


CONF = """engines: {{llama-server: {{path: /no/such/llama-server}}}}
models:
  quiet: {{engine: llama-server, file: {model}, context: 2048}}
  chat: {{engine: llama-server, file: {model}, context: 2048, env: {{{env}}}}}
"""

# A variable in a model's env:, the check, and whether it is wrong there.
CONFIGURED = [
    ("GGML_CUDA_ENABLE_UNIFIED_MEMORY: '0'", "unified_memory_env", "strix-halo-gtt", True),
    ("HSA_OVERRIDE_GFX_VERSION: 11.0.0", "hsa_override", "strix-halo-gtt", True),
    ("HSA_XNACK: '1'", "hsa_caps", "strix-halo-gtt", True),
    ("GPU_MAX_ALLOC_PERCENT: '100'", "hsa_caps", "strix-halo-gtt", True),
    ("PYTORCH_ALLOC_CONF: 'expandable_segments:True'", "torch_alloc", "strix-halo-gtt", False),
    ("SOMETHING_ELSE: '1'", "unified_memory_env", "strix-halo-gtt", False),
]


def configured(fixes):
    model = TREES.parent / "corpus/gguf/llama3-8b.gguf"
    for env, check, tree, wrong in CONFIGURED:
        with tempfile.TemporaryDirectory() as folder:
            conf = pathlib.Path(folder) / "cotenant.yaml"
            conf.write_text(CONF.format(model=model, env=env))
            told = judged(tree, {}, check, "-f", str(conf))
        if (told["status"] == "advice") != wrong or (wrong and "for chat" not in told["found"]):
            yield f"{env} of a model: {told}"
        fixes.append(told)


def a_configuration_that_cannot_be_used_is_an_error():
    with tempfile.TemporaryDirectory() as folder:
        broken = pathlib.Path(folder) / "broken.yaml"
        broken.write_text("models: [\n")
        for path in ("/nonexistent.yaml", str(broken)):
            words = [PROGRAM, "doctor", "--root", str(TREES / "cpu"), "-f", path]
            done = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=20)
            check = subprocess.run([PROGRAM, "check", "-f", path], capture_output=True, text=True, timeout=20)
            if done.returncode != check.returncode or not done.stderr or done.stdout:
                yield f"doctor -f {path} ended with {done.returncode} (check: {check.returncode}): {done.stdout[:80]}{done.stderr}"


EVERY_SETTING = {VM + name: value for name, value in (
    ("swappiness", "60\n"), ("min_free_kbytes", "1000\n"), ("watermark_scale_factor", "10\n"), ("watermark_boost_factor", "15000\n"),
    ("compaction_proactiveness", "60\n"), ("compact_unevictable_allowed", "1\n"), ("overcommit_memory", "2\n"))} | {
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise never\n",
    "proc/meminfo": lambda text: line("Mlocked:", "20000000 kB")(line("SwapTotal:", "9000000 kB")(line("SwapFree:", "9000000 kB")(text)))}


def fixes_can_be_carried_out(fixes):
    """Of all that were given: each tells whether it lasts, none has a word to be replaced, no two write one file."""
    for tree in ("strix-halo-busy", "gb10-loaded", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            fixes += ask("doctor", changed(tree, EVERY_SETTING, folder))["checks"]
    for tree in sorted(path.name for path in TREES.iterdir() if path.is_dir()):
        fixes += ask("doctor", TREES / tree)["checks"]
    writers = {}
    for check in fixes:
        fix = check["fix"] if check["status"] in ("advice", "problem") else ""
        if fix and not re.search(r"\((then |in \S+ it )?lasts|\(until|it lasts\)", fix):
            yield f"{check['id']}: does it last? {fix}"
        if re.search(r"=VALUE|\bUSER\b", fix):
            yield f"{check['id']}: a word is to be replaced: {fix}"
        for file in re.findall(r"(?<!>)> (/\S+?)(?=[;\s]|$)", fix):
            writers.setdefault(file, set()).add(check["id"])
    yield from (f"{sorted(names)} write {file}" for file, names in writers.items() if len(names) > 1)
    if len([file for file in writers if "sysctl.d" in file]) < 6:
        yield f"only {sorted(writers)} were written"


# Of a machine: what changes, what is then so in memory's answer, and codes of warnings that are or are not there.
XE_SILENT = lambda text: re.sub(r'"used_bytes": \d+', '"used_bytes": 0', text)
GAME = {"proc/950/status": "Name:\tgame\nRssAnon:\t204800 kB\n", "proc/950/fdinfo/9":
        "drm-driver:\txe\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t7\ndrm-resident-system:\t0\ndrm-resident-gtt:\t2048 MiB\n"
        "drm-resident-vram0:\t8192 MiB\n"}
XE_CARD = json.dumps({"page_bytes": 4096, "xe_regions": [
    {"card": "card0", "class": "sysmem", "total_bytes": 33178619904, "used_bytes": 0},
    {"card": "card0", "class": "vram", "total_bytes": 12 << 30, "used_bytes": 0}]})


def use_that_is_not_told():
    """xe tells nobody without CAP_PERFMON: what clients tell is the least, and nobody is accused of a leak."""
    with tempfile.TemporaryDirectory() as folder:
        copy = changed("lunar-lake-xe", {"calls.json": XE_SILENT, **GAME}, folder)
        silent, told = ask("memory", copy), ask("memory", TREES / "lunar-lake-xe")
        orphans = next(row for row in ask("doctor", copy)["checks"] if row["id"] == "gpu_orphans")
    if orphans["status"] != "unknown" or "CAP_PERFMON" not in orphans["found"]:
        yield f"an APU of xe that does not tell: {orphans}"
    codes = {warning["code"] for warning in silent["warnings"]}
    caps = [view["bytes"] for view in silent["pools"][0]["views"] if view["name"] == "xe_sysmem"]
    if "use_unknown" not in codes or codes & {"drift", "gpu_memory_without_owner"} or len(caps) != 1:
        yield f"an APU of xe that does not tell: {codes} {caps}"
    if silent["runtimes"]["vulkan"]["allocatable_bytes"] > told["runtimes"]["cpu"]["allocatable_bytes"]:
        yield "more may be taken of what does not tell"
    with tempfile.TemporaryDirectory() as folder:
        memory = ask("memory", changed("lunar-lake-xe", {"calls.json": XE_CARD, **GAME}, folder))
    pools = {pool["name"]: pool for pool in memory["pools"]}
    game = [owner["by_pool"]["vram-card0"] for owner in memory["owners"] if owner["name"] == "game"]
    if pools["vram-card0"]["unreclaimable_bytes"] != 8 << 30 or pools["vram-card0"]["free_bytes"] > 4 << 30 or game != [8 << 30]:
        yield f"a card of xe that does not tell: {pools['vram-card0']} {game}"
    messages = [warning["message"] for warning in memory["warnings"] if warning["code"] == "use_unknown"]
    if not any("8192 MiB" in message and "CAP_PERFMON" in message for message in messages):
        yield f"a card of xe that does not tell: {messages}"


NOUVEAU = {CARD + "uevent": "DRIVER=nouveau\nPCI_SLOT_NAME=0000:01:00.0\n", CARD + "vendor": "0x10de\n", CARD + "device": "0x2684\n",
           "proc/60/status": "Name:\tgame\nRssAnon:\t100000 kB\n", "proc/60/fdinfo/7":
           "drm-driver:\tnouveau\ndrm-pdev:\t0000:01:00.0\ndrm-client-id:\t3\ndrm-resident-vram:\t3072 MiB\ndrm-memory-gart:\t512 MiB\n",
           "proc/60/fdinfo/8": "drm-driver:\tnouveau\ndrm-pdev:\t0000:01:00.0\ndrm-client-id:\t4\ndrm-memory-vram:\t1024 MiB\n"}


def a_card_that_is_left_out():
    """nouveau tells no size: no pool, but who holds what of it is told, and of the RAM it is counted."""
    with tempfile.TemporaryDirectory() as folder:
        copy = changed("gb10-boot", {"calls.json": '{"page_bytes": 4096}', "proc/cpuinfo": "vendor_id : GenuineIntel\n", **NOUVEAU}, folder)
        memory, doctor = ask("memory", copy), ask("doctor", copy)
    game = next((owner for owner in memory["owners"] if owner["name"] == "game"), {})
    if game.get("left_out_bytes") != 4 << 30 or game["measured_bytes"] != (512 << 20) + (100000 << 10):
        yield f"a client of nouveau: {game}"
    if not any(w["code"] == "left_out_in_use" and "4.00 GiB" in w["message"] for w in memory["warnings"]):
        yield f"a card that is left out is not told: {memory['warnings']}"
    told = next((row for row in doctor["checks"] if row["id"] == "nouveau"), None)
    if not told or told["status"] != "advice" or "4096 MiB" not in told["found"] or "(lasts)" not in told["fix"]:
        yield f"nouveau: {told}"
    if any(row["id"] == "nouveau" for row in ask("doctor", TREES / "cpu")["checks"]):
        yield "nouveau where there is none"


def main():
    fixes = []
    faults = [*wrong_and_right(fixes), *configured(fixes), *a_configuration_that_cannot_be_used_is_an_error(),
              *fixes_can_be_carried_out(fixes), *use_that_is_not_told(), *a_card_that_is_left_out()]
    print("\n".join(faults) or f"{len(BOTH) + len(UNKNOWN) + len(CONFIGURED)} judgements, {len(fixes)} fixes")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
