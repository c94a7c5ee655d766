"""The program on recorded machines of each platform: every number of expected.json, and on the same machines damaged.

A recording that was cut, garbled or lost files is told as far as it goes; it never ends in a crash, what is said to be
free is never more than is physically there, and what a file that cannot be read would have forbidden is never
allowed in silence.
"""
import functools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
TREES = pathlib.Path(sys.argv[2]).resolve()
ROUNDS = int(os.environ.get("ROUNDS", "3"))
ALWAYS = {"baseline_from_one_reading", "gpu_owners_unknown", "over_capacity", "drift", "device_suspended"}


def ask(verb, root):
    done = subprocess.run([PROGRAM, verb, "--root", str(root), "--json"], capture_output=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")})
    assert done.returncode == 0, f"{root}: {verb} ended with {done.returncode}: {done.stderr[-800:]}"
    return json.loads(done.stdout)


def differences(expected, memory):
    """Lines of text, one for each number that is not as expected."""
    pools = {pool["name"]: pool for pool in memory["pools"]}
    if memory["topology"] != expected["topology"]:
        yield f"topology {memory['topology']}, expected {expected['topology']}"
    if set(pools) != set(expected["pools"]):
        yield f"pools {sorted(pools)}, expected {sorted(expected['pools'])}"
    for name, fields in expected["pools"].items():
        for key, bytes_ in fields.items():
            if pools.get(name, {}).get(key) != bytes_:
                yield f"{name}.{key} = {pools.get(name, {}).get(key)}, expected {bytes_}"
    for name, bytes_ in expected["runtimes"].items():
        found = memory["runtimes"][name]["allocatable_bytes"]
        if found != bytes_:
            yield f"{name} could take {found}, expected {bytes_}"
    roles = {view["name"]: view["used_as"] for pool in memory["pools"] for view in pool["views"]}
    for name, role in expected.get("views", {}).items():
        if roles.get(name) != role:
            yield f"view {name} is used as {roles.get(name)}, expected {role}"
    found = {warning["code"] for warning in memory["warnings"]} - ALWAYS
    if found != set(expected["warnings"]) - ALWAYS:
        yield f"warnings {sorted(found)}, expected {expected['warnings']}"
    owners = {owner["name"]: [owner["kind"], owner["measured_bytes"]] for owner in memory["owners"]}
    for name, owner in expected.get("owners", {}).items():
        if owners.get(name) != owner:
            yield f"owner {name} is {owners.get(name)}, expected {owner}"


def impossible(memory):
    """What can be true of no machine."""
    size = {pool["name"]: pool["size_bytes"] for pool in memory["pools"]}
    for pool in memory["pools"]:
        for key in ("capacity_bytes", "usable_bytes", "unreclaimable_bytes", "free_bytes", "foreign_bytes"):
            if not 0 <= pool[key] <= pool["size_bytes"]:
                yield f"{pool['name']}.{key} = {pool[key]} of {pool['size_bytes']}"
        if pool["usable_bytes"] > pool["capacity_bytes"]:
            yield f"{pool['name']}: {pool['usable_bytes']} usable of a capacity of {pool['capacity_bytes']}"
        if pool["free_bytes"] > pool["size_bytes"] - pool["unreclaimable_bytes"]:
            yield f"{pool['name']}: {pool['free_bytes']} free, {pool['unreclaimable_bytes']} of {pool['size_bytes']} used"
    for name, runtime in memory["runtimes"].items():
        if not 0 <= (runtime["allocatable_bytes"] or 0) <= sum(size.values()):
            yield f"{name} could take {runtime['allocatable_bytes']} of {sum(size.values())}"
    used = sum(pool["unreclaimable_bytes"] for pool in memory["pools"])
    owned = sum(owner["measured_bytes"] for owner in memory["owners"])
    if owned != used:
        yield f"owners have {owned}, {used} are used"


def misjudged(expected, doctor):
    status = {check["id"]: check["status"] for check in doctor["checks"]}
    if len(status) != len(doctor["checks"]):
        yield "doctor: a check is there twice"
    for check in doctor["checks"]:
        if set(check) < {"id", "status", "found", "wanted", "why", "fix"}:
            yield f"doctor: {check['id']} lacks a field"
        if check["status"] in ("problem", "advice") and not (check["why"] and check["wanted"]):
            yield f"doctor: {check['id']} is not explained"
    for name, wanted in expected.get("doctor", {}).items():
        if status.get(name) != wanted:
            yield f"doctor: {name} is {status.get(name)}, expected {wanted}"


def recording_is_read_again():
    """This machine, saved and read: the same size; and nothing of a person in it."""
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "saved"
        secret = "a-secret-in-the-environment"
        done = subprocess.run([PROGRAM, "doctor", "--record", str(saved), "--json"], capture_output=True, timeout=60, text=True,
                              env={**os.environ, "COTENANT_SECRET": secret})
        if done.returncode != 0:
            return [f"doctor --record ended with {done.returncode}: {done.stderr}"]
        total = next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))
        memory = ask("memory", saved)
        faults = [] if memory and memory["pools"][0]["size_bytes"] == int(total) * 1024 else ["the recording differs"]
        for check in ("cgroup", "swappiness", "overcommit", "thp", "min_free", "watermark_scale", "memlock", "psi"):
            live, again = (next(row["status"] for row in told["checks"] if row["id"] == check)
                           for told in (json.loads(done.stdout), ask("doctor", saved)))
            faults += [f"{check} is {live} here and {again} of the recording"] if live != again else []
        text = b"".join(path.read_bytes() for path in saved.rglob("*") if path.is_file()).decode(errors="replace")
        private = {word for word in (secret, os.uname().nodename, "test_platforms.py") if len(word) > 6}
        faults += [f"the recording holds {word!r}" for word in private if word in text]
        faults += [f"{path} is recorded" for path in saved.rglob("*") if path.name in ("environ", "maps", "comm")]
        return faults


