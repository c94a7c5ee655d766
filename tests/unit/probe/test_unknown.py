"""What a machine does not tell is not known, and never 0: as JSON null, as text "unknown", and named."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
TREES = pathlib.Path(sys.argv[2]).resolve()


def run(verb, root, *words):
    done = subprocess.run([PROGRAM, verb, "--root", str(root), *words], capture_output=True, timeout=20, text=True,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, f"{root}: {verb} ended with {done.returncode}: {done.stderr[-800:]}"
    return done.stdout


def ask(verb, root):
    return json.loads(run(verb, root, "--json"))


def without(tree, folder, *names):
    """A copy whose meminfo lacks these lines; of no names, whose meminfo is gone."""
    copy = pathlib.Path(folder) / tree
    shutil.copytree(TREES / tree, copy)
    path = copy / "proc/meminfo"
    if names:
        path.write_text("".join(line for line in path.read_text().splitlines(True) if line.split(":")[0] not in names))
    else:
        path.unlink()
    return copy


# Lines of meminfo, what is then null of the RAM, and which checks know nothing.
LINES = [
    (("HugePages_Total",), (), ("huge_pages",)),
    (("Hugetlb",), ("huge_pages_bytes",), ("huge_pages",)),
    (("SwapTotal",), ("swap_bytes",), ("swap", "swappiness")),
    (("SwapFree",), ("swap_free_bytes",), ("swap",)),
    (("Shmem",), ("shared_bytes",), ("tmpfs",)),
    (("AnonPages",), ("drift_bytes",), ()),
]
OF_RAM = ("huge_pages_bytes", "swap_bytes", "swap_free_bytes", "shared_bytes", "drift_bytes")


def lines_that_are_missing():
    for names, fields, checks in LINES:
        with tempfile.TemporaryDirectory() as folder:
            copy = without("strix-halo-busy", folder, *names)
            ram, status = ask("memory", copy)["pools"][0], {row["id"]: row for row in ask("doctor", copy)["checks"]}
        for field in OF_RAM:
            if (ram[field] is None) != (field in fields):
                yield f"without {names} {field} is {ram[field]}"
        for check in checks:
            if status[check]["status"] != "unknown":
                yield f"without {names}: {status[check]}"


def machines_without_meminfo():
    for tree in ("a10g", "rtx5090-rtx3090", "rx7900gre", "strix-halo-64g-carveout", "gh200", "gb10", "jetson-agx-orin", "cpu"):
        whole = ask("memory", TREES / tree)
        with tempfile.TemporaryDirectory() as folder:
            copy = without(tree, folder)
            memory, text = ask("memory", copy), run("memory", copy)
            ask("doctor", copy)
        before = {pool["name"]: pool for pool in whole["pools"] if pool["name"] != "ram"}
        after = {pool["name"]: pool for pool in memory["pools"]}
        if set(before) != set(after):
            yield f"{tree} without meminfo has {sorted(after)}, not {sorted(before)}"
        for name in set(before) & set(after):
            if any(before[name][key] != after[name][key] for key in ("size_bytes", "unreclaimable_bytes", "free_bytes")):
                yield f"{tree} without meminfo: {name} is {after[name]}"
        if memory["runtimes"]["cpu"]["allocatable_bytes"] is not None or "on cpu now is unknown" not in text:
            yield f"{tree} without meminfo: {memory['runtimes']['cpu']}"
        if any(owner["kind"] == "system" for owner in memory["owners"]):
            yield f"{tree} without meminfo: {memory['owners']}"
        if not any("/proc/meminfo" in warning["message"] for warning in memory["warnings"]):
            yield f"{tree} without meminfo is not told"
        if tree in ("gb10", "jetson-agx-orin") and memory["runtimes"]["cuda"]["allocatable_bytes"] is not None:
            yield f"{tree} without meminfo: {memory['runtimes']['cuda']}"
        if tree == "a10g" and memory["runtimes"]["cuda"] != whole["runtimes"]["cuda"]:
            yield f"{tree} without meminfo: {memory['runtimes']['cuda']}"


def machines_without_available():
    """Recorded machines keep the kernel's identity, so that what is made of the parts is what was told."""
    for tree in ("gb10", "gb10-loaded", "strix-halo-gtt", "strix-halo-busy", "a10g", "jetson-orin-nano", "strix-halo-64g-wrong-name"):
        whole = ask("memory", TREES / tree)
        with tempfile.TemporaryDirectory() as folder:
            memory = ask("memory", without(tree, folder, "MemAvailable"))
        for before, after in zip(whole["pools"], memory["pools"]):
            if before["name"] != after["name"] or abs(before["free_bytes"] - after["free_bytes"]) > 1 << 20:
                yield f"{tree} without MemAvailable: {after['name']} {after['free_bytes']}, told: {before['free_bytes']}"
        if memory["topology"] != whole["topology"] or len(memory["pools"]) != len(whole["pools"]):
            yield f"{tree} without MemAvailable is {memory['topology']}"
        if not any("MemAvailable" in warning["message"] for warning in memory["warnings"]):
            yield f"{tree} without MemAvailable is not told"
    with tempfile.TemporaryDirectory() as folder:
        copy = without("gb10", folder, "MemAvailable")
        (copy / "proc/zoneinfo").unlink()
        memory = ask("memory", copy)
    if memory["pools"][0]["free_bytes"] > ask("memory", TREES / "gb10")["pools"][0]["free_bytes"]:
        yield f"gb10 with neither: {memory['pools'][0]['free_bytes']}"


def nothing_and_unknown_in_words():
    text = run("memory", TREES / "strix-halo-64g-carveout")
    row = next((line for line in text.splitlines() if line.startswith("not identified")), "")
    if not re.match(r"not identified +unknown +0 B +57\.1 GiB", row):
        yield f"who is not known: {row!r}"
    if re.search(r"^(\S.*\s)-\s", text[text.index("OWNER"):], flags=re.M):
        yield "a size is a dash"


# What vendors' tools say of a machine, and which number is used: words of what is found.
TOOLS = [
    ("gb10", ("nvidia-smi says N/A", "CUDA says 7607 MiB", "used are 107595 MiB")),
    ("strix-halo-110g", ("rocm-smi shows the carve-out of 512 MiB", "used are 112640 MiB")),
    ("strix-halo-gtt", ("HIP says more is free",)),
    ("strix-halo-64g-carveout-no-limit", ("HIP says that 60385 MiB are free", "52224 MiB can be had")),
    ("strix-halo-64g-heaps", ("Vulkan's heaps are 114329 MiB together",)),
    ("rx7900gre", ()),
]


def tools_that_disagree():
    for tree, words in TOOLS:
        check = next(row for row in ask("doctor", TREES / tree)["checks"] if row["id"] == "vendor_values")
        if check["status"] != ("advice" if words else "ok") or any(word not in check["found"] for word in words):
            yield f"{tree}: {check}"


def main():
    faults = [*lines_that_are_missing(), *machines_without_meminfo(), *machines_without_available(), *nothing_and_unknown_in_words(),
              *tools_that_disagree()]
    print("\n".join(faults) or "what is not told is not known")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
