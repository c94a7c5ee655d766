"""What public reports measured between two moments: a recorded machine, what changed on it, and how our answer follows.

Each row names what was reported. Counters move as the kernel moves them, so the sum from above and the sum of the
parts have to agree before and after.
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
MIB, GIB = 1 << 20, 1 << 30
GTT_USED = "sys/class/drm/card0/device/mem_info_gtt_used"
GROUP_USED = "sys/fs/cgroup/memory.current"


def ask(verb, root):
    done = subprocess.run([PROGRAM, verb, "--root", str(root), "--json"], capture_output=True, timeout=20,
                          env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, f"{root}: {verb} ended with {done.returncode}: {done.stderr[-800:]}"
    return json.loads(done.stdout)


def counters(**mib):
    """/proc/meminfo with so many MiB more of each."""
    def change(text):
        for name, more in mib.items():
            name = name.replace("_file", "(file)")
            text = re.sub(rf"^({re.escape(name)}: *)(\d+)", lambda m: m[1] + str(int(m[2]) + int(more * 1024)), text, flags=re.M)
        return text
    return {"proc/meminfo": change}


def number(path, mib):
    return {path: lambda text: f"{int(text) + mib * MIB}\n"}


def blocks(**orders):
    """/proc/buddyinfo: so many free blocks of 4 KiB << n in the zone Normal, and nothing else."""
    row = [orders.get(f"order{n}", 0) for n in range(14)]
    return {"proc/buddyinfo": lambda _: "Node 0, zone   Normal " + " ".join(map(str, row)) + "\n"}


def free(mib, **orders):
    """So much is free in all, in these blocks; the page cache has the difference."""
    def change(text):
        more = mib - int(re.search(r"^MemFree: *(\d+)", text, flags=re.M)[1]) / 1024
        return counters(MemFree=more, Cached=-more, Active_file=-more / 2, Inactive_file=-more / 2)["proc/meminfo"](text)
    return {"proc/meminfo": change, **blocks(**orders)}


def compactions(stall, fail):
    return {"proc/vmstat": lambda text: re.sub("compact_fail .*", f"compact_fail {fail}",
                                               re.sub("compact_stall .*", f"compact_stall {stall}", text))}


def calls(change):
    def rewrite(text):
        told = json.loads(text)
        change(told)
        return json.dumps(told)
    return {"calls.json": rewrite}


def region(gib):
    return calls(lambda told: told["xe_regions"][0].update(total_bytes=int(gib * GIB)))


# What was reported; the machine; what changes of its files; by how many MiB what may be taken changes.
MOVES = [
    ("1.6: hipMalloc of 80000 MiB in a container of 72 GiB is GTT, and not charged to it", "strix-halo-container",
     {**counters(MemFree=-80000, MemAvailable=-80000), **number(GTT_USED, 80000)}, {"rocm": -80000}),
    ("1.6: managed memory of 64000 MiB is anonymous, charged, and hardly moves GTT", "strix-halo-container",
     {**counters(MemFree=-64000, MemAvailable=-64000, AnonPages=64000), **number(GROUP_USED, 64000)},
     {"rocm": -64000, "cpu": -64000}),
    ("1.8: 35 GiB of GTT that dead processes hold, where 43122 MiB were", "strix-halo-leak",
     {**counters(MemFree=7282, MemAvailable=7282), **number(GTT_USED, -7282)}, {"rocm": 7282}),
    ("4: 4 GiB of a mapped file are touched: RSS 11.3 -> 4107.3 MiB, MemAvailable 120574.8 -> 120564.0", "gb10-full-cache",
     counters(MemFree=-4096, MemAvailable=-10.75, Cached=4085.25, Active_file=4085.25, AnonPages=10.75), {"cuda": -10.75}),
    ("8: 2 GiB of a driver's pages stand in no counter", "cpu",
     counters(MemFree=-2048, MemAvailable=-2048), {"cpu": -2048}),
    ("8: 2 GiB of a file are locked", "strix-halo-96g",
     counters(MemAvailable=-2048, Active_file=-1024, Inactive_file=-1024), {"cpu": -2048}),
    ("8: 2 GiB of a file are mapped and touched", "gb10-full-cache",
     counters(Mapped=2048), {"cuda": 0}),
    ("8: the page cache is dropped, 4 GB of it", "gb10-full-cache",
     counters(MemFree=4000, Cached=-4000, Active_file=-2000, Inactive_file=-2000), {"cuda": 0}),
]


# The machine, what changes of its files, and what each runtime may then take, in MiB from .. to.
BOUNDS = [
    ("1.6: 112000 MiB were touched by hipMalloc; managed memory: 70000 went in, 80000 was killed", "strix-halo-container", {},
     {"rocm": (80000, 112000), "cpu": (70000, 79999)}),
    ("1.5: 63 GB ended in the OOM killer, 60 did not", "strix-halo-64g-carveout-no-limit", {}, {"rocm": (40000, 63 * 953)}),
    ("1.5: 31.47 GB could be had, 100.66 were said to be free", "strix-halo-96g-carveout-no-limit", {}, {"rocm": (20000, 30012)}),
    ("2.4: 110.2 GiB could be had, the heaps' sum is 111.65", "strix-halo-64g-heaps", {}, {"vulkan": (64 * 1024, 112844)}),
    ("6: half of the RAM may be mapped, 15.77 GiB", "intel-xe-half", region(15.77), {"vulkan": (14000, 16148)}),
    ("6: an override to 27.45 GiB: then the RAM binds", "intel-xe-half", region(27.45), {"vulkan": (23692, 23693)}),
]


# GB10: blocks, compactions and whether a load may fail though memory is available.
BROKEN = [
    ("a fresh boot: 3909 blocks of 1 MiB or more", "gb10-fragmented", blocks(order8=100, order9=309, order10=3500), False),
    ("serving, 138 MB free and no block of 1 MiB", "gb10-low-memfree", free(138, order0=3000, order3=2000, order6=200), True),
    ("serving, 891 MB free, 49 blocks of 1 MiB or more", "gb10-low-memfree", free(891, order0=90000, order7=800, order8=30, order9=19), True),
    ("serving, 383 MB free and no block of 1 MiB", "gb10-low-memfree", free(383, order0=50000, order7=300), True),
    ("serving, 595 MB free, 14 blocks of 1 MiB or more", "gb10-low-memfree", free(595, order0=60000, order7=500, order8=10, order9=4), True),
    ("seven days, 27 blocks of 16 MiB", "gb10-fragmented", {**blocks(order0=4000000, order12=27), **compactions(2700000, 1350000)}, True),
    ("seven days, 5 blocks of 16 MiB", "gb10-fragmented", {**blocks(order0=4000000, order12=5), **compactions(2000000, 800000)}, True),
    ("after dropping and compaction: 55 blocks of 16 MiB", "gb10-fragmented", blocks(order0=4000000, order12=55), True),
    ("after dropping and compaction: 11 blocks of 16 MiB", "gb10-fragmented", blocks(order0=4000000, order12=11), True),
    ("booted: 1417 blocks of 16 MiB, 782 of 32", "gb10-fragmented", blocks(order12=1417, order13=782), False),
    ("90 GiB pinned: 500-650 MiB in blocks of 2 MiB", "gb10-fragmented", blocks(order0=4000000, order9=300), True),
]


# Names on the kernel's command line, and what doctor says of them.
NAMES = [
    ("amdgpu.gttsize=131072", "deprecated"),
    ("amdgpu.gtt_size=131072", "unknown and ignored"),
    ("amdgpu.ttm.pages_limit=31457280", "unknown and ignored"),
]


# What a Jetson's driver may take in one piece: blocks of 4 MiB.
LARGEST = [
    ("5: lfb 512x4MB", blocks(order10=512), "ok"),
    ("a machine that broke up", blocks(order0=100000, order10=3), "problem"),
]


def changed(tree, files, folder):
    copy = pathlib.Path(folder) / tree
    shutil.copytree(TREES / tree, copy)
    for name, change in files.items():
        path = copy / name
        path.write_text(change(path.read_text() if path.exists() else ""))
    return copy


def could_take(root):
    """What each runtime could take, and by how much the two sums differ."""
    memory = ask("memory", root)
    sums = {view["name"]: view["bytes"] for view in memory["pools"][0]["views"]}
    return {name: runtime["allocatable_bytes"] for name, runtime in memory["runtimes"].items()}, sums["U_top"] - sums["U_bot"]


def moves():
    for told, tree, files, wanted in MOVES:
        with tempfile.TemporaryDirectory() as folder:
            before, apart = could_take(TREES / tree)
            after, apart_now = could_take(changed(tree, files, folder))
        for runtime, mib in wanted.items():
            moved = (after[runtime] - before[runtime]) / MIB
            if abs(moved - mib) > 0.01:
                yield f"{told}: {runtime} moves by {moved} MiB, expected {mib}"
        if abs(apart_now - apart) > MIB and "stand in no counter" not in told:
            yield f"{told}: the two sums were {apart} apart and are {apart_now}"


def bounds():
    for told, tree, files, wanted in BOUNDS:
        with tempfile.TemporaryDirectory() as folder:
            after, _ = could_take(changed(tree, files, folder))
        for runtime, (least, most) in wanted.items():
            if not least <= after[runtime] / MIB <= most:
                yield f"{told}: {runtime} could take {after[runtime] / MIB} MiB, expected {least}-{most}"


def broken():
    for told, tree, files, wanted in BROKEN:
        with tempfile.TemporaryDirectory() as folder:
            copy = changed(tree, files, folder)
            warned = any(warning["code"] == "fragmented" for warning in ask("memory", copy)["warnings"])
            judged = next(check for check in ask("doctor", copy)["checks"] if check["id"] == "fragmentation")
        if warned != wanted or (judged["status"] == "problem") != wanted:
            yield f"{told}: broken up is {wanted}; memory {'warns' if warned else 'does not warn'}, doctor: {judged}"


def names():
    for option, told in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            copy = changed("strix-halo-96g", {"proc/cmdline": lambda text: text.strip() + " " + option + "\n"}, folder)
            judged = next(check for check in ask("doctor", copy)["checks"] if check["id"] == "gttsize")
        if judged["status"] == "ok":
            yield f"{option} is {told}, and doctor says {judged}"


def largest():
    for told, files, wanted in LARGEST:
        with tempfile.TemporaryDirectory() as folder:
            copy = changed("jetson-orin-nano", files, folder)
            judged = next(check for check in ask("doctor", copy)["checks"] if check["id"] == "largest_free_block")
        if judged["status"] != wanted:
            yield f"{told}: {judged}, expected {wanted}"


def main():
    faults = [*moves(), *bounds(), *broken(), *names(), *largest()]
    print("\n".join(faults) or f"{len(MOVES) + len(BOUNDS) + len(BROKEN) + len(NAMES) + len(LARGEST)} reports as measured")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