NOBODY = 65534


def as_nobody(*words):
    """As a user that may nothing; None where that user cannot reach the program."""
    def become():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        return subprocess.run([PROGRAM, *words, "--json"], capture_output=True, timeout=60, preexec_fn=become, cwd="/",
                              env={"PATH": "/usr/bin:/bin"})
    except (PermissionError, subprocess.SubprocessError):
        return None


def what_may_not_be_read_is_named():
    """Of this machine, and of a recording some of whose files nobody may read."""
    if os.geteuid() != 0:
        return []
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(TREES / "strix-halo-gtt", copy)
        for name in ("proc/sys/kernel/osrelease", "sys/module/ttm/parameters/pages_limit", "proc/zoneinfo"):
            (copy / name).chmod(0)
        for words in (("--root", str(copy)), ()):
            memory, doctor = as_nobody("memory", *words), as_nobody("doctor", *words)
            if not memory or not doctor:
                return []
            if memory.returncode or doctor.returncode:
                return [f"nobody: {words} ended with {memory.returncode} and {doctor.returncode}: {doctor.stderr[-800:]}"]
            faults += [f"nobody: {text}" for text in impossible(json.loads(memory.stdout))]
            status = {check["id"]: check["status"] for check in json.loads(doctor.stdout)["checks"]}
            wanted = {"kernel": "unknown", "pages_limit": "unknown"} if words else {"privileges": "advice"}
            faults += [f"nobody: {name} is {status.get(name)}" for name in wanted if status.get(name) != wanted[name]]
        (copy / "proc/meminfo").chmod(0)
        for verb in ("memory", "doctor"):
            told = as_nobody(verb, "--root", str(copy))
            rows = json.loads(told.stdout)["inputs"] if told.returncode == 0 else []
            if {"/proc/meminfo": "unreadable"}.items() - {row["name"]: row["state"] for row in rows}.items():
                faults.append(f"nobody: {verb} without meminfo ended with {told.returncode}: {rows} {told.stderr[-300:]}")
    return faults


