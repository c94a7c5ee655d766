"""What prepares the tests and the demo: a model is made once, whatever the times of its scripts say."""
import os
import shutil
import subprocess

from harness import ROOT


def make(scripts, out, *arguments):
    done = subprocess.run([scripts / "once", out, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return "making" in done.stderr


def test_a_model_is_made_again_where_its_script_says_another_thing_and_not_for_a_fresh_clone(tmp_path):
    scripts, out = tmp_path / "clone", tmp_path / "tiny.gguf"
    shutil.copytree(ROOT / "tools" / "models", scripts)
    assert make(scripts, out, "make_gguf.py", "tiny", "@") and out.stat().st_size > 0
    inode = out.stat().st_ino
    for script in scripts.iterdir():  # as in a clone that was made just now
        os.utime(script, (out.stat().st_mtime + 100,) * 2)
    assert not make(scripts, out, "make_gguf.py", "tiny", "@") and out.stat().st_ino == inode
    with open(scripts / "gguf.py", "a") as module:  # which make_gguf.py imports
        module.write("\n")
    assert make(scripts, out, "make_gguf.py", "tiny", "@")
    assert make(scripts, out, "make_gguf.py", "tiny", "@", "--say", "another thing")
    out.unlink()
    assert make(scripts, out, "make_gguf.py", "tiny", "@", "--say", "another thing")
    assert not list(tmp_path.glob("*.new"))
