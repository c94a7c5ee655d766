"""Warm files: what is likely to be asked for again is read while nothing else is read, and never counts as used."""
import os
import shutil

import pytest

from harness import MIB, MODELS, chat, fake, models, wait_for


def cached(path):
    """Bytes of the file in the page cache, as the machine tells; None where it cannot."""
    import ctypes
    import mmap
    size = os.path.getsize(path)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as view:
        pages = (ctypes.c_ubyte * ((size + 4095) // 4096))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        done = ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
        total = sum(page & 1 for page in pages) * 4096
    return total if done == 0 else None


def drop(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_cold_model_s_file_is_warmed_and_measured(start, tmp_path):
    path = tmp_path / "large.gguf"
    shutil.copy(MODELS / "tiny.gguf", path)
    with open(path, "ab") as file:
        file.write(b"x" * (48 * MIB))
    drop(path)
    if cached(path):
        pytest.skip("this file system keeps its files in memory")
    daemon = start({"large": {**fake(), "file": str(path)}, "stays": fake()}, policy="cotenant", options=["--paranoid"])
    for name in ("large", "large", "stays"):
        assert chat(daemon, name).status == 200
    used = daemon.get("/api/v1/memory")["pools"][0]["unreclaimable_bytes"]
    assert daemon.ask("POST", "/api/v1/models/large/unload", {})[0] == 200
    drop(path)
    wait_for("the file to be warm", lambda: cached(path) >= 48 * MIB)
    wait_for("the daemon to know", lambda: models(daemon)["large"]["warm_bytes"] >= 48 * MIB)
    # Others take and give as well; what is in the cache would stay counted.
    wait_for("what is used to be without it", lambda: daemon.get("/api/v1/memory")["pools"][0]["unreclaimable_bytes"] < used + 40 * MIB)