def damage(path, rng):
    kind = rng.choice(["cut", "garble", "digits", "remove", "folder", "long", "lines", "empty", "fifo", "loop", "giant"])
    data = bytearray(path.read_bytes())
    if kind == "cut":
        data = data[:rng.randrange(len(data) + 1)]
    elif kind == "garble":
        for _ in range(8):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == "digits":
        data = bytearray(bytes(data).replace(b"1", b"9999999"))
    elif kind == "long":
        data = data.rstrip(b"\n") + b"9" * 100000
    elif kind == "lines":
        data = data * 1 + data[: 200] * 20000
    elif kind == "giant":
        data = bytearray(b"x" * 50 + b" 123 kB\n") * 100000
    elif kind == "empty":
        data = b""
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)  # nobody writes: a reader that waits would wait for ever
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind != "remove":
        path.write_bytes(bytes(data))


WAYS = ("garbage", "empty", "fifo", "removed", "folder")


def make_unreadable(path, way):
    path.unlink()
    if way == "garbage":
        path.write_bytes(b"\xff\x00no number here\n" * 3)
    elif way == "empty":
        path.touch()
    elif way == "fifo":
        os.mkfifo(path)
    elif way == "folder":
        path.mkdir()


def allocatable(memory):
    """Of each runtime, what the best device could take and what each could."""
    for name, runtime in memory["runtimes"].items():
        yield name, runtime["allocatable_bytes"]
        for device in runtime.get("devices", []):
            yield f"{name} on {device['name']}", device["allocatable_bytes"]


@functools.cache
def of_tree(tree):
    return ask("memory", tree)


def raised_in_silence(tree, folder, path, way):
    """A file becomes unreadable: no runtime is then said to have more, unless the file is named."""
    name = str(path.relative_to(tree))
    copy = pathlib.Path(folder) / f"{tree.name}-{way}"
    shutil.copytree(tree, copy, symlinks=True)
    make_unreadable(copy / name, way)
    before, memory = dict(allocatable(of_tree(tree))), ask("memory", copy)
    shutil.rmtree(copy)
    named = any("/" + name in warning["message"] for warning in memory["warnings"])
    # What a process' clients tell is said to be the least where its driver does not tell.
    named = named or ("/fdinfo/" in name and any("CAP_PERFMON" in warning["message"] for warning in memory["warnings"]))
    for runtime, bytes_ in allocatable(memory):
        if (bytes_ or 0) > (before.get(runtime) or 0) and not named:
            yield f"{name} ({way}): {runtime} rises from {before.get(runtime, 0)} to {bytes_}, and it is not named"


def of_unreadable_files(rng):
    """Of each machine some files, in one way or another; ROUNDS of them, and all where groups bound us."""
    with tempfile.TemporaryDirectory() as folder:
        for tree in sorted(path for path in TREES.iterdir() if path.is_dir()):
            files = sorted(p for p in tree.rglob("*") if p.is_file() and p.name != "expected.json")
            chosen = rng.sample(files, min(len(files), 2 * ROUNDS))
            chosen = [(path, rng.choice(WAYS)) for path in chosen]
            chosen += [(path, way) for path in files for way in ("garbage", "fifo") if path.match("sys/fs/cgroup/**/*")
                       or path.parent.name == "self"]
            for path, way in chosen:
                yield from (f"{tree.name}: {text}" for text in raised_in_silence(tree, folder, path, way))


