"""catalogue: which model files are there, and what each is.

Nothing is told from a file's name: the program itself reads the header (`cotenant estimate FILE`).
"""
import dataclasses
import json
import os
import subprocess

KINDS = {  # what the demo shows, and what a person's folder has to hold for it
    "chat": "a chat model (.gguf)",
    "code": "a second chat model (.gguf)",
    "embed": "an embedding model (.gguf of BERT's kind)",
    "speech": "a Whisper model (ggml, such as ggml-base.en.bin)",
    "image": "a Stable Diffusion checkpoint (.safetensors)",
}
ENGINE = {"chat": "llama", "code": "llama", "embed": "llama", "speech": "whisper", "image": "sd"}
OURS = {  # in the folder that tools/prepare makes
    "chat": ("7b.gguf", "the shape of a 7B", {"context": 4096, "aliases": ["gpt-4o"]}),
    "code": ("3b.gguf", "the shape of a 3B", {"context": 4096}),
    "embed": ("embed.gguf", "all-MiniLM-L6-v2, trained", {}),
    "speech": ("whisper.bin", "Whisper tiny.en, trained", {"args": "-ac 512"}),
    "image": ("image.safetensors", "the shape of Stable Diffusion 1.5", {}),
}
# The shapes have no training: by construction the one says this whatever it is asked, the other that.
SAYS = {"chat": "It is shared : each gives back what was taken .", "code": "def square(x): return x*x"}
IMAGES = {"sd1", "sd2", "sdxl", "sd3", "flux"}


def short(path):
    """As people write it, and as a configuration takes it."""
    home = os.path.expanduser("~") + "/"
    return "~/" + path[len(home):] if path.startswith(home) else path


@dataclasses.dataclass
class Model:
    name: str
    path: str
    about: str
    settings: dict
    is_ours: bool

    def line(self):
        """Its line in the configuration."""
        rest = "".join(f", {key}: {json.dumps(value)}" for key, value in self.settings.items())
        return f"  {self.name + ':':<7} {{engine: {ENGINE[self.name]}, file: {json.dumps(short(self.path))}{rest}}}"


def ours(folder):
    return [Model(name, os.path.join(folder, file), about, settings, True)
            for name, (file, about, settings) in OURS.items()]


def is_candidate(path):
    """Begins it like a model? So that no other file is asked about."""
    if "-of-" in path and "-00001-of-" not in path:
        return False  # a later part of a split model
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
    except OSError:
        return False
    return begin in (b"GGUF", b"lmgg") or path.endswith(".safetensors")


def look(cotenant, path):
    """(kind, what `estimate` says), or (None, why not)."""
    done = subprocess.run([cotenant, "estimate", path, "--json"], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[0] if done.stderr.strip() else "not understood"
    seen = json.loads(done.stdout)
    family = seen["architecture"]
    if seen["fits"] == "never":
        return None, "it can never fit on this machine"
    if family == "whisper":
        return "speech", seen
    if family in IMAGES:
        return "image", seen
    if family == "clip" or path.endswith(".safetensors"):
        return None, f"{family}: a part of another model, or of no kind that an engine here runs"
    return "embed" if seen["encoder"] else "chat", seen


def theirs(cotenant, folder):
    """([Model], [(file, why it is left out)]) of a person's folder: one of a kind, two that chat."""
    found, left = {"chat": [], "embed": [], "speech": [], "image": []}, []
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if not is_candidate(path):
                continue
            kind, seen = look(cotenant, path)
            if kind:
                found[kind].append((seen["peak_bytes"], path))
            else:
                left.append((os.path.relpath(path, folder), seen))
    chosen = {}
    largest_first = [path for _, path in sorted(found["chat"], reverse=True)]
    chosen.update(zip(("chat", "code"), largest_first))
    if chosen.get("code") and "cod" in os.path.basename(chosen["chat"]).lower():
        chosen["chat"], chosen["code"] = chosen["code"], chosen["chat"]
    for kind in ("embed", "speech", "image"):
        for _, path in sorted(found[kind])[:1]:
            chosen[kind] = path
    taken = set(chosen.values())
    left += [(os.path.relpath(path, folder), f"one {kind} model is enough to show")
             for kind, rows in found.items() for _, path in rows if path not in taken]
    return [Model(kind, chosen[kind], os.path.basename(chosen[kind]),
                  {"context": 4096} if kind in ("chat", "code") else {}, False)
            for kind in KINDS if kind in chosen], left