# Of a machine, a file that cannot be used, and what is said then: codes of warnings that go, checks of doctor and what
# may be taken; the file is named by both.
UNUSABLE = [
    ("cgroup2", "sys/fs/cgroup/user.slice/memory.current", {"cpu": 0}),
    ("cgroup2", "sys/fs/cgroup/user.slice/memory.max", {}),
    ("cgroup2", "proc/self/cgroup", {}),
    ("cgroup2", "proc/self/mountinfo", {"cpu": 3 << 30}),
    ("hybrid", "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", {"cpu": 0}),
    ("hybrid", "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", {}),
    ("hybrid", "proc/self/cgroup", {}),
    ("container", "sys/fs/cgroup/memory.max", {}),
    ("strix-halo-container", "sys/fs/cgroup/memory.max", {}),
    ("strix-halo-container", "sys/fs/cgroup/memory.current", {"cpu": 0}),
    ("gb10-fragmented", "proc/buddyinfo", {"gone": "fragmented", "fragmentation": "unknown"}),
    ("strix-halo-busy", "sys/class/drm/card0/device/mem_info_vram_total", {}),
    ("gb10", "proc/zoneinfo", {}),
    ("gb10", "calls.json", {}),
    ("strix-halo-gtt", "calls.json", {}),
    ("cpu", "calls.json", {}),
    ("cpu", "proc/vmstat", {}),
    ("cpu", "proc/meminfo", {"cpu": None, "swap": "unknown", "baseline": "unknown", "fragmentation": "unknown"}),
]


def what_is_no_use_is_told():
    for tree, name, wanted in UNUSABLE:
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / "tree"
                shutil.copytree(TREES / tree, copy)
                make_unreadable(copy / name, way)
                memory, doctor = ask("memory", copy), ask("doctor", copy)
            where = f"{tree} without {name} ({way})"
            status = {check["id"]: check["status"] for check in doctor["checks"]}
            row = {row["name"]: row["state"] for row in doctor["inputs"]}.get("/" + name, "ok")
            optional = way == "removed" and name == "proc/buddyinfo"
            if not optional and not any("/" + name in warning["message"] for warning in memory["warnings"]):
                yield f"{where}: memory does not say so"
            if row == "ok" or (not optional and status["inputs"] == "ok"):
                yield f"{where}: doctor does not say so: {row}, {status['inputs']}"
            codes = {warning["code"] for warning in memory["warnings"]}
            for key, value in wanted.items():
                found = (value if value in codes else None) if key == "gone" else status.get(key)
                found = memory["runtimes"]["cpu"]["allocatable_bytes"] if key == "cpu" else found
                if found != (None if key == "gone" else value):
                    yield f"{where}: {key} is {found}, expected {value}"


# Files that doctor alone looks at: with nonsense in them their checks know nothing.
NONSENSE = {
    "strix-halo-busy": {"proc/pressure/memory": "psi", "proc/self/status": "privileges", "proc/self/limits": "memlock",
                        "sys/module/amdgpu/parameters/no_system_mem_limit": "system_mem_limit",
                        "sys/class/drm/card0/device/fw_version/mes_fw_version": "firmware"},
    "jetson-orin-nano": {"sys/block/zram0/disksize": "jetson_zram",
                         "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq": "jetson_clocks"},
}


def nonsense_is_unknown():
    for tree, files in NONSENSE.items():
        for name, check in files.items():
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / "tree"
                shutil.copytree(TREES / tree, copy)
                assert (copy / name).exists(), f"{tree}/{name}"
                make_unreadable(copy / name, "garbage")
                status = {row["id"]: row["status"] for row in ask("doctor", copy)["checks"]}
            if status[check] != "unknown":
                yield f"{tree}: with nonsense in {name} {check} is {status[check]}"


def a_silent_nvml_is_told():
    """A driver that runs and a library that does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(TREES / "rtx5090-rtx3090", copy)
        (copy / "calls.json").write_text("{}")
        (copy / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
        (copy / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n")
        memory, doctor = ask("memory", copy), ask("doctor", copy)
    check = next(check for check in doctor["checks"] if check["id"] == "inputs")
    if not any("NVML" in warning["message"] for warning in memory["warnings"]) or "NVML" not in check["found"]:
        yield f"a silent NVML is not told: {check}"


def wsl_is_named_where_it_is():
    """The kernel is told of everywhere, under its own name; what is said of WSL only there."""
    for tree in ("cpu", "strix-halo-gtt", "rtx5090-rtx3090"):
        for release in ("5.15.153.1-microsoft-standard-WSL2", "6.18.44"):
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / "tree"
                shutil.copytree(TREES / tree, copy)
                (copy / "proc/sys/kernel/osrelease").write_text(release + "\n")
                checks = {check["id"]: check for check in ask("doctor", copy)["checks"]}
            wanted = "advice" if "WSL" in release else None
            if checks.get("wsl", {}).get("status") != wanted or release not in checks.get("kernel", {}).get("found", ""):
                yield f"{tree} with {release}: {checks.get('wsl')}, {checks.get('kernel')}"


def put(calls, path, value):
    *folders, last = path
    for name in folders:
        calls = calls[name] if isinstance(name, int) else calls.setdefault(name, {})
    calls[last] = value


# Of a machine, what a vendor's interface says, and what it says it of.
LIES = [
    ("strix-halo-gtt", ("kfd_available_bytes",), 99999999999999, "KFD"),
    ("rx7900gre", ("hip", "total_bytes"), 10**15, "HIP"),
    ("rx7900gre", ("hip", "total_bytes"), 10**18, "HIP"),
    ("rtx5090-rtx3090", ("nvml", 0, "total_bytes"), 10**15, "NVML"),
    ("gb10", ("cuda", "total_bytes"), 10**15, "CUDA"),
    ("gb10-loaded", ("nvml", 0, "processes", 0, "used_bytes"), 10**13, "NVML"),
    ("intel-xe-half", ("xe_regions", 0, "used_bytes"), 10**11, "card0"),
    ("intel-xe-half", ("xe_regions", 0, "total_bytes"), 10**12, "card0"),
]


def lies_are_told():
    for tree, path, value, who in LIES:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "tree"
            shutil.copytree(TREES / tree, copy)
            calls = json.loads((copy / "calls.json").read_text())
            put(calls, path, value)
            (copy / "calls.json").write_text(json.dumps(calls))
            memory, doctor = ask("memory", copy), ask("doctor", copy)
        told = [warning["message"] for warning in memory["warnings"] if warning["code"] == "vendor_value"]
        status = {check["id"]: check["status"] for check in doctor["checks"]}.get("vendor_values", "advice")
        if not any(who in message for message in told) or status != "advice":
            yield f"{tree}: {path} = {value} is not told: {told}, {status}"
        yield from (f"{tree}: {path} = {value}: {text}" for text in impossible(memory))
    for name, mib in (("mem_info_vram_used", 1024), ("mem_info_gtt_used", 200 * 1024)):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "tree"
            shutil.copytree(TREES / "strix-halo-gtt", copy)
            (copy / "sys/class/drm/card0/device" / name).write_text(f"{mib << 20}\n")
            told = [warning["message"] for warning in ask("memory", copy)["warnings"]]
        if not any("counts as full" in message for message in told):
            yield f"{name} over its total is not told: {told}"


# What is of another kind than it should be is as good as not told.
MISSHAPEN = [
    ("gb10", ("nvml",), 5),
    ("gb10", ("cuda",), []),
    ("gb10-loaded", ("nvml", 0, "processes", 0, "used_bytes"), "much"),
    ("strix-halo-gtt", ("amdgpu_is_apu", "card0"), "yes"),
    ("strix-halo-gtt", ("kfd_available_bytes",), -7),
    ("intel-xe-half", ("xe_regions", 0), None),
    ("cpu", ("page_bytes",), "4096"),
]


def misshapen_calls_are_told():
    for tree, path, value in MISSHAPEN:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "tree"
            shutil.copytree(TREES / tree, copy)
            calls = json.loads((copy / "calls.json").read_text())
            put(calls, path, value)
            (copy / "calls.json").write_text(json.dumps(calls))
            memory, doctor = ask("memory", copy), ask("doctor", copy)
        rows = {row["name"]: row["state"] for row in doctor["inputs"]}
        warned = any("/calls.json" in warning["message"] for warning in memory["warnings"])
        if rows.get("/calls.json") != "nonsense" or not warned:
            yield f"{tree}: {path} = {value!r} is not told: {rows.get('/calls.json')}"


def usable_is_within_capacity_in_words():
    """As text no pool is advised to be filled beyond what the reserve leaves."""
    for tree in ("strix-halo-gtt",):
        text = subprocess.run([PROGRAM, "memory", "--root", str(TREES / tree)], capture_output=True, text=True).stdout
        pool = text[text.index("carveout-card0"):].split("\n")
        rows = {line.split()[0]: line.split()[1] for line in pool[1:4]}
        if rows["usable"] != rows["capacity"]:
            yield f"{tree}: usable {rows['usable']} of capacity {rows['capacity']}"


def a_model_is_judged_without_its_engine():
    model = TREES.parent / "corpus/gguf/llama3-8b.gguf"
    with tempfile.TemporaryDirectory() as folder:
        conf = pathlib.Path(folder) / "cotenant.yaml"
        conf.write_text("engines: {llama-server: {path: /no/such/llama-server}}\n"
                        f"models: {{chat: {{engine: llama-server, file: {model}, context: 2048}}}}\n")
        done = subprocess.run([PROGRAM, "doctor", "--root", str(TREES / "strix-halo-gtt"), "-f", str(conf), "--json"],
                              capture_output=True, text=True, timeout=60)
    told = json.loads(done.stdout)
    check = next((check for check in told["checks"] if check["id"] == "quantisation"), None)
    if not check or check["status"] != "ok" or "llama-server is not here" not in check["found"] or len(told["quantisation"]) != 1:
        yield f"without its engine: {check} {told['quantisation']} {done.stderr}"


def damaged_trees(tree, rng, folder):
    for number in range(ROUNDS):
        copy = pathlib.Path(folder) / f"{tree.name}-{number}"
        shutil.copytree(tree, copy, symlinks=True)
        files = sorted(p for p in copy.rglob("*") if p.is_file() and p.name != "expected.json")
        for path in rng.sample(files, min(len(files), rng.randrange(1, 5))):
            damage(path, rng)
        yield copy
        shutil.rmtree(copy)


def main():
    faults, rng = [], random.Random(int(os.environ.get("SEED", "6")))
    trees = sorted(path.parent for path in TREES.glob("*/expected.json"))
    assert len(trees) > 20, "the recorded trees are not there"
    for tree in trees:
        memory = of_tree(tree)
        assert memory, f"{tree} cannot be read"
        expected = json.loads((tree / "expected.json").read_text())
        found = [*differences(expected, memory), *impossible(memory), *misjudged(expected, ask("doctor", tree))]
        faults += [f"{tree.name}: {text}" for text in found]
    faults += recording_is_read_again() + what_may_not_be_read_is_named()
    faults += [*nonsense_is_unknown(), *lies_are_told(), *misshapen_calls_are_told(), *usable_is_within_capacity_in_words()]
    faults += [*wsl_is_named_where_it_is(), *a_model_is_judged_without_its_engine()]
    faults += [*what_is_no_use_is_told(), *a_silent_nvml_is_told(), *of_unreadable_files(rng)]
    with tempfile.TemporaryDirectory() as folder:
        for tree in trees:
            for copy in damaged_trees(tree, rng, folder):
                memory = ask("memory", copy)
                ask("doctor", copy)
                faults += [f"{copy.name} (damaged): {text}" for text in (impossible(memory) if memory else [])]
    print("\n".join(faults) or f"{len(trees)} machines as expected, {len(trees) * ROUNDS} damaged ones survived")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
